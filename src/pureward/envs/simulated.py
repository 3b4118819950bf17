# SPDX-License-Identifier: Apache-2.0
"""Simulated tasks as batches of environments."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import mujoco
import numpy as np
import torch
from torch import Tensor

from pureward.envs.batch import BatchEnv
from pureward.envs.divergence import CONTINUED, DivergenceMonitor
from pureward.envs.sim import Engine
from pureward.envs.sim.engine import SAVED
from pureward.envs.tasks.task import Task
from pureward.errors import InputError, check_seed
from pureward.types import DRAWN_FROM, AsyncFlag, Observation, Script, Step

if TYPE_CHECKING:
    from pureward.envs.sim.camera import Cameras

# Staggered worlds end their episodes at this many different times. More would be slower: a step
# in which any world resets observes all worlds twice.
_PHASES = 20


class TaskEnv(BatchEnv):
    """Worlds of one simulated task.

    Only time limits reset a world, and the host counts steps itself, so `step` does not wait for
    the device. `close`, leaving a `with` block and dropping the last reference free the
    simulator's memory.
    """

    terminates = False  # except worlds that diverge

    def __init__(
        self,
        task: Task,
        engine: Engine,
        cameras: "Cameras | None",
        *,
        seed: int = 0,
        stagger: bool = False,
    ):
        self.task, self._engine, self.cameras = task, engine, cameras
        self.renderer = "rasterizer" if cameras is None else cameras.renderer
        self.name, self.horizon, self.hold = task.name, task.horizon, task.hold
        self.worlds, self.device = engine.worlds, engine.device
        self.control_step = task.control_step(engine.model)
        self.action_size = int(engine.model.nu)
        self.stagger = stagger
        self._generator = torch.Generator(self.device)
        self._sample_state = task.reset(engine.model, self.device)
        start = mujoco.MjData(engine.model)
        self._default_state = {
            name: torch.tensor(getattr(start, name)).to(self.device)[None] for name in SAVED
        }
        self._ctrl_center, self._ctrl_span = _control_range(engine.model, self.device)
        self._monitor = DivergenceMonitor(task, self.device)
        # Counted on the host too, which then knows whether any episode ends without a sync.
        self.elapsed = torch.zeros(self.worlds, dtype=torch.int64, device=self.device)
        self._host_elapsed = np.zeros(self.worlds, dtype=np.int64)
        # Consecutive control steps in a state of success.
        self._held = torch.zeros(self.worlds, dtype=torch.int64, device=self.device)
        self.seed(seed)
        self.set_sizes(self.reset())
        _check_outcomes(task, engine)

    def close(self) -> None:
        """Free the simulator's memory; the environment cannot be used afterwards."""
        self._engine = self.cameras = None

    @property
    def engine(self) -> Engine:
        """The simulator of all worlds."""
        if self._engine is None:
            raise InputError("a closed environment cannot be used; make another one")
        return self._engine

    def seed(self, seed: int) -> None:
        """Seed the first states of the episodes to come."""
        self._generator.manual_seed(check_seed(seed))

    def reset(self) -> Observation:
        """Begin a new episode in every world."""
        self._bad_actions = AsyncFlag(self.device)
        groups = min(_PHASES, self.worlds)
        group = np.arange(self.worlds) * groups // self.worlds
        self._set_elapsed(group * (self.horizon if self.stagger else 0) // groups)
        self._begin(torch.ones_like(self.elapsed, dtype=torch.bool))
        return self._observe()

    def step(self, action: Tensor) -> Step:
        """Apply actions (worlds, action size) for one control step.

        Actions are clipped to [−1, 1]. NaN and infinity raise `InputError`: at once on a CPU, some
        steps later on CUDA, because checking at once would wait for the device.
        """
        self._check_action(action)
        # Detached: the physics has no gradient, and a graph would grow with each step.
        control = self._ctrl_center + self._ctrl_span * action.detach().clamp(-1.0, 1.0)
        self.engine.state.ctrl.copy_(control)
        self.engine.step()
        self.elapsed += 1
        self._host_elapsed += 1
        seen, count = self._observe(), self._monitor.count
        diverged = self._monitor.find(self.engine, seen.state)
        arrival = obs = replace(seen, state=seen.state.masked_fill(diverged[:, None], 0.0))
        if self._monitor.count != count:
            obs = self._observe()  # some worlds were replaced
        reward = self.task.reward(self.engine.state).float().masked_fill(diverged, 0.0)
        self._held += 1
        self._held.masked_fill_(~self.task.success(self.engine.state) | diverged, 0)
        success = self._held >= self.hold
        truncated = self.elapsed >= self.horizon
        ended = self._host_elapsed >= self.horizon
        if ended.any() and self.resets:
            self.elapsed.masked_fill_(truncated, 0)
            self._host_elapsed[ended] = 0
            if ended[0]:
                self.check()  # once per episode, because it waits for the device
            self._begin(truncated)
            obs = self._observe()
        return Step(
            obs=obs,
            reward=reward,
            terminated=diverged,
            truncated=truncated,
            success=success,
            final_obs=arrival,
        )

    def check(self) -> None:
        """Raise `SimulationError` if the simulation failed; waits for the device."""
        self._monitor.check(self.engine)

    @property
    def diverged(self) -> int:
        """How many worlds have diverged so far and continued as a copy of their neighbour."""
        return self._monitor.count

    def state_dict(self) -> dict[str, Tensor]:
        """Return what `load_state_dict` needs to continue from here, bit for bit."""
        return {
            **{name: getattr(self.engine.state, name).clone() for name in CONTINUED},
            "elapsed": self.elapsed.clone(),
            "held": self._held.clone(),
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> Observation:
        """Continue from where `state_dict` was taken, and return the observation there."""
        for name in CONTINUED:
            getattr(self.engine.state, name).copy_(saved[name])
        self.engine.refresh()
        self._held.copy_(saved["held"])
        self._set_elapsed(saved["elapsed"].cpu().numpy())
        self._generator.set_state(saved["generator"].cpu())
        return self._observe()

    def simulator_state(self) -> dict[str, Tensor]:
        """Return copies of the state fields that frames depend on, one row per world."""
        fields = {name: getattr(self.engine.state, name) for name in DRAWN_FROM}
        return {name: value.clone() for name, value in fields.items() if value.numel()}

    def draw(self, simulator_state: Mapping[str, Tensor]) -> Tensor:
        """Return the frames of up to `worlds` states; the worlds are left in these states."""
        state = self.engine.state
        if self.cameras is None:
            raise InputError("frames are drawn by cameras; make the environment with cameras=True")
        for name, value in simulator_state.items():
            getattr(state, name)[: len(value)].copy_(value)
        self.engine.refresh()
        return self.cameras.render()[: len(simulator_state["qpos"])].clone()

    def script(self) -> Script:
        """Return the task's hand-written policy for these worlds."""
        return self.task.script(self.engine.state) if self.task.script else super().script()

    def _set_elapsed(self, elapsed: np.ndarray) -> None:
        self._host_elapsed[:] = elapsed
        self.elapsed.copy_(torch.from_numpy(elapsed))

    def _check_action(self, action: Tensor) -> None:
        super()._check_action(action)
        device = self._ctrl_center.device  # has an index, which self.device may lack
        if action.device != device:
            raise InputError(
                f"actions must be on the environment's device, {device}, got {action.device}; "
                "move them there: action.to(env.device)"
            )
        if self._bad_actions.raised(~torch.isfinite(action).all()):
            raise InputError("actions must be finite, got NaN or infinity; check the policy")

    def _begin(self, mask: Tensor) -> None:
        """Reset the masked worlds to newly sampled first states."""
        state = self.engine.state
        sampled = self._sample_state(self.worlds, self._generator)
        if unknown := sorted(sampled.keys() - set(SAVED)):
            raise InputError(
                f"a task's reset must return fields of the state, got {unknown}; "
                f"choose from {list(SAVED)}"
            )
        fresh = {**self._default_state, **sampled}
        for name in SAVED:
            now = getattr(state, name)
            where = mask.view(-1, *[1] * (now.dim() - 1))
            now.copy_(torch.where(where, fresh[name].to(now.dtype), now))
        state.sensordata.masked_fill_(mask[:, None], 0.0)
        self._held.masked_fill_(mask, 0)
        self.engine.refresh()

    def _observe(self) -> Observation:
        frames = None if self.cameras is None else self.cameras.render().clone()
        return Observation(state=self.task.observe(self.engine.state).float(), frames=frames)


def _check_outcomes(task: Task, engine: Engine) -> None:
    """Reject rewards and successes of a shape that would broadcast over all worlds."""
    for name, function in (("reward", task.reward), ("success", task.success)):
        shape = tuple(function(engine.state).shape)
        if shape != (engine.worlds,):
            raise InputError(
                f"a task's {name} must have shape {(engine.worlds,)}, one number per world, "
                f"got {shape}; check the function of task {task.name!r}"
            )


def _control_range(model: mujoco.MjModel, device: torch.device) -> tuple[Tensor, Tensor]:
    """Centre and half-width of the actuators' ranges, which actions in [−1, 1] span."""
    for index, limits in enumerate(model.actuator_ctrlrange):
        if not np.ptp(limits):
            raise InputError(
                f"actions in [-1, 1] span an actuator's ctrlrange, and actuator {index} "
                f"({model.actuator(index).name!r}) has none; give it one in the model"
            )
    low, high = torch.from_numpy(model.actuator_ctrlrange.T.copy()).to(device, torch.float32)
    return (high + low) / 2, (high - low) / 2
