# SPDX-License-Identifier: Apache-2.0
"""dm_control's models, and its Control Suite's way of drawing first states."""

import math
from importlib.util import find_spec
from pathlib import Path

import mujoco
import torch
from torch import Tensor

from pureward.envs.tasks.task import Reset


def read_spec(file: str) -> mujoco.MjSpec:
    """An editable model from a file of dm_control's package, as "suite/walker.xml".

    Importing dm_control itself would look for a display; its files need none.
    """
    package = find_spec("dm_control")
    assert package is not None, "dm_control is a dependency"
    assert package.origin is not None
    return mujoco.MjSpec.from_file(str(Path(package.origin).parent / file))


def random_joints(model: mujoco.MjModel, device: torch.device) -> Reset:
    """Joints with limits uniform within them, free hinges uniform over the circle, rest at zero.

    The suite's own distribution for hinge and slide joints; nothing moves at the start.
    """
    low, high = model.qpos0.copy(), model.qpos0.copy()
    for joint in range(model.njnt):
        address = model.jnt_qposadr[joint]
        if model.jnt_limited[joint]:
            low[address], high[address] = model.jnt_range[joint]
        elif model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE:
            low[address], high[address] = -math.pi, math.pi
    lowest = torch.from_numpy(low).to(device)
    span = torch.from_numpy(high - low).to(device)

    def draw(worlds: int, generator: torch.Generator) -> dict[str, Tensor]:
        uniform = torch.rand(worlds, model.nq, generator=generator, device=device)
        return {"qpos": lowest + span * uniform}

    return draw
