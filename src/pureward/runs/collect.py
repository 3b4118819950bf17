# SPDX-License-Identifier: Apache-2.0
"""Collects episodes of a run's policies: demonstrations, or episodes from all of training."""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import groupby, zip_longest
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import pureward
from pureward.data import writing
from pureward.data.draw import Painter
from pureward.data.episodes import FAILURE, HELD_OUT, TRAIN, Episode
from pureward.data.guard import check_disk
from pureward.envs import BatchEnv
from pureward.envs.batch import frame_keys
from pureward.envs.making import check_importable, check_name
from pureward.envs.tasks import TASKS
from pureward.errors import InputError, SimulationError, check_seed
from pureward.files import check_writable, whole_folder
from pureward.runs.card import write_card
from pureward.runs.policy import SavedPolicy, load_policy, random_policy, snapshots
from pureward.settings import as_path
from pureward.types import DRAWN_FROM, Observation, Policy, find_device

# Failures are chosen from episodes of this many policies of the run and of random actions; each
# acts for as many episodes as failures are wanted.
_FAILING_POLICIES = 7
# Initial states must differ from those of training and evaluation with the same seed.
_SEED_OFFSET = 2_000_003
# The split of a world's episode, and the snapshot of the policy that acts; None acts at random.
_Role = tuple[str, Path | None]


@dataclass(frozen=True, kw_only=True)
class Collected:
    """The dataset that `collect` wrote."""

    path: Path
    splits: dict[str, Any]
    """Counts, returns and policies of each split, as in the card."""


def collect(
    task: str,
    policy: str | Path,
    out: str | Path,
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
        task: a name that `pureward tasks` lists, gym:ID, or MODULE:FUNCTION.
        policy: directory of the run whose policies act.
        out: folder of the dataset; it must not exist yet.
        episodes: number of episodes in the split "train".
        stages: collect from policies of all of training, as annotated episodes for a reward
            model; otherwise from the last policy, as demonstrations.
        held_out: number of episodes of the same kind in the split "held-out".
        failures: number of episodes without success in the split "failure", for probes; fewer
            are written if the run's policies and random actions do not fail often enough, and none
            if an environment of your own reports no success at all.
        frames: store frames (lossless, large) in addition to the simulator's states.
        compact: omit the policy's states and round the simulator's, for a smaller dataset.
        device: "auto" (CUDA if available), "cpu" or "cuda".
        seed: of initial states and random actions.

    Returns:
        The path of the dataset, and what is in it.
    """
    seed = check_seed(seed)
    policy, out = as_path("policy", policy, "name a run"), as_path("out", out)
    last = _check(task, policy, out, episodes=episodes, held_out=held_out, failures=failures)
    own = task not in TASKS  # frames of other environments cannot be drawn later
    frames = frames or own
    place = str(find_device(device))
    saved = snapshots(policy)
    source = saved if stages else saved[-1:]
    tried = _spread(saved, min(_FAILING_POLICIES, len(saved)))
    config, random = last.config, random_policy(last.action_size, place, seed)
    wanted: list[_Role] = [(TRAIN, path) for path in _spread(source, episodes)]
    wanted += [(HELD_OUT, path) for path in _spread(source, held_out)]

    def failing(worlds: int) -> list[_Role]:
        return [(FAILURE, path) for path in [None] * worlds + _spread(tried, len(tried) * worlds)]

    def find_policy(path: Path | None) -> Policy:
        return load_policy(policy, path, place).act if path else random

    def play(roles: list[_Role], seed: int) -> list[Episode]:
        with config.make_env(len(roles), place, seed=seed, cameras=own) as env:
            return _roll_out(env, roles, find_policy)

    drawing = config.make_env(1 if own else 32, place, cameras=True)
    with drawing, whole_folder(out) as folder:  # refuses a bad folder before the slow rollout
        # Environments that render while they act are slow: more only if too few episodes fail.
        first = math.ceil(failures / (len(tried) + 1)) if own else failures
        played = play(wanted + failing(first), seed + _SEED_OFFSET)
        if sum(e.split == FAILURE and not e.succeeds for e in played) < failures > first:
            played += play(failing(failures - first), seed + _SEED_OFFSET + 1)
        if own and not any(e.succeeds for e in played):
            failures = 0  # the environment may not report success, so nothing is known to fail
            played = [replace(episode, success=None) for episode in played]
        kept = _with_failures(played, failures)
        if compact:
            kept = [writing.compact(episode) for episode in kept]
        painter = Painter(drawing)
        _check_space(out, kept, painter if frames else None)
        facts = _facts(policy, drawing, stages=stages, frames=frames, compact=compact, seed=seed)
        stored = (painter.draw(episode) if frames else episode for episode in kept)
        images = {"images": list(frame_keys(config.frames))}
        writing.write_episodes(folder, stored, task=task, name=out.name, facts=images)
        return Collected(path=out, splits=write_card(folder, kept, painter, facts))


@torch.no_grad()
def rollout(env: BatchEnv, act: Policy) -> list[Episode]:
    """Reset an environment and return one whole episode of every world.

    A world that diverges ends as a copy of another one, so it plays again.

    Args:
        env: not staggered; frames are recorded if it has cameras.
        act: the policy.
    """
    assert not env.stagger, "staggered worlds end their first episodes early"
    episodes: dict[int, Episode] = {}
    while missing := env.worlds - len(episodes):
        episodes = _play(env, act) | episodes
        if missing == env.worlds - len(episodes):
            raise SimulationError(
                f"the simulation diverged in all {missing} episodes that were played; check the "
                "model's time step and limits"
            )
    return [episodes[world] for world in range(env.worlds)]


def _play(env: BatchEnv, act: Policy) -> dict[int, Episode]:
    """Play an episode in every world, and return those whose simulation did not diverge."""
    env.resets = False  # so that the simulator still has the last arrival state
    try:
        obs = env.reset()
        seen = [_observed(env, obs)]
        results, over = [], torch.zeros(env.worlds, dtype=torch.bool, device=env.device)
        for _ in range(env.horizon):
            action = act(obs.state).clone()  # a policy may reuse its output buffer
            step = env.step(action)
            obs = step.obs
            seen.append(_observed(env, step.final_obs))
            ended = step.terminated | step.truncated
            result = {"actions": action, "rewards": step.reward, "success": step.success}
            results.append(result | {"ended": ended, "terminated": step.terminated})
            over |= ended
            if env.device.type == "cpu" and over.all():  # on CUDA this would wait for the device
                break
    finally:
        env.resets = True
    env.check()
    at = {name: torch.stack([row[name] for row in seen], dim=1).cpu() for name in seen[0]}
    after = {name: torch.stack([row[name] for row in results], dim=1).cpu() for name in results[0]}
    episodes = {}
    for world in range(env.worlds):
        ends = after["ended"][world].nonzero()
        steps = int(ends[0]) + 1 if len(ends) else env.horizon
        terminated = bool(after["terminated"][world, steps - 1])
        if terminated and not env.terminates:
            continue  # it diverged
        episodes[world] = Episode(
            state=at["state"][world, : steps + 1],
            frames=at["frames"][world, : steps + 1] if "frames" in at else None,
            simulator={n: at[n][world, : steps + 1] for n in DRAWN_FROM if n in at},
            actions=after["actions"][world, :steps],
            rewards=after["rewards"][world, :steps],
            success=after["success"][world, :steps],
            terminated=terminated,
        )
    return episodes


def _observed(env: BatchEnv, obs: Observation) -> dict[str, Tensor]:
    seen = {"state": obs.state.clone()}
    if obs.frames is not None:
        seen["frames"] = obs.frames
    return env.simulator_state() | seen


def _spread(policies: list[Path], count: int) -> list[Path]:
    """Choose `count` policies evenly in order; each occurs several times if there are fewer."""
    if count >= len(policies):
        chosen = np.arange(count) * len(policies) // count
    elif count > 1:  # the first and the last among them
        chosen = np.linspace(0, len(policies) - 1, count).round().astype(int)
    else:
        chosen = np.full(count, len(policies) // 2)
    return [policies[index] for index in chosen]


def _roll_out(
    env: BatchEnv, roles: list[_Role], find_policy: Callable[[Path | None], Policy]
) -> list[Episode]:
    """Roll out an episode for each role, in a world of its own."""
    groups = [(find_policy(path), len(list(same))) for (_, path), same in groupby(roles)]

    def act(state: Tensor) -> Tensor:
        rows = state.split([worlds for _, worlds in groups])
        return torch.cat([policy(row) for (policy, _), row in zip(groups, rows, strict=True)])

    return [
        replace(episode, split=split, policy=path.stem if path else "random")
        for episode, (split, path) in zip(rollout(env, act), roles, strict=True)
    ]


def _with_failures(episodes: list[Episode], wanted: int) -> list[Episode]:
    """Drop candidates of the split "failure" that succeed, and those that are too many.

    Policies take turns, beginning with the latest: its failures are the hardest to recognise.
    """
    failed: dict[str, list[Episode]] = {}
    for episode in episodes:
        if episode.split == FAILURE and not episode.succeeds:
            failed.setdefault(episode.policy, []).append(episode)
    turns = zip_longest(*reversed(failed.values()))
    failures = [episode for turn in turns for episode in turn if episode is not None]
    return [episode for episode in episodes if episode.split != FAILURE] + failures[:wanted]


def _facts(
    run: Path, env: BatchEnv, *, stages: bool, frames: bool, compact: bool, seed: int
) -> dict[str, Any]:
    return {
        "task": env.name,
        "kind": "stages of a run's learning" if stages else "demonstrations",
        "frames": "stored, lossless" if frames else "drawn on load from stored states",
        "renderer": env.renderer,
        "rounded_to": writing.GRID if compact else None,
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
    """Refuse a dataset that does not fit on the disk: HDF5 crashes on a full one."""
    frame = 0 if painter is None else math.prod(painter.frame_shape or ())
    needed = 0
    for e in episodes:
        columns = (e.state, e.actions, e.rewards, *e.simulator.values())
        needed += sum(column.nbytes for column in columns if column is not None)
        needed += frame * (len(e) + 1)
    # Twice, since the uncompressed file is deleted last.
    check_disk(out.absolute().parent, 2 * needed, out)


def _check(task: str, run: Path, out: Path, **counts: int) -> SavedPolicy:
    """Refuse bad arguments, and return the last policy of the run."""
    for name, count in counts.items():
        least = 1 if name == "episodes" else 0
        if not isinstance(count, Integral) or count < least:
            raise InputError(
                f"{name} must be a whole number from {least}, got {count!r}; pass {least} or more"
            )
    if os.path.lexists(out):  # also True for a broken link
        raise InputError(f"{out} exists already; choose another folder or delete it first")
    check_writable(out)
    check_importable(check_name(task))
    policy = load_policy(run)
    trained = policy.config.task
    if trained != task:
        raise InputError(
            f"the policies of {run} were trained on {trained!r}, not on {task!r}; "
            f"collect {trained} or choose another run"
        )
    return policy
