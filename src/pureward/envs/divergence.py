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

#: What a world continues from. Force and touch sensors depend on the last step too.
CONTINUED = (*SAVED, "sensordata")
_MAX_RATE = 1e-5  # diverged worlds per world and step
_FEW = 10  # fewer between two checks do not measure a rate


class DivergenceMonitor:
    """Finds, replaces and counts the diverged worlds of a batch."""

    def __init__(self, task: Task, device: torch.device):
        self._task, self._flag = task, AsyncFlag(device)
        self._steps = 0
        self._checked = (0, 0)  # steps and diverged worlds at the last check
        self.count = 0
        """Worlds that have diverged so far."""

    def find(self, engine: Engine, observed: Tensor) -> Tensor:
        """Return which worlds diverged in a step, bool (worlds,); replace them if any did."""
        self._steps += engine.worlds
        diverged = _diverged(engine, observed)
        if self._flag.raised(diverged.any()):
            self._replace(engine)
            self._flag = AsyncFlag(engine.device)
        return diverged

    def check(self, engine: Engine) -> None:
        """Raise if the simulation failed since the last check; waits for the device."""
        replaced = self._replace(engine)
        if fault := engine.fault():
            raise SimulationError(f"{self._task.name}: {fault}")
        if not replaced:
            raise SimulationError(
                f"{self._task.name}: all {engine.worlds} worlds diverged (NaN, or beyond "
                f"{STATE_LIMIT:g}); check what the task observes and the model's time step"
            )
        steps, diverged = self._steps - self._checked[0], self.count - self._checked[1]
        self._checked = self._steps, self.count
        if diverged >= _FEW and diverged > _MAX_RATE * steps:
            raise SimulationError(
                f"{self._task.name}: {diverged} worlds diverged in {steps:,} steps, at most one in "
                f"{round(1 / _MAX_RATE):,} may; check the model's time step and limits"
            )

    def _replace(self, engine: Engine) -> bool:
        """Copy a healthy neighbour into each diverged world; False if all worlds diverged."""
        diverged = _diverged(engine, self._task.observe(engine.state))
        count = int(diverged.sum())
        if count in (0, engine.worlds):
            return count == 0
        self.count += count
        healthy = torch.nonzero(~diverged).flatten()
        before = torch.searchsorted(healthy, torch.arange(engine.worlds, device=diverged.device))
        source = healthy[before % len(healthy)]
        for name in CONTINUED:
            now = getattr(engine.state, name)
            now.copy_(now[source])
        engine.refresh()
        return True


def _diverged(engine: Engine, observed: Tensor) -> Tensor:
    # qpos too, because observations may be clipped. `not <`, because NaN compares as false.
    values = (observed, engine.state.qpos)
    within = [value.abs().amax(dim=1) < STATE_LIMIT for value in values]
    return ~(within[0] & within[1])
