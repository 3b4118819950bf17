# SPDX-License-Identifier: Apache-2.0
"""Collects episodes of a run's policies: demonstrations, or the whole course of its learning."""

import math
import os
import shutil
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import pureward
from pureward.data import pack
from pureward.data.draw import Painter
from pureward.data.episodes import FAILURE, HELD_OUT, TRAIN, Episode
from pureward.data.replay.layout import readable
from pureward.data.writing import write_episodes
from pureward.envs import BatchEnv, find_device, make
from pureward.envs.making import check_name
from pureward.errors import InputError, check_seed
from pureward.files import whole_folder
from pureward.runs.card import describe, write_card
from pureward.runs.policy import load_policy, snapshots
from pureward.types import DRAWN_FROM, Observation, Policy

# Failures are looked for among episodes of this many policies from the whole course of the run,
# and of random actions; each plays as many episodes as failures are wanted.
_FAILING_POLICIES = 7
# First states of data are not those of a run of the same seed, nor of its evaluations.
_COLLECTING_SEED = 2_000_003


@dataclass(frozen=True, kw_only=True)
class Collected:
    """What `collect` wrote."""

    path: Path
    splits: dict[str, Any]
    """Counts, returns and policies of each split, as in the card."""


@dataclass(frozen=True, kw_only=True)
class _Part:
    """Worlds next to each other that one policy acts in."""

    policy: str
    act: Policy
    split: str
    worlds: int


def collect(
    task: str,
    policy: Path,
    out: Path,
    *,
    episodes: int = 50,
    stages: bool = False,
    held_out: int = 10,
    failures: int = 10,
    frames: bool = False,
    compact: bool = False,
    device: str = "auto",
    seed: int = 0,
) -> Collected:
    """Collect greedy episodes of a run as a Minari dataset with a card.

    Args:
        task: a name that `pureward tasks` lists.
        policy: directory of the run whose policies act.
        out: folder of the dataset; it must not exist yet.
        episodes: how many to train on.
        stages: collect from policies over the whole course of the run, with their true rewards,
            as supervision for a reward; otherwise from the last one, as demonstrations.
        held_out: how many more of the same kind to hold out.
        failures: how many episodes that never succeed to hold out for probes; fewer are
            written if the run and random actions do not fail often enough.
        frames: store frames (lossless, large) besides the states they can be drawn from.
        compact: leave out the policy's states and round what frames are drawn from, for a
            smaller dataset.
        device: "auto" (CUDA where there is one), "cpu" or "cuda".
        seed: of the episodes' first states and the random actions.
    """
    check_seed(seed)
    _check(task, policy, out, episodes=episodes, held_out=held_out, failures=failures)
    place = str(find_device(device))
    choose = _course if stages else _last
    parts = choose(policy, place, TRAIN, episodes) + choose(policy, place, HELD_OUT, held_out)
    parts += _clumsy(policy, place, failures, seed)
    with whole_folder(out) as folder:  # claimed before minutes are spent on playing
        env = make(task, sum(part.worlds for part in parts), place, seed=seed + _COLLECTING_SEED)
        played = _label(rollout(env, _together(parts)), parts)
        kept = [episode for episode in played if episode.split != FAILURE]
        kept += _failures([episode for episode in played if episode.split == FAILURE], failures)
        if compact:
            kept = [pack.compact(episode) for episode in kept]
        painter = Painter(task, place)
        _check_space(out, kept, painter if frames else None)
        facts = _facts(policy, env, stages=stages, frames=frames, compact=compact, seed=seed)
        stored = (painter.draw(episode) if frames else episode for episode in kept)
        write_episodes(folder, stored, task=task, name=out.name)
        write_card(folder, kept, painter, facts)
    return Collected(path=out, splits=describe(kept))


@torch.no_grad()
def rollout(env: BatchEnv, act: Policy) -> list[Episode]:
    """One whole episode of every world, with frames if the environment has cameras.

    The environment is reset first, and is left in the last states.
    """
    assert not env.stagger, "staggered worlds end their first episodes early"
    env.resets = False  # so that the simulator still has the last arrival state
    try:
        obs = env.reset()
        seen = [_snapshot(env, obs)]
        done = []
        for _ in range(env.horizon):
            action = act(obs.state).clone()  # a policy may write to the same memory again
            step = env.step(action)
            obs = step.obs
            seen.append(_snapshot(env, step.final_obs))
            ended = step.terminated | step.truncated
            did = {"actions": action, "rewards": step.reward, "success": step.success}
            done.append(did | {"ended": ended})
    finally:
        env.resets = True
    env.check()
    at = {name: torch.stack([row[name] for row in seen], dim=1).cpu() for name in seen[0]}
    did = {name: torch.stack([row[name] for row in done], dim=1).cpu() for name in done[0]}
    episodes = []
    for world in range(env.worlds):
        ends = did["ended"][world].nonzero()
        steps = int(ends[0]) + 1 if len(ends) else env.horizon
        episodes.append(
            Episode(
                state=at["state"][world, : steps + 1],
                frames=at["frames"][world, : steps + 1] if "frames" in at else None,
                simulator={n: at[n][world, : steps + 1] for n in DRAWN_FROM if n in at},
                actions=did["actions"][world, :steps],
                rewards=did["rewards"][world, :steps],
                success=did["success"][world, :steps],
            )
        )
    return episodes


def _snapshot(env: BatchEnv, obs: Observation) -> dict[str, Tensor]:
    seen = {"state": obs.state.clone()}
    if obs.frames is not None:
        seen["frames"] = obs.frames
    return env.simulator_state() | seen


def _last(run: Path, device: str, split: str, worlds: int) -> list[_Part]:
    """The run's last policy in all worlds."""
    if worlds == 0:
        return []
    path = snapshots(run)[-1]
    act = load_policy(run, path, device).act
    return [_Part(policy=path.stem, act=act, split=split, worlds=worlds)]


def _course(
    run: Path, device: str, split: str, worlds: int, policies: int | None = None
) -> list[_Part]:
    """Policies from the whole course of the run, evenly, the first and the last among them."""
    if worlds == 0:
        return []
    kept = snapshots(run)
    if policies is not None:
        kept = [kept[i] for i in np.linspace(0, len(kept) - 1, policies).round().astype(int)]
    if worlds >= len(kept):
        turns = np.arange(worlds) * len(kept) // worlds  # each policy as often, or once more
    elif worlds > 1:
        turns = np.linspace(0, len(kept) - 1, worlds).round().astype(int)
    else:
        turns = np.array([len(kept) // 2])
    chosen, counts = np.unique(turns, return_counts=True)
    return [
        _Part(
            policy=kept[index].stem,
            act=load_policy(run, kept[index], device).act,
            split=split,
            worlds=int(count),
        )
        for index, count in zip(chosen, counts, strict=True)
    ]


def _clumsy(run: Path, device: str, wanted: int, seed: int) -> list[_Part]:
    """Random actions and policies from the whole course, among whose episodes failures are."""
    if wanted == 0:
        return []
    random = _random(seed, load_policy(run).action_size, device)
    tried = min(_FAILING_POLICIES, len(snapshots(run)))
    return [
        _Part(policy="random", act=random, split=FAILURE, worlds=wanted),
        *_course(run, device, FAILURE, tried * wanted, policies=tried),
    ]


def _random(seed: int, size: int, device: str) -> Policy:
    generator = torch.Generator(device).manual_seed(seed)
    return lambda state: (
        2.0 * torch.rand(len(state), size, generator=generator, device=device) - 1.0
    )


def _together(parts: list[_Part]) -> Policy:
    """Each part's policy in its own worlds."""
    worlds = [part.worlds for part in parts]

    def act(state: Tensor) -> Tensor:
        rows = state.split(worlds)
        return torch.cat([part.act(row) for part, row in zip(parts, rows, strict=True)])

    return act


def _label(played: list[Episode], parts: list[_Part]) -> list[Episode]:
    labels = [part for part in parts for _ in range(part.worlds)]
    return [
        replace(episode, split=part.split, policy=part.policy)
        for episode, part in zip(played, labels, strict=True)
    ]


def _failures(candidates: list[Episode], wanted: int) -> list[Episode]:
    """Episodes that never succeed, of as many different policies as there are."""
    failed: dict[str, list[Episode]] = {}
    for episode in candidates:
        if not episode.succeeds:
            failed.setdefault(episode.policy, []).append(episode)
    # In turns, beginning with the latest policy: its failures are the hardest to tell.
    turns = [
        (turn, episode) for own in reversed(failed.values()) for turn, episode in enumerate(own)
    ]
    return [episode for _, episode in sorted(turns, key=lambda pair: pair[0])][:wanted]


def _facts(
    run: Path, env: BatchEnv, *, stages: bool, frames: bool, compact: bool, seed: int
) -> dict[str, Any]:
    return {
        "task": env.name,
        "kind": "stages of a run's learning" if stages else "demonstrations",
        "frames": "stored, lossless" if frames else "drawn on load from stored states",
        "rounded_to": pack.GRID if compact else None,
        "run": run.name,
        "seed": seed,
        "device": env.device.type,
        "control_step_seconds": env.control_step,
        "versions": {
            "pureward": pureward.__version__,
            "mujoco": version("mujoco"),
            "minari": version("minari"),
        },
    }


def _check_space(out: Path, episodes: list[Episode], painter: Painter | None) -> None:
    """Refuse to begin what the disk has no room for: HDF5 crashes where one fills up under it."""
    columns = [
        column
        for episode in episodes
        for column in (episode.state, episode.actions, episode.rewards, *episode.simulator.values())
        if column is not None
    ]
    needed = sum(column.nbytes for column in columns)
    if painter is not None:
        frame = math.prod(painter.frame_shape or ())
        needed += sum(frame * (len(episode) + 1) for episode in episodes)
    needed *= 2  # for a while columns are there twice, loose and packed
    folder = next(parent for parent in out.absolute().parents if parent.exists())
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(
            f"{out} needs up to {readable(needed)} while it is written, and {folder} has "
            f"{readable(free)} free; free some or choose another disk"
        )


def _check(task: str, run: Path, out: Path, **counts: int) -> None:
    for name, count in counts.items():
        least = 1 if name == "episodes" else 0
        if count < least:
            raise InputError(f"{name} must be at least {least}, got {count}; pass {least} or more")
    if os.path.lexists(out):  # a link to nowhere is in the way too
        raise InputError(f"{out} exists already; choose another folder or delete it first")
    check_name(task)
    trained = load_policy(run).config.task
    if trained != task:
        raise InputError(
            f"the policies of {run} were trained on {trained!r}, not on {task!r}; "
            f"collect {trained} or choose another run"
        )
