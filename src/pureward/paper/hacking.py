# SPDX-License-Identifier: Apache-2.0
"""Reward hacking made visible: episodes of prl's policy, and what prl and nn-purl pay for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure as Canvas

from pureward.diagnostics.evidence import Judged, judge_episode
from pureward.diagnostics.strip import Panel, Strip, Track, draw_strips
from pureward.envs import find_device, make
from pureward.errors import InputError
from pureward.paper.numbers import Episodes, Results
from pureward.picture import cameras
from pureward.rewards.learned import LearnedReward
from pureward.rewards.saved import load_reward
from pureward.runs.collect import rollout
from pureward.runs.directory import RunDirectory
from pureward.runs.policy import load_policy

_EPISODES = 16  # of every seed; one of all is shown
_SEED = 7
_PAID: tuple[str, ...] = ("true", "prl", "nn-purl")


@dataclass(frozen=True, kw_only=True)
class Watched:
    """Episodes of prl's policies on one task, judged by both rewards."""

    task: str
    strip: Strip
    """The episode in which prl promises most beyond the truth."""
    episodes: Episodes


def watch(task: str, pairs: Sequence[tuple[Path, Path]], device: str) -> Watched | None:
    """Episodes of prl's policies and what both rewards pay for them, a seed after the other.

    A seed without both rewards or without a policy is left out; None if none is left.
    """
    place = str(find_device(device))
    # Of each seed the frames of one episode are kept: those of all would fill the memory.
    seen: dict[str, _Seen] = {}
    for prl, purl in pairs:
        if not all(RunDirectory(run).reward.exists() for run in (prl, purl)):
            continue
        try:
            seen[prl.name] = _watch_seed(task, prl, purl, place)
        except InputError as error:
            print(f"  {task}, {prl.name} is not watched: {error}", flush=True)
    if not seen:
        return None
    worst = max(seen.values(), key=lambda one: float(_beyond_truth(one.returns).max()))
    returns = {name: np.concatenate([one.returns[name] for one in seen.values()]) for name in _PAID}
    episodes = Episodes(returns=returns, seeds=list(seen), planned=len(pairs))
    return Watched(task=task, strip=worst.strip, episodes=episodes)


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """Episodes of one seed: the worst, and what is paid for each."""

    strip: Strip
    returns: Mapping[str, np.ndarray]


def _watch_seed(task: str, prl: Path, purl: Path, place: str) -> _Seen:
    """Play episodes of prl's policy and let both rewards judge them."""
    policy = load_policy(prl, device=place)
    env = make(task, _EPISODES, place, seed=_SEED, cameras=True)
    rewards = [load_reward(run, device=place) for run in (prl, purl)]
    stack = policy.config.replay.frame_stack
    by_prl, by_purl = (partial(judge_episode, reward=one, stack=stack) for one in rewards)
    judged = [(by_prl(episode), by_purl(episode)) for episode in rollout(env, policy.act)]
    paid = [
        (float(pair[0].episode.rewards.sum()), *map(_promised, pair, rewards)) for pair in judged
    ]
    returns = dict(zip(_PAID, np.array(paid).T, strict=True))
    worst = int(np.argmax(_beyond_truth(returns)))
    return _Seen(strip=_strip(task, *judged[worst]), returns=returns)


def _promised(one: Judged, reward: LearnedReward) -> float:
    """What a reward pays for an episode, counted from where the true one counts."""
    return float(one.learned.sum()) + len(one.learned) * reward.zero


def _beyond_truth(returns: Mapping[str, np.ndarray]) -> np.ndarray:
    return returns["prl"] - returns["true"]


def draw_watched(watched: Sequence[Watched], results: Results) -> Canvas:
    """A strip a task; where there is none, what the first task lacks is told."""
    if not watched:
        results.episodes(results.tasks[0])
    return draw_strips([one.strip for one in watched])


def _strip(task: str, prl: Judged, purl: Judged) -> Strip:
    assert prl.episode.frames is not None
    tracks = [
        Track(label="true r", values=prl.episode.rewards.numpy(), colour="black"),
        Track(label="prl", values=prl.learned.numpy(), colour="tab:blue"),
        Track(label="nn-purl", values=purl.learned.numpy(), colour="tab:orange", style="--"),
    ]
    paid = ", ".join(f"{track.label} {track.values.sum():.1f}" for track in tracks)
    return Strip(
        title=f"{task}, an episode of prl's policy: {paid}",
        frames=np.stack(cameras(prl.episode.frames[1:]), axis=1),
        panels=[Panel(title="reward", tracks=tracks)],
    )
