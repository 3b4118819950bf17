# SPDX-License-Identifier: Apache-2.0
"""Finds worlds whose simulation diverged and continues them as copies of other worlds.

In single precision about one step in millions diverges. A run of thousands of worlds survives
that. More frequent divergence is an error in the task.
"""

import torch
from torch import Tensor

from pureward.envs.sim import Engine
from pureward.envs.sim.engine import SAVED
from pureward.envs.tasks.task import Task
from pureward.errors import SimulationError
from pureward.types import STATE_LIMIT, AsyncFlag

_MAX_RATE = 1e-5  # diverged worlds per world and step
_FEW = 10  # fewer between two checks do not measure a rate


class DivergenceMonitor:
    """Finds, replaces and counts the diverged worlds of a batch."""

    def __init__(self, task: Task, engine: Engine):
        self._task, self._engine = task, engine
        self._flag = AsyncFlag(engine.device)
        self._steps = 0
        self._checked = (0, 0)  # steps and diverged worlds at the last check
        self.count = 0
        """Worlds that have diverged so far."""

    def find(self, observed: Tensor) -> Tensor:
        """Return which worlds diverged in a step, bool (worlds,); replace them if any did."""
        self._steps += self._engine.worlds
        diverged = self._diverged(observed)
        if self._flag.raised(diverged.any()):
            self._replace()
            self._flag = AsyncFlag(self._engine.device)
        return diverged

    def check(self) -> None:
        """Raise if the simulation failed since the last check; waits for the device."""
        replaced = self._replace()
        if fault := self._engine.fault():
            raise SimulationError(f"{self._task.name}: {fault}")
        if not replaced:
            raise SimulationError(
                f"{self._task.name}: all {self._engine.worlds} worlds diverged (NaN, or beyond "
                f"{STATE_LIMIT:g}); check what the task observes and the model's time step"
            )
        steps, diverged = self._steps - self._checked[0], self.count - self._checked[1]
        self._checked = self._steps, self.count
        if diverged >= _FEW and diverged > _MAX_RATE * steps:
            raise SimulationError(
                f"{self._task.name}: {diverged} worlds diverged in {steps:,} steps, at most one in "
                f"{round(1 / _MAX_RATE):,} may; check the model's time step and limits"
            )

    def _replace(self) -> bool:
        """Copy a healthy neighbour into each diverged world; False if all worlds diverged."""
        state, worlds = self._engine.state, self._engine.worlds
        diverged = self._diverged(self._task.observe(state))
        count = int(diverged.sum())
        if count in (0, worlds):
            return count == 0
        self.count += count
        healthy = torch.nonzero(~diverged).flatten()
        before = torch.searchsorted(healthy, torch.arange(worlds, device=diverged.device))
        source = healthy[before % len(healthy)]
        for name in (*SAVED, "sensordata"):
            now = getattr(state, name)
            now.copy_(now[source])
        self._engine.refresh()
        return True

    def _diverged(self, observed: Tensor) -> Tensor:
        # qpos too, because observations may be clipped. `not <`, because NaN compares as false.
        values = (observed, self._engine.state.qpos)
        within = [value.abs().amax(dim=1) < STATE_LIMIT for value in values]
        return ~(within[0] & within[1])
