# SPDX-License-Identifier: Apache-2.0
"""Reward hacking made visible: episodes of prl's policy with the rewards of prl and nn-purl."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pureward.data.episodes import Episode
from pureward.diagnostics.evidence import score_episode
from pureward.diagnostics.plot import method_colour
from pureward.diagnostics.strip import Panel, Strip
from pureward.envs import make
from pureward.errors import InputError, SimulationError
from pureward.paper.results import Episodes
from pureward.picture import cameras
from pureward.rewards.saved import load_reward
from pureward.runs.collect import rollout
from pureward.runs.directory import RunDirectory
from pureward.runs.policy import load_policy
from pureward.types import find_device

_EPISODES = 16  # per seed; the strip shows one of all
_SEED = 7


def watch(task: str, pairs: Sequence[tuple[Path, Path]], device: str) -> Episodes | None:
    """Roll out prl's policies and score the episodes with the rewards of prl and nn-purl.

    Args:
        task: of the runs.
        pairs: run directories of prl and nn-purl, one pair per seed.
        device: of policies and rewards.

    Returns:
        Episodes of all seeds that have both rewards and a policy; None if no seed has.
    """
    place = str(find_device(device))
    seen: list[Episodes] = []
    for prl, purl in pairs:
        if not all(RunDirectory(run).reward.exists() for run in (prl, purl)):
            continue
        try:
            seen.append(_watch_seed(task, prl, purl, place))
        except (InputError, SimulationError) as error:
            print(f"  {task}, {prl.name} is skipped: {error}", flush=True)
    if not seen:
        return None
    return Episodes(
        strip=max(seen, key=lambda one: (one.returns["prl"] - one.returns["true"]).max()).strip,
        returns={
            name: np.concatenate([one.returns[name] for one in seen]) for name in seen[0].returns
        },
        seeds=[seed for one in seen for seed in one.seeds],
        planned=len(pairs),
    )


def _watch_seed(task: str, prl: Path, purl: Path, place: str) -> Episodes:
    """Episodes of one seed; only the frames of the strip are kept, to save memory."""
    policy = load_policy(prl, device=place)
    episodes = rollout(make(task, _EPISODES, place, seed=_SEED, cameras=True), policy.act)
    stack = policy.config.replay.frame_stack
    returns = {"true": np.array([float(episode.rewards.sum()) for episode in episodes])}
    paid: dict[str, list[np.ndarray]] = {}
    for name, run in (("prl", prl), ("nn-purl", purl)):
        reward = load_reward(run, device=place)
        scored = [score_episode(episode, reward, stack) for episode in episodes]
        # Rewards may be shifted: `zero` brings them to the scale of the true ones.
        paid[name] = [one.learned.numpy() + reward.zero for one in scored]
        returns[name] = np.array([float(values.sum()) for values in paid[name]])
    worst = int(np.argmax(returns["prl"] - returns["true"]))
    strip = _strip(task, episodes[worst], {name: own[worst] for name, own in paid.items()})
    return Episodes(strip=strip, returns=returns, seeds=[prl.name], planned=1)


def _strip(task: str, episode: Episode, rewards: Mapping[str, np.ndarray]) -> Strip:
    """An episode, with the rewards of each method, (steps,)."""
    assert episode.frames is not None
    tracks = {"true r": (episode.rewards.numpy(), "k")}
    tracks |= {name: (values, method_colour(name) + "--") for name, values in rewards.items()}
    paid = ", ".join(f"{label} {values.sum():.1f}" for label, (values, _) in tracks.items())
    return Strip(
        title=f"{task}, an episode of prl's policy: {paid}",
        frames=np.stack(cameras(episode.frames[1:]), axis=1),
        panels=[Panel(title="reward", tracks=tracks)],
    )
