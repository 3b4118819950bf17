# SPDX-License-Identifier: Apache-2.0
"""Reward hacking made visible: episodes of prl's policy, and what prl and nn-purl pay for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
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

_EPISODES = 16  # of every seed; one of all is shown
_SEED = 7
_PAID: tuple[str, ...] = ("true", "prl", "nn-purl")


@dataclass(frozen=True, kw_only=True)
class Watched:
    """Episodes of prl's policies on one task, judged by both rewards."""

    task: str
    strip: Strip
    """The episode in which prl promises most beyond the truth."""
    returns: Mapping[str, np.ndarray]
    """Of every episode: "true", and what "prl" and "nn-purl" pay."""


def watch(task: str, pairs: Sequence[tuple[Path, Path]], device: str) -> Watched:
    """Episodes of prl's policies and what both rewards pay for them, a seed after the other."""
    place = str(find_device(device))
    # Of each seed the frames of one episode are kept: those of all would fill the memory.
    seeds = [_watch_seed(task, prl, purl, place) for prl, purl in pairs]
    worst = max(seeds, key=lambda seen: float(_beyond_truth(seen.returns).max()))
    returns = {name: np.concatenate([seen.returns[name] for seen in seeds]) for name in _PAID}
    return replace(worst, returns=returns)


def _watch_seed(task: str, prl: Path, purl: Path, place: str) -> Watched:
    """Play episodes of prl's policy and let both rewards judge them."""
    policy = load_policy(prl, device=place)
    env = make(task, _EPISODES, place, seed=_SEED, cameras=True)
    rewards = [load_reward(run, device=place) for run in (prl, purl)]
    stack = policy.config.replay.frame_stack
    by_prl, by_purl = (partial(judge_episode, reward=one, stack=stack) for one in rewards)
    judged = [(by_prl(episode), by_purl(episode)) for episode in rollout(env, policy.act)]
    paid = [(a.episode.rewards.sum(), a.learned.sum(), b.learned.sum()) for a, b in judged]
    returns = dict(zip(_PAID, np.array(paid).T, strict=True))
    worst = int(np.argmax(_beyond_truth(returns)))
    return Watched(task=task, strip=_strip(task, *judged[worst]), returns=returns)


def _beyond_truth(returns: Mapping[str, np.ndarray]) -> np.ndarray:
    return returns["prl"] - returns["true"]


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
