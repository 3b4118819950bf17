# SPDX-License-Identifier: Apache-2.0
"""Batched MuJoCo Warp: captured graphs on CUDA, the same code on Warp's CPU device."""

from dataclasses import replace

import mujoco
import mujoco_warp as mjw
import numpy as np
import torch
import warp as wp
from torch import Tensor

from pureward.envs.sim.engine import STATE_FIELDS, Limits, State, force_sensors
from pureward.errors import InputError
from pureward.kernels.sim import small_tree
from pureward.kernels.sim.warp_runtime import Captured, Workspace, quiet_start

# Buffers that may overflow, as fields of `Limits`. Iteration limits are not errors: they are the
# accuracy that the task chose.
_OVERFLOWS = {
    mjw.OverflowType.NEFC: "constraints",
    mjw.OverflowType.NJMAX_NNZ: "constraints",
    mjw.OverflowType.BROADPHASE: "contacts",
    mjw.OverflowType.NARROWPHASE: "contacts",
    mjw.OverflowType.CCD: "contacts",
}

# Sensors that need more than body kinematics: actuator and tendon transmissions, mass matrix.
_BEYOND_KINEMATICS = (
    mujoco.mjtSensor.mjSENS_ACTUATORPOS,
    mujoco.mjtSensor.mjSENS_ACTUATORVEL,
    mujoco.mjtSensor.mjSENS_TENDONVEL,
    mujoco.mjtSensor.mjSENS_E_KINETIC,
)


class WarpEngine:
    """N worlds of a model in single precision on one Warp device.

    A fused kernel (`small_tree`) steps small models, MuJoCo Warp all others; `fused=False` selects
    MuJoCo Warp for any model. Kinematics, sensors and cameras are always MuJoCo Warp's.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        worlds: int,
        *,
        substeps: int,
        limits: Limits,
        device: torch.device,
        fused: bool = True,
    ):
        quiet_start()
        self.model, self.worlds, self.device, self.limits = model, worlds, device, limits
        with wp.ScopedDevice(wp.device_from_torch(device)):
            self.warp_model = _put_model(model, limits)
            self.warp_data = mjw.make_data(
                model, nworld=worlds, nconmax=limits.contacts, njmax=limits.constraints
            )
            self.fused = fused and small_tree.unsupported(model) is None
            self._fused_step = None
            if self.fused:
                self._fused_step = small_tree.compile_step(
                    model, limits.iterations, limits.line_search
                )
        self.state = State(**{name: self.field(name) for name in STATE_FIELDS})
        # Between control steps sensors, cameras and lights are not needed: a fifth fewer kernels.
        option = self.warp_model.opt
        option = replace(option, disableflags=option.disableflags | mjw.DisableBit.SENSOR)
        self._substep_model = replace(self.warp_model, opt=option, ncam=0, nlight=0)
        self._substeps = substeps
        self._reads_forces = bool(force_sensors(model).any())
        beyond = [int(kind) for kind in _BEYOND_KINEMATICS]
        self._kinematics_suffice = not np.isin(model.sensor_type, beyond).any()
        self._workspace = Workspace(device)
        self._step = Captured(device, self._workspace)
        self._refresh = Captured(device, self._workspace)
        self._step.compile(self._advance)  # all at once; `refresh` launches a part of them
        self.refresh()

    def field(self, name: str) -> Tensor:
        """Return a live tensor over the `Data` field of that name, one row per world."""
        return wp.to_torch(getattr(self.warp_data, name))

    def step(self) -> None:
        """Advance every world by one control step under `state.ctrl`."""
        self._step(self._advance)

    def refresh(self) -> None:
        """Recompute derived fields after writing to the state; force sensors keep their values."""
        self._refresh(self._derive)

    def fault(self) -> str | None:
        """Return an overflow or NaN since the last call in one sentence, or None.

        Waits for the device.
        """
        overflow = self.field("overflow")
        for flag, what in _OVERFLOWS.items():
            full = int((overflow & int(flag) != 0).sum())
            if full:
                overflow.zero_()
                return (
                    f"{full} of {self.worlds} worlds ran out of {what} (limit per world: "
                    f"{getattr(self.limits, what)}); raise the task's Limits.{what}"
                )
        bad = int((~torch.isfinite(self.state.qpos).all(dim=1)).sum())
        if bad:
            return (
                f"qpos is not finite in {bad} of {self.worlds} worlds; "
                "check the actions and the model's time step"
            )
        return None

    def _advance(self) -> None:
        with wp.ScopedDevice(self.warp_data.qpos.device):
            if self._fused_step is not None:
                self._fused_step(self.warp_data, self._substeps)
            else:
                for substep in range(self._substeps):
                    self._workspace.rewind()
                    # Force and touch sensors are those of the last substep, as in C MuJoCo.
                    senses = self._reads_forces and substep == self._substeps - 1
                    mjw.step(self.warp_model if senses else self._substep_model, self.warp_data)
            self._derive()

    def _derive(self) -> None:
        """Positions, velocities and their sensors at the current state; no dynamics."""
        model, data = self.warp_model, self.warp_data
        with wp.ScopedDevice(data.qpos.device):
            self._workspace.rewind()
            if self._kinematics_suffice:
                mjw.fwd_kinematics(model, data)
                mjw.com_vel(model, data)
            else:
                mjw.fwd_position(model, data)
                mjw.fwd_velocity(model, data)
            mjw.sensor_pos(model, data)
            mjw.sensor_vel(model, data)


def _put_model(model: mujoco.MjModel, limits: Limits) -> mjw.Model:
    try:
        # MuJoCo Warp would ignore these silently.
        if model.opt.disableactuator:
            raise NotImplementedError("groups of disabled actuators")
        if model.actuator_armature.any():
            raise NotImplementedError("armature of actuators")
        warp_model = mjw.put_model(model)
    except NotImplementedError as error:
        raise InputError(
            f"MuJoCo Warp does not support everything in this model ({error}); remove that from "
            "the model, or run it on the CPU with engine='mujoco'"
        ) from error
    warp_model.opt.iterations = limits.iterations
    warp_model.opt.ls_iterations = limits.line_search
    warp_model.opt.warn_overflow = False  # `fault` reads `Data.overflow`; kernels need not print
    return warp_model
