# SPDX-License-Identifier: Apache-2.0
"""The state of simulated worlds, which both engines expose as tensors."""

from dataclasses import dataclass, fields

import mujoco
import numpy as np
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Memory and solver limits of one world on MuJoCo Warp.

    On Warp arrays have a fixed size, and a batch waits for its slowest world. The C engine
    allocates by itself and solves to its model's own tolerance.
    """

    contacts: int
    """Contacts per world on average; all worlds share one pool."""
    constraints: int
    """Scalar constraints per world."""
    iterations: int = 100
    """Maximum Newton iterations; the default is MuJoCo's."""
    line_search: int = 50
    """Maximum line-search iterations; the default is MuJoCo's."""


@dataclass(frozen=True, kw_only=True)
class State:
    """Live tensors of the worlds' state and derived quantities, one row per world.

    Positions, velocities, controls and mocap poses may be written; then call the engine's
    `refresh` to recompute the rest. All fields describe the same instant.
    """

    time: Tensor
    qpos: Tensor
    qvel: Tensor
    ctrl: Tensor
    act: Tensor
    mocap_pos: Tensor
    mocap_quat: Tensor
    qacc_warmstart: Tensor
    xpos: Tensor
    xquat: Tensor
    xmat: Tensor
    site_xpos: Tensor
    sensordata: Tensor


#: The fields that determine a world; the rest of `State` is derived from them.
SAVED = ("time", "qpos", "qvel", "ctrl", "act", "mocap_pos", "mocap_quat", "qacc_warmstart")

STATE_FIELDS = tuple(field.name for field in fields(State))


def force_sensors(model: mujoco.MjModel) -> np.ndarray:
    """Return which values of `sensordata` need accelerations or contact forces, as a mask."""
    by_force = model.sensor_needstage == mujoco.mjtStage.mjSTAGE_ACC.value
    return by_force.repeat(model.sensor_dim)
