# SPDX-License-Identifier: Apache-2.0
"""Worlds of a simulated task as a batch of environments in tensors."""

from collections.abc import Mapping
from dataclasses import replace

import mujoco
import numpy as np
import torch
from torch import Tensor

from pureward.envs.batch import BatchEnv
from pureward.envs.flag import AsyncFlag
from pureward.envs.health import Health
from pureward.envs.sim.camera import Cameras
from pureward.envs.sim.engine import SAVED, load_state, save_state
from pureward.envs.sim.mujoco_cpu import CpuEngine
from pureward.envs.sim.mujoco_warp import WarpEngine
from pureward.envs.tasks.task import Task
from pureward.errors import InputError, check_seed
from pureward.types import DRAWN_FROM, Observation, Script, Step

# Staggered worlds end their episodes at this many different times, not all at different ones:
# a step on which any world resets looks at every world twice.
_PHASES = 20


class TaskEnv(BatchEnv):
    """Worlds of one simulated task.

    Only time limits reset a world, and the host knows when they come, so nothing in `step` waits
    for the device.

    `close`, or leaving a `with` block, gives the simulator's memory back. So does dropping the last
    reference.
    """

    def __init__(
        self,
        task: Task,
        engine: CpuEngine | WarpEngine,
        cameras: Cameras | None,
        *,
        seed: int = 0,
        stagger: bool = False,
    ):
        self.task = task
        self.name = task.name
        self.hold = task.hold
        self.control_step = task.control_step(engine.model)
        self.engine = engine
        self.cameras = cameras
        self.worlds = engine.worlds
        self.device = engine.device
        self.horizon = task.horizon
        self.stagger = stagger
        self._generator = torch.Generator(self.device)
        self._draw = task.reset(engine.model, self.device)
        self._at_rest = _at_rest(engine.model, self.device)
        self._ctrl_center, self._ctrl_span = _control_range(engine.model, self.device)
        self._bad_actions = AsyncFlag(self.device)
        self._health = Health(task, engine)
        # Steps into each episode, counted on the host too: it knows without asking the device
        # whether any world has come to its end, and the device knows which.
        self.elapsed = torch.zeros(self.worlds, dtype=torch.int64, device=self.device)
        self._host_elapsed = np.zeros(self.worlds, dtype=np.int64)
        # Control steps on end for which each world has been in a state of success.
        self._held = torch.zeros(self.worlds, dtype=torch.int64, device=self.device)
        self.seed(seed)
        first = self.reset()
        self.state_size = first.state.shape[1]
        self.frame_shape = None
        if first.frames is not None:
            channels, height, width = first.frames.shape[1:]
            self.frame_shape = (channels, height, width)
        _check_outcomes(task, engine)
        self.action_size = int(engine.model.nu)

    def close(self) -> None:
        """Give the simulator's memory back; the environment cannot be used any more."""
        self.cameras = None
        for name in ("engine", "_health"):
            vars(self).pop(name, None)

    def _check_open(self) -> None:
        if "engine" not in vars(self):
            raise InputError("a closed environment cannot be used; make another one")

    def seed(self, seed: int) -> None:
        """Draw the first states of episodes to come from this seed."""
        check_seed(seed)
        self._generator.manual_seed(int(seed))

    def reset(self) -> Observation:
        """Begin a new episode in every world."""
        self._check_open()
        self._bad_actions = AsyncFlag(self.device)  # whatever they did is gone
        self._set_elapsed(_first_elapsed(self.worlds, self.horizon if self.stagger else 0))
        self._begin(torch.ones_like(self.elapsed, dtype=torch.bool))
        return self._observe()

    def step(self, action: Tensor) -> Step:
        """Apply actions in [−1, 1], (worlds, action size), for one control step.

        Actions outside are clipped. NaN is refused: at once on a CPU, at one of the next
        steps on CUDA, where looking at once would make the host wait.
        """
        self._check_open()
        self.engine.state.ctrl.copy_(self._control(action))
        self.engine.step()
        self.elapsed += 1
        self._host_elapsed += 1
        seen = self._observe()
        mended = self._health.mended
        broken = self._health.broken(seen.state)
        arrival = obs = replace(seen, state=seen.state.masked_fill(broken[:, None], 0.0))
        if self._health.mended != mended:
            obs = self._observe()  # they go on from elsewhere
        reward = self.task.reward(self.engine.state).float().masked_fill(broken, 0.0)
        success = self._count_success(broken)
        truncated = self.elapsed >= self.horizon
        ended = self._host_elapsed >= self.horizon
        if ended.any() and self.resets:
            self.elapsed.masked_fill_(truncated, 0)
            self._host_elapsed[ended] = 0
            if ended[0]:
                self.check()  # once an episode: it makes the host wait
            self._begin(truncated)
            obs = self._observe()
        return Step(
            obs=obs,
            reward=reward,
            terminated=broken,
            truncated=truncated,
            success=success,
            final_obs=arrival,
        )

    def check(self) -> None:
        """Raise if the simulation went wrong since the last check; waits for the device."""
        self._check_open()
        self._health.check()

    @property
    def mended(self) -> int:
        """How many worlds have diverged so far and continued as a copy of their neighbour."""
        return self._health.mended

    def state_dict(self) -> dict[str, Tensor]:
        """All that a later `load_state_dict` needs to go on from here."""
        self._check_open()
        return {
            **save_state(self.engine.state),
            # Forces and touch follow from the last step, not from where things are.
            "sensordata": self.engine.state.sensordata.clone(),
            "elapsed": self.elapsed.clone(),
            "held": self._held.clone(),
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> Observation:
        """Go on from where `state_dict` was taken; returns what is seen there."""
        self._check_open()
        self.engine.state.sensordata.copy_(saved["sensordata"])
        self._held.copy_(saved["held"])
        load_state(self.engine, {name: saved[name] for name in SAVED})
        self._set_elapsed(saved["elapsed"].cpu().numpy())
        self._generator.set_state(saved["generator"].cpu())
        return self._observe()

    def simulator_state(self) -> dict[str, Tensor]:
        """Return the fields of the simulator's state that frames are drawn from."""
        fields = {name: getattr(self.engine.state, name) for name in DRAWN_FROM}
        return {name: value.clone() for name, value in fields.items() if value.numel()}

    def draw(self, simulator_state: Mapping[str, Tensor]) -> Tensor:
        """Return the frames of up to `worlds` states; the worlds are left in these states."""
        if self.cameras is None:
            raise InputError("frames are drawn by cameras; make the environment with cameras=True")
        for name, value in simulator_state.items():
            getattr(self.engine.state, name)[: len(value)].copy_(value)
        self.engine.refresh()
        return self.cameras.render()[: len(simulator_state["qpos"])].clone()

    def script(self) -> Script:
        """Return the task's hand-written policy for these worlds."""
        if self.task.script is None:
            return super().script()
        return self.task.script(self.engine.state)

    def _set_elapsed(self, elapsed: np.ndarray) -> None:
        self._host_elapsed[:] = elapsed
        self.elapsed.copy_(torch.from_numpy(elapsed))

    def _control(self, action: Tensor) -> Tensor:
        self._check_action(action)
        # Detached: nothing differentiates through the physics, and a graph would grow each step.
        return self._ctrl_center + self._ctrl_span * action.detach().clamp(-1.0, 1.0)

    def _check_action(self, action: Tensor) -> None:
        if not isinstance(action, Tensor):
            raise InputError(
                f"actions must be a tensor (worlds, action size), got {type(action).__name__}; "
                "wrap them in torch.as_tensor, or use pureward.make_vec for numpy arrays"
            )
        if tuple(action.shape) != (self.worlds, self.engine.model.nu):
            raise InputError(
                f"action must have shape {(self.worlds, int(self.engine.model.nu))} "
                f"(worlds, action size), got {tuple(action.shape)}; pass one row a world"
            )
        place = self._ctrl_center.device  # with its number, which a device by name may lack
        if action.device != place:
            raise InputError(
                f"actions must be on the environment's device, {place}, got {action.device}; "
                "move them there: action.to(env.device)"
            )
        if self._bad_actions.raised(~torch.isfinite(action).all()):
            raise InputError(
                "actions must be finite numbers, got NaN or infinity; "
                "check the policy that made them"
            )

    def _begin(self, mask: Tensor) -> None:
        """Put the masked worlds into newly drawn first states."""
        state = self.engine.state
        drawn = self._draw(self.worlds, self._generator)
        if unknown := sorted(drawn.keys() - set(SAVED)):
            raise InputError(
                f"a task's reset must draw fields of the state, got {unknown}; "
                f"choose from {list(SAVED)}"
            )
        fresh = self._at_rest | dict(drawn)
        for name in SAVED:
            now = getattr(state, name)
            where = mask.view(-1, *[1] * (now.dim() - 1))
            now.copy_(torch.where(where, fresh[name].to(now.dtype), now))
        state.sensordata.masked_fill_(mask[:, None], 0.0)
        self._held.masked_fill_(mask, 0)
        self.engine.refresh()

    def _count_success(self, broken: Tensor) -> Tensor:
        """Whether each world has now been successful for as long as the task asks."""
        self._held += 1
        self._held.masked_fill_(~self.task.success(self.engine.state) | broken, 0)
        return self._held >= self.hold

    def _observe(self) -> Observation:
        frames = None if self.cameras is None else self.cameras.render().clone()
        return Observation(state=self.task.observe(self.engine.state).float(), frames=frames)


def _first_elapsed(worlds: int, spread: int) -> np.ndarray:
    """Steps that each world's first episode is short of, in groups over the spread."""
    groups = min(_PHASES, worlds)
    group = np.arange(worlds) * groups // worlds
    return group * spread // groups


def _check_outcomes(task: Task, engine: CpuEngine | WarpEngine) -> None:
    """Refuse rewards and successes of a shape that would spread over all worlds unnoticed."""
    for name, function in (("reward", task.reward), ("success", task.success)):
        shape = tuple(function(engine.state).shape)
        if shape != (engine.worlds,):
            raise InputError(
                f"a task's {name} must have shape {(engine.worlds,)}, one number a world, "
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


def _at_rest(model: mujoco.MjModel, device: torch.device) -> dict[str, Tensor]:
    """The model's own first state, one row to be spread over the worlds."""
    data = mujoco.MjData(model)
    row = {name: torch.tensor(getattr(data, name)) for name in SAVED}
    return {name: value.to(device)[None] for name, value in row.items()}
