# SPDX-License-Identifier: Apache-2.0
"""Gymnasium environments as a batch of worlds, by name: `gym:ID` or `MODULE:FUNCTION`.

The worlds are a Gymnasium vector environment whose automatic reset is off. `step` looks at every
arrival state, then resets the worlds that ended: the last frame of an episode is seen and scored.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, cast

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from torch import Tensor

from pureward.envs.batch import BatchEnv
from pureward.errors import InputError, SimulationError, check_seed
from pureward.pixels import to_frames
from pureward.types import Observation, Step

GYM = "gym:"
#: Functions that were passed as objects, by their name MODULE:FUNCTION.
_PASSED: dict[str, Callable[..., gymnasium.Env]] = {}
#: Steps of an episode, where the environment sets no limit.
DEFAULT_HORIZON = 1_000
#: Frames a second of a film, where the environment does not say.
DEFAULT_FPS = 30.0
_SUCCESS = ("is_success", "success")


def find_maker(name: str) -> Callable[..., gymnasium.Env]:
    """Return the function that makes one environment of a name.

    Args:
        name: `gym:ID`, or `MODULE:FUNCTION` with a function that returns a `gymnasium.Env`.
    """
    if name.startswith(GYM):
        identity = name.removeprefix(GYM)

        def by_id(**options: Any) -> gymnasium.Env:
            return gymnasium.make(identity, **options)

        return by_id
    if name in _PASSED:
        return _PASSED[name]
    module, _, function = name.partition(":")
    try:
        found = getattr(import_module(module), function)
    except Exception as error:  # a module may raise anything while it is imported
        raise InputError(
            f"an environment is a task, gym:ID or MODULE:FUNCTION, got {name!r} "
            f"({type(error).__name__}: {error}); check the spelling and PYTHONPATH"
        ) from error
    if not callable(found):
        raise InputError(f"{name} must be a function that makes an environment; check the name")
    return cast(Callable[..., gymnasium.Env], found)


def name_of(make_one: Callable[..., gymnasium.Env]) -> str:
    """Return the name MODULE:FUNCTION of a function that makes an environment, and register it."""
    name = f"{make_one.__module__}:{make_one.__qualname__}"
    _PASSED[name] = make_one
    return name


class GymnasiumEnv(BatchEnv):
    """Worlds of a Gymnasium environment with continuous actions."""

    def __init__(
        self,
        name: str,
        make_one: Callable[..., gymnasium.Env],
        *,
        worlds: int,
        device: torch.device,
        seed: int = 0,
        cameras: bool = False,
        frames: str = "render",
        state: str = "",
        processes: bool = False,
    ) -> None:
        """Make the worlds.

        Args:
            name: of the environment, for messages.
            make_one: makes one environment; called with render_mode if frames are rendered.
            worlds: how many.
            device: where actions are and observations go.
            seed: of the first states.
            cameras: whether observations have frames.
            frames: "render", or keys of a dict observation, separated by commas.
            state: keys of a dict observation, separated by commas; "" takes all that are not
                frames.
            processes: whether each world has a process of its own.
        """
        self.name, self.worlds, self.device = name, worlds, device
        self._frame_keys = tuple(frames.split(",")) if cameras and frames != "render" else ()
        renders = cameras and not self._frame_keys
        options = {"render_mode": "rgb_array"} if renders else {}
        kind = AsyncVectorEnv if processes else SyncVectorEnv
        self._renders = renders
        self._envs = self._call(
            "be made",
            lambda: kind(
                [lambda: make_one(**options)] * worlds, autoreset_mode=AutoresetMode.DISABLED
            ),
        )
        self._state_keys = self._find_state_keys(state)
        self._low, self._high = self._find_actions()
        self.action_size = len(self._low)
        spec = self._envs.spec
        self.horizon = (spec.max_episode_steps if spec else None) or DEFAULT_HORIZON
        fps = self._envs.metadata.get("render_fps") or DEFAULT_FPS
        self.control_step = 1.0 / float(fps)
        self.elapsed = torch.zeros(worlds, dtype=torch.int64, device=device)
        self._sizes: list[tuple[int, ...]] | None = None
        self.seed(seed)
        first = self.reset()
        self._set_sizes(first)

    def seed(self, seed: int) -> None:
        """Draw the first states of episodes to come from this seed."""
        check_seed(seed)
        self._seed: int | None = int(seed) % 2**31

    def reset(self) -> Observation:
        """Begin a new episode in every world."""
        seen, _ = self._call("be reset", lambda: self._envs.reset(seed=self._seed))
        self._seed = None  # later episodes continue from the generators that were seeded
        self.elapsed.zero_()
        return self._observation(seen)

    def step(self, action: Tensor) -> Step:
        """Apply actions (worlds, action size) in [−1, 1] for one step."""
        if tuple(action.shape) != (self.worlds, self.action_size):
            raise InputError(
                f"action must have shape {(self.worlds, self.action_size)} (worlds, action size), "
                f"got {tuple(action.shape)}; pass one row a world"
            )
        share = (action.detach().clamp(-1.0, 1.0).cpu().numpy() + 1.0) / 2.0
        shape = self._envs.action_space.shape
        chosen = (self._low + share * (self._high - self._low)).reshape(shape)
        chosen = chosen.astype(self._envs.action_space.dtype)
        seen, reward, ended, cut, info = self._call("step", lambda: self._envs.step(chosen))
        self.elapsed += 1
        arrival = obs = self._observation(seen)
        terminated = torch.as_tensor(ended, device=self.device)
        truncated = torch.as_tensor(cut, device=self.device) | (self.elapsed >= self.horizon)
        truncated &= ~terminated
        over = terminated | truncated
        if bool(over.any()):
            options = {"reset_mask": over.cpu().numpy()}
            seen, _ = self._call("be reset", lambda: self._envs.reset(options=options))
            self.elapsed.masked_fill_(over, 0)
            obs = self._observation(seen)
        return Step(
            obs=obs,
            reward=torch.as_tensor(reward, dtype=torch.float32, device=self.device),
            terminated=terminated,
            truncated=truncated,
            success=self._success(info),
            final_obs=arrival,
        )

    def close(self) -> None:
        """Close the environments and their processes."""
        self._envs.close()

    def _call(self, what: str, function: Callable[[], Any]) -> Any:
        """Call the environments; an error of theirs becomes a sentence."""
        try:
            return function()
        except (InputError, SimulationError):
            raise
        except Exception as error:
            first = (str(error).splitlines() or ["no message"])[0]
            raise SimulationError(
                f"{self.name} could not {what} ({type(error).__name__}: {first}); "
                "try it alone with gymnasium, without pureward"
            ) from error

    def _find_state_keys(self, state: str) -> tuple[str, ...]:
        space = self._envs.single_observation_space
        if not isinstance(space, spaces.Dict):
            if state not in ("", "observation") or self._frame_keys:
                raise InputError(
                    f"keys are chosen from a dict observation, and {self.name} observes {space}; "
                    "leave out state, and take frames from render"
                )
            return ()
        if state == "observation" and state not in space.spaces:
            state = ""
        wanted = tuple(state.split(",")) if state else ()
        for key in (*self._frame_keys, *wanted):
            if key not in space.spaces:
                raise InputError(
                    f"{self.name} observes {', '.join(space.spaces)}, got {key!r}; choose from them"
                )
        return wanted or tuple(key for key in space.spaces if key not in self._frame_keys)

    def _find_actions(self) -> tuple[np.ndarray, np.ndarray]:
        space = self._envs.single_action_space
        if not isinstance(space, spaces.Box):
            raise InputError(
                f"actions must be continuous (a Box), and those of {self.name} are {space}; train "
                "with an RL library of yours on a reward of pureward (Discriminator, load_reward)"
            )
        if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
            raise InputError(
                f"actions must have finite bounds, and those of {self.name} are {space}; wrap it "
                "in gymnasium.wrappers.RescaleAction or ClipAction"
            )
        return space.low.flatten().astype(np.float64), space.high.flatten().astype(np.float64)

    def _observation(self, seen: Any) -> Observation:
        parts = [seen[key] for key in self._state_keys] if self._state_keys else [seen]
        flat = [np.asarray(part, dtype=np.float32).reshape(self.worlds, -1) for part in parts]
        state = torch.from_numpy(np.concatenate(flat, axis=1))
        if not state.isfinite().all():
            raise SimulationError(
                f"{self.name} returned a state with NaN or infinity; check its physics or actions"
            )
        frames = None
        if self._renders:
            images = self._call("render", self._envs.render)
            if any(image is None for image in images):
                raise InputError(
                    f"{self.name} rendered nothing; make it with render_mode='rgb_array'"
                )
            frames = self._frames([images])
        elif self._frame_keys:
            frames = self._frames([seen[key] for key in self._frame_keys])
        return Observation(state=state.to(self.device), frames=frames)

    def _frames(self, cameras: list[Any]) -> Tensor:
        """Frames (worlds, 3·cameras, 64, 64) of each camera's images."""
        try:
            images = [np.stack([np.asarray(image) for image in camera]) for camera in cameras]
        except ValueError as error:
            raise SimulationError(
                f"{self.name} has frames of different sizes; make all of one size"
            ) from error
        sizes = [image.shape[1:] for image in images]
        if self._sizes not in (None, sizes):
            raise SimulationError(
                f"{self.name} changed the size of its frames from {self._sizes} to {sizes}; keep it"
            )
        self._sizes = sizes
        return torch.cat([to_frames(image, self.device) for image in images], dim=1)

    def _success(self, info: dict[str, Any]) -> Tensor:
        """Whether the environment reports success; where it reports nothing, no."""
        for key in _SUCCESS:
            if key in info:
                return torch.as_tensor(np.asarray(info[key], dtype=bool), device=self.device)
        return torch.zeros(self.worlds, dtype=torch.bool, device=self.device)
