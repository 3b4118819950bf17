# SPDX-License-Identifier: Apache-2.0
"""A batch of environments in tensors: what every learner and collector steps."""

from collections.abc import Mapping
from dataclasses import replace

import mujoco
import numpy as np
import torch
from torch import Tensor

from pureward.errors import InputError, SimulationError
from pureward.sim.camera import Cameras
from pureward.sim.engine import SAVED, load_state, save_state
from pureward.sim.mujoco_cpu import CpuEngine
from pureward.sim.mujoco_warp import WarpEngine
from pureward.tasks import find_task
from pureward.tasks.task import Task
from pureward.types import Observation, Step

# Staggered worlds end their episodes at this many different times, not all at different ones:
# a step on which any world resets looks at every world twice.
_PHASES = 20
# Metres, radians, their rates and newtons: a world that shows more has come apart.
_ABSURD = 1e4
# In single precision one of some million steps of a clumsy arm ends so; more is a broken task.
_MENDED_AT_MOST = 1e-5


class BatchEnv:
    """N worlds of one task that step together and begin anew by themselves.

    Time limits are the only ends, and the host knows when they come, so nothing in `step`
    waits for the device.
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
        self._bad_actions = _AsyncFlag(self.device)
        self._bad_worlds = _AsyncFlag(self.device)
        self.mended = 0
        """Worlds that came apart so far and went on as a copy of their neighbour."""
        self._checked = (0, 0)  # world steps and mended worlds at the last check
        self._world_steps = 0
        # Steps into each episode, counted on the host too: it knows without asking the device
        # whether any world has come to its end, and the device knows which.
        self.elapsed = torch.zeros(self.worlds, dtype=torch.int64, device=self.device)
        self._host_elapsed = np.zeros(self.worlds, dtype=np.int64)
        # Control steps on end for which each world has been in a state of success.
        self._held = torch.zeros(self.worlds, dtype=torch.int64, device=self.device)
        self.seed(seed)
        self.state_size = self.reset().state.shape[1]
        self.action_size = int(engine.model.nu)

    @property
    def frame_shape(self) -> tuple[int, int, int] | None:
        """Channels, height and width of a world's frames, or None without cameras."""
        if self.cameras is None:
            return None
        channels, height, width = self.cameras.frames.shape[1:]
        return channels, height, width

    def seed(self, seed: int) -> None:
        """Draw the first states of episodes to come from this seed."""
        self._generator.manual_seed(seed)

    def reset(self) -> Observation:
        """Begin a new episode in every world."""
        self._set_elapsed(_first_elapsed(self.worlds, self.horizon if self.stagger else 0))
        self._begin(torch.ones_like(self.elapsed, dtype=torch.bool))
        return self._observe()

    def step(self, action: Tensor) -> Step:
        """Apply actions in [−1, 1], (worlds, action size), for one control step.

        Actions outside are clipped. NaN is refused: at once on a CPU, at one of the next
        steps on CUDA, where looking at once would make the host wait.
        """
        self.engine.state.ctrl.copy_(self._control(action))
        self.engine.step()
        self.elapsed += 1
        self._host_elapsed += 1
        self._world_steps += self.worlds
        seen = self._observe()
        broken = self._broken(seen)
        arrival = obs = replace(seen, state=seen.state.masked_fill(broken[:, None], 0.0))
        reward = self.task.reward(self.engine.state).float().masked_fill(broken, 0.0)
        success = self._count_success()
        truncated = self.elapsed >= self.horizon
        ended = self._host_elapsed >= self.horizon
        if ended.any():
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
        self._mend()
        complaint = self.engine.complaint()
        if complaint:
            raise SimulationError(f"{self.task.name}: {complaint}")
        steps, mended = self._world_steps - self._checked[0], self.mended - self._checked[1]
        self._checked = self._world_steps, self.mended
        if mended > _MENDED_AT_MOST * steps:
            raise SimulationError(
                f"{self.task.name}: {mended} worlds came apart in {steps:,} steps, at most one in "
                f"{round(1 / _MENDED_AT_MOST):,} may; check the model's time step and limits"
            )

    def state_dict(self) -> dict[str, Tensor]:
        """All that a later `load_state_dict` needs to go on from here."""
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
        # What a checkpoint of an earlier version lacks starts from nothing.
        self.engine.state.sensordata.copy_(saved.get("sensordata", torch.zeros(())))
        self._held.copy_(saved.get("held", torch.zeros(())))
        load_state(self.engine, {name: saved[name] for name in SAVED})
        self._set_elapsed(saved["elapsed"].cpu().numpy())
        self._generator.set_state(saved["generator"].cpu())
        return self._observe()

    def _set_elapsed(self, elapsed: np.ndarray) -> None:
        self._host_elapsed[:] = elapsed
        self.elapsed.copy_(torch.from_numpy(elapsed))

    def _control(self, action: Tensor) -> Tensor:
        if tuple(action.shape) != (self.worlds, self.engine.model.nu):
            raise InputError(
                f"action must have shape {(self.worlds, int(self.engine.model.nu))} "
                f"(worlds, action size), got {tuple(action.shape)}; pass one row a world"
            )
        if self._bad_actions.raised(~torch.isfinite(action).all()):
            raise InputError(
                "actions must be finite numbers, got NaN or infinity; "
                "check the policy that made them"
            )
        return self._ctrl_center + self._ctrl_span * action.clamp(-1.0, 1.0)

    def _begin(self, mask: Tensor) -> None:
        """Put the masked worlds into newly drawn first states."""
        state = self.engine.state
        drawn = self._draw(self.worlds, self._generator)
        fresh = self._at_rest | dict(drawn)
        for name in SAVED:
            now = getattr(state, name)
            where = mask.view(-1, *[1] * (now.dim() - 1))
            now.copy_(torch.where(where, fresh[name].to(now.dtype), now))
        state.sensordata.masked_fill_(mask[:, None], 0.0)
        self._held.masked_fill_(mask, 0)
        self.engine.refresh()

    def _broken(self, seen: Observation) -> Tensor:
        """Which worlds show numbers that cannot be; they are mended as soon as the host knows."""
        broken = ~(seen.state.abs().amax(dim=1) < _ABSURD)
        if self._bad_worlds.raised(broken.any()):
            self._mend()
            self._bad_worlds = _AsyncFlag(self.device)
        return broken

    def _mend(self) -> None:
        """Let worlds that came apart go on as copies of their neighbours; waits for the device."""
        state = self.engine.state
        broken = ~(self.task.observe(state).abs().amax(dim=1) < _ABSURD)
        count = int(broken.sum())
        if not 0 < count < self.worlds:
            return
        self.mended += count
        healthy = torch.nonzero(~broken).flatten()
        before = torch.searchsorted(healthy, torch.arange(self.worlds, device=self.device))
        source = healthy[before % len(healthy)]
        for name in (*SAVED, "sensordata"):
            now = getattr(state, name)
            now.copy_(now[source])
        self._held.masked_fill_(broken, 0)
        self.engine.refresh()

    def _count_success(self) -> Tensor:
        """Whether each world has now been successful for as long as the task asks."""
        self._held += 1
        self._held.masked_fill_(~self.task.success(self.engine.state), 0)
        return self._held >= self.task.hold

    def _observe(self) -> Observation:
        frames = None if self.cameras is None else self.cameras.render().clone()
        return Observation(state=self.task.observe(self.engine.state).float(), frames=frames)


class _AsyncFlag:
    """Whether something was ever true on the device, asked without waiting for the answer."""

    def __init__(self, device: torch.device):
        self._cuda = device.type == "cuda"
        self._ever = torch.zeros((), dtype=torch.bool, device=device)
        self._seen = torch.zeros((), dtype=torch.bool, pin_memory=self._cuda)

    def raised(self, now: Tensor) -> bool:
        if not self._cuda:
            return bool(now)
        self._ever |= now
        self._seen.copy_(self._ever, non_blocking=True)
        return bool(self._seen)


def _first_elapsed(worlds: int, spread: int) -> np.ndarray:
    """Steps that each world's first episode is short of, in groups over the spread."""
    groups = min(_PHASES, worlds)
    group = np.arange(worlds) * groups // worlds
    return group * spread // groups


def _control_range(model: mujoco.MjModel, device: torch.device) -> tuple[Tensor, Tensor]:
    """Centre and half-width of the actuators' ranges, which actions in [−1, 1] span."""
    low, high = torch.from_numpy(model.actuator_ctrlrange.T.copy()).to(device, torch.float32)
    return (high + low) / 2, (high - low) / 2


def _at_rest(model: mujoco.MjModel, device: torch.device) -> dict[str, Tensor]:
    """The model's own first state, one row to be spread over the worlds."""
    data = mujoco.MjData(model)
    row = {name: torch.tensor(getattr(data, name)) for name in SAVED}
    return {name: value.to(device)[None] for name, value in row.items()}


def make(
    task: str,
    worlds: int = 1,
    device: str = "auto",
    *,
    seed: int = 0,
    cameras: bool = False,
    stagger: bool = False,
    shadows: bool = False,
    engine: str = "auto",
    distractors: str | None = None,
) -> BatchEnv:
    """Make a batch of environments.

    Args:
        task: a name in `pureward.TASKS`.
        worlds: how many environments step together.
        device: "auto" (CUDA where there is one), "cpu" or "cuda".
        seed: of the first states; the same seed gives the same episodes on the same device.
        cameras: whether observations carry 64×64 frames.
        stagger: let the worlds end their episodes at different times.
        shadows: draw shadows; slower.
        engine: "auto" (C MuJoCo on a CPU, MuJoCo Warp on CUDA), "mujoco" or "warp".
        distractors: shape of what is not the task's, in tasks that have such: "cube" or "cuboid".
    """
    row = find_task(task)
    if worlds < 1:
        raise InputError(f"worlds must be at least 1, got {worlds}; pass worlds=1 or more")
    place = find_device(device)
    simulator = _find_engine(engine, place)
    model = row.model(distractors)
    if simulator == "mujoco":
        physics = CpuEngine(model, worlds, substeps=row.substeps)
    else:
        physics = WarpEngine(model, worlds, substeps=row.substeps, limits=row.limits, device=place)
    eyes = Cameras(physics, row.cameras, shadows=shadows) if cameras else None
    return BatchEnv(row, physics, eyes, seed=seed, stagger=stagger)


def find_device(name: str) -> torch.device:
    """The torch device of that name; "auto" is CUDA where there is one."""
    if name == "auto":
        return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    if name not in ("cpu", "cuda") and not name.startswith("cuda:"):
        raise InputError(f"unknown device {name!r}; choose from 'auto', 'cpu', 'cuda', 'cuda:N'")
    if name == "cpu":
        return torch.device("cpu")
    index = name.removeprefix("cuda").removeprefix(":") or "0"
    found = torch.cuda.device_count()
    if not index.isdigit() or int(index) >= found:
        raise InputError(
            f"device {name!r} needs a CUDA GPU of that number, and this machine has {found}; "
            "use 'cpu' or 'auto'"
        )
    return torch.device("cuda", int(index))


def _find_engine(name: str, device: torch.device) -> str:
    if name not in ("auto", "mujoco", "warp"):
        raise InputError(f"unknown engine {name!r}; choose from 'auto', 'mujoco', 'warp'")
    if name == "auto":
        return "mujoco" if device.type == "cpu" else "warp"
    if name == "mujoco" and device.type != "cpu":
        raise InputError(
            f"engine 'mujoco' runs on the CPU only, got device {device}; use engine='warp'"
        )
    return name
