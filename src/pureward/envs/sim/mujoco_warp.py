# SPDX-License-Identifier: Apache-2.0
"""MuJoCo Warp over a batch of worlds: captured graphs on CUDA, the same code on Warp's CPU."""

from dataclasses import fields, replace

import mujoco
import mujoco_warp as mjw
import numpy as np
import torch
import warp as wp
from torch import Tensor

from pureward.envs.sim import small_tree
from pureward.envs.sim.engine import STATE_FIELDS, Limits, State, force_sensors
from pureward.envs.sim.warp_runtime import Captured, Workspace, quiet_start, warp_device
from pureward.errors import InputError

# What a world may run out of. Reaching an iteration limit is not among them: that is the
# accuracy the task chose.
_FULL = {
    mjw.OverflowType.NEFC: "constraints",
    mjw.OverflowType.NJMAX_NNZ: "constraints",
    mjw.OverflowType.BROADPHASE: "contacts",
    mjw.OverflowType.NARROWPHASE: "contacts",
    mjw.OverflowType.CCD: "contacts",
}


# Sensors that need more than where bodies are and how they move: the motors' and tendons' own
# lengths and speeds, and the mass matrix.
_BEYOND_KINEMATICS = (
    mujoco.mjtSensor.mjSENS_ACTUATORPOS,
    mujoco.mjtSensor.mjSENS_ACTUATORVEL,
    mujoco.mjtSensor.mjSENS_TENDONVEL,
    mujoco.mjtSensor.mjSENS_E_KINETIC,
)


class WarpEngine:
    """N worlds in single precision on one Warp device.

    Small mechanisms are stepped by one fused kernel (`small_tree`), all others by MuJoCo Warp;
    `fused=False` chooses the latter for any model. Kinematics, sensors and cameras are MuJoCo
    Warp's either way.
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
        self.model = model
        self.worlds = worlds
        self.device = device
        self.limits = limits
        with wp.ScopedDevice(warp_device(device)):
            self.warp_model = _put_model(model, limits)
            self.warp_data = mjw.make_data(
                model, nworld=worlds, nconmax=limits.contacts, njmax=limits.constraints
            )
            self.fused = fused and small_tree.unsupported(model) is None
            self._fused_step = small_tree.compile_step(model, limits) if self.fused else None
        self.state = State(**{name: self.field(name) for name in STATE_FIELDS})
        self._substep_model = _without_extras(self.warp_model)
        self._substeps = substeps
        self._reads_forces = bool(force_sensors(model).any())
        beyond = [int(kind) for kind in _BEYOND_KINEMATICS]
        self._kinematics_suffice = not np.isin(model.sensor_type, beyond).any()
        self._workspace = Workspace(device)
        self._step = Captured(device, self._workspace)
        self._refresh = Captured(device, self._workspace)
        self.refresh()

    def field(self, name: str) -> Tensor:
        """Live tensor over the `Data` field of that name, one row a world."""
        return wp.to_torch(getattr(self.warp_data, name))

    def step(self) -> None:
        """Advance every world by one control step under `state.ctrl`."""
        self._step(self._advance)

    def refresh(self) -> None:
        """Recompute what follows from a state that was written to."""
        self._refresh(self._follow)

    def complaint(self) -> str | None:
        """Buffers that overflowed and numbers that are none."""
        overflow = self.field("overflow")
        for flag, what in _FULL.items():
            full = int((overflow & int(flag) != 0).sum())
            if full:
                overflow.zero_()
                return (
                    f"{full} of {self.worlds} worlds ran out of {what} "
                    f"(limit {getattr(self.limits, what)} a world); raise the task's Limits.{what}"
                )
        bad = int((~torch.isfinite(self.state.qpos).all(dim=1)).sum())
        if bad:
            return (
                f"qpos is not finite in {bad} of {self.worlds} worlds; "
                "check the actions and the model's time step"
            )
        return None

    def bytes_per_world(self) -> int:
        """Memory of the batch's arrays divided by its worlds."""
        arrays = [getattr(self.warp_data, field.name) for field in fields(self.warp_data)]
        for group in (self.warp_data.contact, self.warp_data.efc):
            arrays += [getattr(group, field.name) for field in fields(group)]
        return sum(a.capacity for a in arrays if isinstance(a, wp.array)) // self.worlds

    def _advance(self) -> None:
        with wp.ScopedDevice(self.warp_data.qpos.device):
            if self._fused_step is not None:
                self._fused_step(self.warp_data, self._substeps)
            else:
                self._substep_by_substep()
            self._follow()

    def _substep_by_substep(self) -> None:
        for substep in range(self._substeps):
            self._workspace.rewind()
            # Force and touch sensors are read off the last substep, as in C MuJoCo.
            senses = self._reads_forces and substep == self._substeps - 1
            mjw.step(self.warp_model if senses else self._substep_model, self.warp_data)

    def _follow(self) -> None:
        """Positions, velocities and their sensors at the present state; no dynamics."""
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
        # What MuJoCo Warp has no field for it would simulate without a word.
        if model.opt.disableactuator:
            raise NotImplementedError("groups of disabled actuators")
        if model.actuator_armature.any():
            raise NotImplementedError("armature of actuators")
        warp_model = mjw.put_model(model)
    except NotImplementedError as error:
        raise InputError(
            f"MuJoCo Warp does not simulate all that is in this model ({error}); take that out of "
            "the model, or run it on the CPU with engine='mujoco'"
        ) from error
    warp_model.opt.iterations = limits.iterations
    warp_model.opt.ls_iterations = limits.line_search
    # Overflows are kept in `Data.overflow`; printing them from kernels would drown the user.
    warp_model.opt.warn_overflow = False
    return warp_model


def _without_extras(warp_model: mjw.Model) -> mjw.Model:
    """The model between control steps, when nobody looks or senses: a fifth fewer kernels."""
    silent = replace(
        warp_model.opt, disableflags=warp_model.opt.disableflags | mjw.DisableBit.SENSOR
    )
    return replace(warp_model, opt=silent, ncam=0, nlight=0)
