# SPDX-License-Identifier: Apache-2.0
"""Reward hacking made visible: episodes of prl's policy, and what prl and nn-purl pay for them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure as Canvas

from pureward.env import find_device, make
from pureward.evidence import Judged, judge_episode
from pureward.paper.numbers import UnmeasuredError
from pureward.picture import cameras
from pureward.reward.saved import load_reward
from pureward.run.collect import rollout
from pureward.run.policy import load_policy
from pureward.strip import Panel, Strip, Track, draw_strips

_EPISODES = 16  # played, of which one is shown
_SEED = 7


@dataclass(frozen=True, kw_only=True)
class Watched:
    """Episodes of prl's policy on one task, judged by both rewards."""

    task: str
    strip: Strip
    """The episode in which prl promises most beyond the truth."""
    returns: Mapping[str, np.ndarray]
    """Of every episode: "true", and what "prl" and "nn-purl" pay."""


def watch(task: str, prl: Path, purl: Path, device: str) -> Watched:
    """Play episodes of prl's policy and let both rewards judge them."""
    place = str(find_device(device))
    rewards = {"prl": load_reward(prl, device=place), "nn-purl": load_reward(purl, device=place)}
    policy = load_policy(prl, device=place)
    env = make(task, _EPISODES, place, seed=_SEED, cameras=True)
    stack = policy.config.replay.frame_stack
    episodes = rollout(env, policy.act)
    judged = {
        name: [judge_episode(episode, reward, stack) for episode in episodes]
        for name, reward in rewards.items()
    }
    returns = {
        name: np.array([float(one.learned.sum()) for one in judged[name]]) for name in judged
    }
    returns["true"] = np.array([float(episode.rewards.sum()) for episode in episodes])
    worst = int(np.argmax(returns["prl"] - returns["true"]))
    strip = _strip(task, judged["prl"][worst], judged["nn-purl"][worst])
    return Watched(task=task, strip=strip, returns=returns)


def draw_watched(watched: list[Watched]) -> Canvas:
    """A strip a task."""
    if not watched:
        raise UnmeasuredError("a run of prl and of nn-purl on the same task")
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
