# SPDX-License-Identifier: Apache-2.0
"""Worlds that come apart: found, mended, and counted.

In single precision a step of a clumsy arm, one of millions, may end in numbers that cannot be. That
is no reason to lose a run of thousands of worlds, and more of it is a broken task.
"""

import torch
from torch import Tensor

from pureward.envs.flag import AsyncFlag
from pureward.envs.sim.engine import SAVED, Engine
from pureward.envs.tasks.task import Task
from pureward.errors import SimulationError

#: Metres, radians, their rates and newtons: a world that shows more has come apart.
ABSURD = 1e4
_MENDED_AT_MOST = 1e-5  # of all steps


class Health:
    """Looks after the worlds of a batch."""

    def __init__(self, task: Task, engine: Engine):
        """All are well."""
        self._task, self._engine = task, engine
        self._flag = AsyncFlag(engine.device)
        self._steps = 0
        self._checked = (0, 0)  # steps and mended worlds at the last check
        self.mended = 0
        """Worlds that came apart so far."""

    def broken(self, observed: Tensor) -> Tensor:
        """Which worlds show numbers that cannot be, after a step; mended once the host knows."""
        self._steps += self._engine.worlds
        broken = self._absurd(observed)
        if self._flag.raised(broken.any()):
            self.mend()
            self._flag = AsyncFlag(self._engine.device)
        return broken

    def mend(self) -> bool:
        """Let broken worlds go on as copies of their neighbours; waits for the device.

        Whether that was possible: where all are broken, there is none to copy.
        """
        state, worlds = self._engine.state, self._engine.worlds
        broken = self._absurd(self._task.observe(state))
        count = int(broken.sum())
        if count in (0, worlds):
            return count == 0
        self.mended += count
        healthy = torch.nonzero(~broken).flatten()
        before = torch.searchsorted(healthy, torch.arange(worlds, device=broken.device))
        source = healthy[before % len(healthy)]
        for name in (*SAVED, "sensordata"):
            now = getattr(state, name)
            now.copy_(now[source])
        self._engine.refresh()
        return True

    def check(self) -> None:
        """Raise if the simulation went wrong since the last check; waits for the device."""
        mendable = self.mend()
        complaint = self._engine.complaint()
        if complaint:
            raise SimulationError(f"{self._task.name}: {complaint}")
        if not mendable:
            raise SimulationError(
                f"{self._task.name}: all {self._engine.worlds} worlds show numbers that are none "
                f"or beyond {ABSURD:g}; check what the task observes and the model's time step"
            )
        steps, mended = self._steps - self._checked[0], self.mended - self._checked[1]
        self._checked = self._steps, self.mended
        if mended > _MENDED_AT_MOST * steps:
            raise SimulationError(
                f"{self._task.name}: {mended} worlds came apart in {steps:,} steps, at most one in "
                f"{round(1 / _MENDED_AT_MOST):,} may; check the model's time step and limits"
            )

    def _absurd(self, observed: Tensor) -> Tensor:
        # Looked at beside what is observed, which may end where the task's own world does; asked
        # so that what is no number is absurd too.
        return ~(_sane(observed) & _sane(self._engine.state.qpos))


def _sane(numbers: Tensor) -> Tensor:
    return numbers.abs().amax(dim=1) < ABSURD
