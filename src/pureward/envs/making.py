# SPDX-License-Identifier: Apache-2.0
"""From a task's name to a batch of its environments: engine, device, cameras."""

from numbers import Integral

import torch

from pureward.envs.batch import ENVIRONMENTS, BatchEnv
from pureward.envs.sim.camera import Cameras
from pureward.envs.sim.mujoco_cpu import CpuEngine
from pureward.envs.sim.mujoco_warp import WarpEngine
from pureward.envs.simulated import TaskEnv
from pureward.envs.tasks import TASKS
from pureward.errors import InputError

# A mistyped number is told before memory is claimed; the engines count in 32 bits.
_MOST_WORLDS = 2**20


def make(
    task: str,
    worlds: int = 1,
    device: str | torch.device = "auto",
    *,
    seed: int = 0,
    cameras: bool = False,
    stagger: bool = False,
    shadows: bool = False,
    engine: str = "auto",
    distractors: str | None = None,
) -> BatchEnv:
    """Make a batch of environments.

    Args:
        task: a name in `pureward.TASKS` or `pureward.ENVIRONMENTS`.
        worlds: how many environments step together.
        device: "auto" (CUDA where there is one), "cpu" or "cuda".
        seed: of the first states; the same seed gives the same episodes on the same device.
        cameras: whether observations carry 64×64 frames.
        stagger: let the worlds end their episodes at different times.
        shadows: draw shadows; slower.
        engine: "auto" (C MuJoCo on a CPU, MuJoCo Warp on CUDA), "mujoco" or "warp".
        distractors: shape of the objects beside the task's own, "cube" or "cuboid", in tasks that
            have some.
    """
    _check_worlds(worlds)
    place = find_device(device)
    check_name(task, distractors)
    if task in ENVIRONMENTS:
        return ENVIRONMENTS[task](
            worlds=worlds, device=place, seed=seed, cameras=cameras, stagger=stagger
        )
    row = TASKS[task]
    simulator = _find_engine(engine, place)
    model = row.model(distractors)
    if simulator == "mujoco":
        physics = CpuEngine(model, worlds, substeps=row.substeps)
    else:
        physics = WarpEngine(model, worlds, substeps=row.substeps, limits=row.limits, device=place)
    eyes = Cameras(physics, row.cameras, shadows=shadows) if cameras else None
    return TaskEnv(row, physics, eyes, seed=seed, stagger=stagger)


def check_name(task: str, distractors: str | None = None, *, scripted: bool = False) -> None:
    """Refuse an environment that does not exist, or that lacks distractors or a script."""
    if task in ENVIRONMENTS:
        if distractors is not None or scripted:
            lacks = "distractors" if distractors is not None else "script"
            raise InputError(f"environment {task!r} has no {lacks}; leave it out")
        return
    TASKS[task].variant(distractors)
    if scripted and TASKS[task].script is None:
        raise InputError(f"task {task!r} has no script; leave guided at 0")


def _check_worlds(worlds: int) -> None:
    if not isinstance(worlds, Integral):
        raise InputError(f"worlds must be a whole number, got {worlds!r}; ask for 1 or more")
    if worlds < 1:
        raise InputError(f"worlds must be at least 1, got {worlds}; ask for 1 or more")
    if worlds > _MOST_WORLDS:
        raise InputError(
            f"worlds must be at most {_MOST_WORLDS:,}, got {worlds}; make several batches"
        )


def find_device(name: str | torch.device) -> torch.device:
    """The torch device of that name; "auto" is CUDA where there is one."""
    name = str(name)
    if name == "auto":
        return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    if name not in ("cpu", "cuda") and not name.startswith("cuda:"):
        raise InputError(f"unknown device {name!r}; choose from 'auto', 'cpu', 'cuda', 'cuda:N'")
    if name == "cpu":
        return torch.device("cpu")
    index = name.removeprefix("cuda").removeprefix(":") or "0"
    found = torch.cuda.device_count()
    if not index.isdecimal() or int(index) >= found:
        raise InputError(
            f"device {name!r} needs a CUDA GPU of that number, and this machine has {found}; "
            "use 'cpu' or 'auto'"
        )
    return torch.device("cuda", int(index))


def _find_engine(name: str, device: torch.device) -> str:
    if name not in ("auto", "mujoco", "warp"):
        raise InputError(f"unknown engine {name!r}; choose from 'auto', 'mujoco', 'warp'")
    if name == "auto":
        return "mujoco" if device.type == "cpu" else "warp"
    if name == "mujoco" and device.type != "cpu":
        raise InputError(
            f"engine 'mujoco' runs on the CPU only, got device {device}; use engine='warp'"
        )
    return name
