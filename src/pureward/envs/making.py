# SPDX-License-Identifier: Apache-2.0
"""Makes environments by name."""

from numbers import Integral
from typing import TYPE_CHECKING

import torch

from pureward.envs.batch import ENVIRONMENTS, BatchEnv
from pureward.envs.sim.mujoco_cpu import CpuEngine
from pureward.envs.simulated import TaskEnv
from pureward.envs.tasks import TASKS
from pureward.errors import InputError
from pureward.registry import UnknownNameError
from pureward.types import find_device

if TYPE_CHECKING:
    import gymnasium

    from pureward.envs.makers import Maker

# Rejects a mistyped number before memory is allocated; the engines use 32-bit indices.
_MAX_WORLDS = 2**20


def make(
    task: "str | Maker | gymnasium.Env",
    worlds: int = 1,
    device: str | torch.device = "auto",
    *,
    seed: int = 0,
    cameras: bool = False,
    stagger: bool = False,
    shadows: bool = False,
    engine: str = "auto",
    distractors: str = "",
    frames: str = "render",
    state: str = "",
    processes: bool = False,
) -> BatchEnv:
    """Make a batch of environments.

    Args:
        task: a name in `pureward.TASKS` or `pureward.ENVIRONMENTS`, `gym:ID`, MODULE:FUNCTION, or
            the function itself, which makes a `gymnasium.Env`, or with the argument num_envs a
            `gymnasium.vector.VectorEnv`; or a `gymnasium.Env`, which is copied.
        worlds: how many environments step together.
        device: "auto" (CUDA if available), "cpu" or "cuda".
        seed: seed of the first states; it repeats the same episodes on the same device.
        cameras: whether observations have 64×64 frames.
        stagger: whether the worlds end their episodes at different times.
        shadows: draw shadows; slower.
        engine: "auto" (C MuJoCo on a CPU, MuJoCo Warp on CUDA), "mujoco" or "warp".
        distractors: shape of the objects that the task does not use, "cube" or "cuboid", in `lift`
            and `stack`; "" for the task's default.
        frames: of a Gymnasium environment: "render", or keys of a dict observation, separated by
            commas.
        state: of a Gymnasium environment: keys of a dict observation; "" or "observation" takes
            all that are not frames.
        processes: whether each Gymnasium environment has a process of its own.

    Returns:
        The environment; call `reset` first.
    """
    if worlds is True or not isinstance(worlds, Integral) or not 1 <= worlds <= _MAX_WORLDS:
        raise InputError(
            f"worlds must be a whole number from 1 to {_MAX_WORLDS:,}, got {worlds!r}; "
            "make several batches for more"
        )
    place = find_device(device)
    task = check_name(task, distractors, frames=frames, state=state, processes=processes)
    if ":" in task:
        from pureward.envs.gymnasium_env import GymnasiumEnv
        from pureward.envs.makers import find_maker

        return GymnasiumEnv(
            task,
            find_maker(task),
            worlds=worlds,
            device=place,
            seed=seed,
            cameras=cameras,
            frames=frames,
            state=state,
            processes=processes,
        )
    if task in ENVIRONMENTS:
        return ENVIRONMENTS[task](
            worlds=worlds, device=place, seed=seed, cameras=cameras, stagger=stagger
        )
    if engine not in ("auto", "mujoco", "warp"):
        raise InputError(f"unknown engine {engine!r}; choose from 'auto', 'mujoco', 'warp'")
    if engine == "mujoco" and place.type != "cpu":
        raise InputError(
            f"engine 'mujoco' runs on the CPU only, got device {place}; use engine='warp'"
        )
    row = TASKS[task]
    model = row.model(distractors)
    if engine == "warp" or place.type != "cpu":
        from pureward.envs.sim.mujoco_warp import WarpEngine  # slower to import than torch

        physics = WarpEngine(model, worlds, substeps=row.substeps, limits=row.limits, device=place)
    else:
        physics = CpuEngine(model, worlds, substeps=row.substeps)
    views = None
    if cameras:
        from pureward.envs.sim.camera import Cameras

        views = Cameras(physics, row.cameras, shadows=shadows)
    return TaskEnv(row, physics, views, seed=seed, stagger=stagger)


def check_name(
    task: "str | Maker | gymnasium.Env",
    distractors: str = "",
    *,
    scripted: bool = False,
    frames: str = "render",
    state: str = "",
    processes: bool = False,
) -> str:
    """Return the name of an environment; raise InputError if it lacks a requested feature.

    A name in `TASKS` or `ENVIRONMENTS` must exist. Others are not imported, since the name may come
    from a file: see `check_importable`.
    """
    if not isinstance(task, str):
        from pureward.envs.makers import name_of

        task = name_of(task)
    if ":" not in task and (frames, state, processes) != ("render", "", False):
        raise InputError(
            f"frames, state and processes are for Gymnasium environments, and {task!r} is not one; "
            "leave them out"
        )
    if ":" in task or task in ENVIRONMENTS:
        if distractors:
            raise InputError(f"environment {task!r} has no distractors; leave it out")
        return task  # its `script` says if it has none
    if task not in TASKS:
        raise UnknownNameError(
            f"unknown task {task!r}; choose from {', '.join((*TASKS, *ENVIRONMENTS))}, or name a "
            "Gymnasium environment gym:ID or MODULE:FUNCTION"
        )
    TASKS[task].variant(distractors)
    if scripted and TASKS[task].script is None:
        raise InputError(f"task {task!r} has no script; leave guided at 0")
    return task


def check_importable(task: str) -> None:
    """Import the module that a user named, or find gym:ID; raise InputError if that fails."""
    if ":" in task:
        from pureward.envs.makers import find_maker

        find_maker(task)
