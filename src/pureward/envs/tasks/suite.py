# SPDX-License-Identifier: Apache-2.0
"""dm_control's model files, and its Control Suite's first states and reward shapes."""

import math
from importlib.util import find_spec
from pathlib import Path

import mujoco
import torch
from torch import Tensor

from pureward.envs.tasks.task import Reset
from pureward.errors import MissingExtraError


def read_spec(file: str) -> mujoco.MjSpec:
    """Return an editable model from a file of dm_control's package, such as "suite/walker.xml".

    dm_control itself is not imported, because it looks for a display.
    """
    package = find_spec("dm_control")
    if package is None or package.origin is None:  # on Python 3.13 no extra installs it
        raise MissingExtraError(
            "this needs the package dm_control, which is not installed; "
            "install it with pip install --no-deps dm-control"
        )
    return mujoco.MjSpec.from_file(str(Path(package.origin).parent / file))


def random_joints(model: mujoco.MjModel, device: torch.device) -> Reset:
    """Return a function that samples first states as the suite does, with zero velocity.

    Joints with limits are uniform within them, other hinges uniform over the circle, other slides
    at their default.
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

    def sample(worlds: int, generator: torch.Generator) -> dict[str, Tensor]:
        uniform = torch.rand(worlds, model.nq, generator=generator, device=device)
        return {"qpos": lowest + span * uniform}

    return sample


def gaussian(distance: Tensor, margin: float, at_margin: float = 0.1) -> Tensor:
    """Return 1 at distances up to 0, then a Gaussian that is `at_margin` at the margin."""
    scale = math.sqrt(-2.0 * math.log(at_margin)) / margin
    return torch.exp(-0.5 * (distance.clamp(min=0.0) * scale) ** 2)


def linear(distance: Tensor, margin: float, at_margin: float = 0.0) -> Tensor:
    """Return 1 at distances up to 0, then a line through `at_margin` at the margin, at least 0."""
    slope = (1.0 - at_margin) / margin
    return (1.0 - distance.clamp(min=0.0) * slope).clamp(min=0.0)
