# SPDX-License-Identifier: Apache-2.0
"""What a batch of simulated worlds offers, whichever engine steps it."""

from dataclasses import dataclass, fields
from typing import Protocol

import mujoco
import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much work and memory MuJoCo Warp may spend on one world of a task.

    The C engine sizes itself and solves to its model's own tolerance; these bind only on Warp,
    where every array has a fixed size and a batch waits for its slowest world.
    """

    contacts: int
    """Contacts a world may have on average; the pool is shared by all worlds."""
    constraints: int
    """Scalar constraints that any one world may have."""
    iterations: int = 100
    """Newton iterations at most; MuJoCo's own default is 100."""
    line_search: int = 50
    """Line-search iterations at most; MuJoCo's own default is 50."""


@dataclass(frozen=True, kw_only=True)
class State:
    """Live tensors over the worlds' state and what follows from it, one row a world.

    Positions, velocities, controls and mocap poses may be written; the engine's `refresh`
    brings the rest up to date. All of it describes the same instant: nothing lags a substep.
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


#: The tensors that make up a world; everything else in `State` follows from them.
SAVED = ("time", "qpos", "qvel", "ctrl", "act", "mocap_pos", "mocap_quat", "qacc_warmstart")

STATE_FIELDS = tuple(field.name for field in fields(State))


class Engine(Protocol):
    """N worlds of one `MjModel`, stepped together."""

    model: mujoco.MjModel
    worlds: int
    device: torch.device
    state: State

    def step(self) -> None:
        """Advance every world by one control step under `state.ctrl`."""
        ...

    def refresh(self) -> None:
        """Recompute what follows from a state that was written to.

        Sensors of force and touch keep what the last step left in them.
        """
        ...

    def complaint(self) -> str | None:
        """What went wrong in the worlds since the last call, in one sentence, or None.

        Reads from the device, so call it now and then, not every step.
        """
        ...

    def bytes_per_world(self) -> int:
        """Memory that one more world takes on the engine's device."""
        ...


def save_state(state: State) -> dict[str, Tensor]:
    """Copy of the tensors that make up the worlds."""
    return {name: getattr(state, name).clone() for name in SAVED}


def load_state(engine: Engine, saved: dict[str, Tensor]) -> None:
    """Put the worlds back where `save_state` found them."""
    for name in SAVED:
        getattr(engine.state, name).copy_(saved[name])
    engine.refresh()


def force_sensors(model: mujoco.MjModel) -> np.ndarray:
    """Which numbers of `sensordata` need accelerations or contact forces, as a mask."""
    by_force = model.sensor_needstage == mujoco.mjtStage.mjSTAGE_ACC.value
    return by_force.repeat(model.sensor_dim)
