# SPDX-License-Identifier: Apache-2.0
"""Gymnasium environments as a batch of worlds.

`step` looks at every arrival state, then resets the worlds that ended: the last frame of an episode
is seen and scored. That is so for worlds that are made here, whose automatic reset is off, and for
every autoreset mode of a vector environment of the user.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from sysconfig import get_path
from traceback import extract_tb
from typing import Any

import numpy as np
import torch
from gymnasium import logger, spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from torch import Tensor

from pureward.envs.batch import BatchEnv, frame_keys
from pureward.envs.makers import Maker, make_worlds, time_limit
from pureward.errors import InputError, SimulationError, check_seed
from pureward.gym import arrivals, autoreset_mode
from pureward.pixels import batch_of, to_frames
from pureward.types import Observation, Step

#: Steps of an episode, where the environment sets no limit.
DEFAULT_HORIZON = 1_000
#: Frames a second of a film, where the environment does not say.
DEFAULT_FPS = 30.0
_SUCCESS = ("is_success", "success")
_NUMBERS = (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)


class GymnasiumEnv(BatchEnv):
    """Worlds of a Gymnasium environment with continuous actions."""

    def __init__(
        self,
        name: str,
        maker: Maker,
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
            maker: makes one environment, or with the argument num_envs a vector environment;
                called with render_mode if frames are rendered.
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
        self._maker = maker
        self._frame_keys = frame_keys(frames)
        self._cameras, self._renders = cameras, cameras and not self._frame_keys
        options = {"render_mode": "rgb_array"} if self._renders else {}
        if cameras:
            # Mesa's software OpenGL and Triton bring an LLVM each. If Triton is loaded second, as
            # torch's optimizers do, the process crashes.
            with suppress(ImportError):
                import_module("triton")
        self._envs = self._call("be made", lambda: make_worlds(maker, worlds, processes, options))
        try:
            self._inspect(state)
            self.seed(seed)
            self.set_sizes(self.reset())
        except BaseException:
            self.close()
            raise

    def _inspect(self, state: str) -> None:
        """Find modes, keys, bounds and limits of the environments."""
        self._mode, inner = autoreset_mode(self._envs, self._renders), self._envs.unwrapped
        apart = isinstance(inner, AsyncVectorEnv) and not inner.shared_memory
        if apart and self._mode == AutoresetMode.NEXT_STEP:  # its workers would reset twice
            raise InputError(
                "an AsyncVectorEnv without shared memory needs the autoreset mode SAME_STEP or "
                "DISABLED, got NEXT_STEP; change the mode"
            )
        self._state_keys = self._find_state_keys(state)
        self._low, self._high = self._find_actions()
        self.action_size = len(self._low)
        self.horizon = time_limit(self._envs) or DEFAULT_HORIZON
        fps = self._envs.metadata.get("render_fps") or DEFAULT_FPS
        self.control_step = 1.0 / float(fps)
        self.elapsed = torch.zeros(self.worlds, dtype=torch.int64, device=self.device)
        self._sizes: list[tuple[int, ...]] | None = None

    def seed(self, seed: int) -> None:
        """Seed the first states of the episodes to come."""
        self._seed: int | None = check_seed(seed) % 2**31

    def reset(self) -> Observation:
        """Begin a new episode in every world."""
        seen, _ = self._call("be reset", lambda: self._envs.reset(seed=self._seed))
        parts = seen.values() if isinstance(seen, dict) else [seen]
        if any(isinstance(part, Tensor) for part in parts):
            raise InputError(
                f"a gymnasium.vector.VectorEnv must return numpy arrays, and {self.name} returns "
                "tensors; implement pureward.BatchEnv instead (docs/how-to/own-environment.md)"
            )
        self._seed = None  # later episodes continue from the generators that were seeded
        self.elapsed.zero_()
        return self._observation(seen)

    def step(self, action: Tensor) -> Step:
        """Apply actions (worlds, action size) in [−1, 1] for one step."""
        self._check_action(action)
        share = (action.detach().clamp(-1.0, 1.0).cpu().numpy() + 1.0) / 2.0
        if not np.isfinite(share).all():  # infinity was clipped
            raise InputError("actions must be finite, got NaN or infinity; check the policy")
        space = self._envs.action_space
        chosen = (self._low + share * (self._high - self._low)).reshape(space.shape)
        if np.issubdtype(space.dtype, np.integer):
            chosen = chosen.round()
        chosen = chosen.astype(space.dtype)
        seen, reward, ended, cut, info = self._call("step", lambda: self._envs.step(chosen))
        if not np.isfinite(reward).all():
            raise SimulationError(f"{self.name} returned a reward of NaN or infinity; check it")
        self.elapsed += 1
        was_reset = (ended | cut) & (self._mode == AutoresetMode.SAME_STEP)
        arrival = self._observation(arrivals(seen, info, was_reset))
        terminated = torch.tensor(ended, device=self.device)  # a copy: its array may be used again
        truncated = torch.as_tensor(cut, device=self.device) | (self.elapsed >= self.horizon)
        truncated &= ~terminated
        over = terminated | truncated
        return Step(
            obs=self._begin(over, was_reset, seen, arrival) if bool(over.any()) else arrival,
            reward=torch.tensor(reward, dtype=torch.float32, device=self.device),
            terminated=terminated,
            truncated=truncated,
            success=self._success(info, was_reset),
            final_obs=arrival,
        )

    def _begin(
        self, over: Tensor, was_reset: np.ndarray, seen: Any, arrival: Observation
    ) -> Observation:
        """Begin new episodes where one is over, except in worlds that were reset already."""
        mask = over.cpu().numpy() & ~was_reset
        if mask.any():
            options = {"reset_mask": mask}
            seen, _ = self._call("be reset", lambda: self._envs.reset(options=options))
        self.elapsed.masked_fill_(over, 0)
        obs = self._observation(seen)
        if not torch.equal(obs.state[~over], arrival.state[~over]):
            raise SimulationError(
                f"{self.name} must reset only the worlds of options['reset_mask'], and others "
                "changed too; correct its reset, or use the autoreset mode SAME_STEP"
            )
        return obs

    def close(self) -> None:
        """Close the environments and their processes, also if one of these has ended."""
        try:
            self._call("be closed", self._envs.close)
        except Exception:  # whatever an environment raises must not hide an earlier error
            for process in getattr(self._envs.unwrapped, "processes", ()):
                process.kill()
            self._envs.closed = True

    def _call(self, what: str, function: Callable[[], Any]) -> Any:
        """Call the environments; an error of theirs becomes a sentence."""
        envs, level = getattr(self, "_envs", None), logger.min_level
        if envs is not None and isinstance(envs.unwrapped, AsyncVectorEnv):
            logger.min_level = logger.ERROR + 1  # without the tracebacks of worker processes
        try:
            return function()
        except (InputError, SimulationError):
            raise
        except Exception as error:
            reason = (str(error).splitlines() or ["no message"])[0]
            if isinstance(error, EOFError | ConnectionError):
                reason = "the process of a world ended"
            remedy = "try it alone with gymnasium.utils.env_checker.check_env" + _line_of(error)
            takes_none = "render_mode" in reason or "takes no arguments" in reason
            if what == "render" or takes_none:
                remedy = self._frames_remedy("take")
            raise SimulationError(
                f"{self.name} could not {what} ({type(error).__name__}: {reason}); {remedy}"
            ) from error
        finally:
            logger.min_level = level

    def _frames_remedy(self, verb: str) -> str:
        """Say where frames can come from; an environment may have images in its observation."""
        keys = []
        with suppress(Exception):  # whatever it raises must not hide the error
            made = getattr(self, "_envs", None)
            envs = make_worlds(self._maker, 1, False, {}) if made is None else made
            space = envs.single_observation_space
            if isinstance(space, spaces.Dict):
                keys = [key for key, part in space.spaces.items() if _may_be_image(part)]
            if made is None:
                envs.close()
        if keys:
            chosen = ",".join(keys)
            return (
                f"its observation has images: name them with --frames {chosen}, or in Python "
                f"frames={chosen!r}"
            )
        return f"it must {verb} render_mode='rgb_array', or have frames in its observation"

    def _find_state_keys(self, state: str) -> tuple[str, ...]:
        space = self._envs.single_observation_space
        if not isinstance(space, spaces.Dict):
            if state not in ("", "observation") or self._frame_keys:
                raise InputError(
                    f"keys are chosen from a dict observation, and {self.name} observes {space}; "
                    "leave out state, and take frames from render"
                )
            self._check_part("its observation", space)
            return ()
        if state == "observation" and state not in space.spaces:
            state = ""
        wanted = tuple(state.split(",")) if state else ()
        for key in (*self._frame_keys, *wanted):
            if key not in space.spaces:
                raise InputError(
                    f"{self.name} observes {', '.join(space.spaces)}, got {key!r}; choose from them"
                )
        keys = wanted or tuple(key for key in space.spaces if key not in self._frame_keys)
        if not keys:
            raise InputError(
                f"the policy needs a state, and {self.name} observes frames only; add a part to "
                "its observation, or name one with state"
            )
        for key in keys:
            self._check_part(repr(key), space[key])
        if not wanted:
            self.warning = self._images_warning({key: space[key] for key in keys})
        return keys

    def _images_warning(self, parts: dict[str, spaces.Space]) -> str:
        """Say if a state whose keys were not chosen has images, which make it large and slow."""
        sizes = {key: math.prod(part.shape or ()) for key, part in parts.items()}
        images = [key for key, part in parts.items() if _may_be_image(part)]
        others = [key for key in parts if key not in images]
        if not images or not others:
            return ""
        return (
            f"the policy's state has {sum(sizes.values()):,} numbers, "
            f"{sum(sizes[key] for key in images):,} of them of what looks like images, "
            f"{', '.join(images)}; --state {','.join(others)} leaves those out, "
            f"--frames {','.join((*self._frame_keys, *images))} gives them to the reward"
        )

    def _check_part(self, part: str, space: spaces.Space) -> None:
        if not isinstance(space, _NUMBERS):
            raise InputError(
                f"a state must be arrays of numbers, and {part} of {self.name} is {space}; choose "
                "other parts with state, or wrap it in gymnasium.wrappers.FlattenObservation"
            )

    def _find_actions(self) -> tuple[np.ndarray, np.ndarray]:
        space = self._envs.single_action_space
        if not isinstance(space, spaces.Box):
            raise InputError(
                f"actions must be continuous (a Box), and those of {self.name} are {space}; use an "
                "RL library with pureward.OnlineReward and its hooks (docs/how-to/rl-libraries.md)"
            )
        if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
            raise InputError(
                f"actions must have finite bounds, and those of {self.name} are {space}; bound "
                "its action_space"
            )
        return space.low.flatten().astype(np.float64), space.high.flatten().astype(np.float64)

    def _observation(self, seen: Any) -> Observation:
        parts = [seen[key] for key in self._state_keys] if self._state_keys else [seen]
        with np.errstate(over="ignore"):  # infinity is told below
            flat = [np.asarray(part, dtype=np.float32).reshape(self.worlds, -1) for part in parts]
        state = torch.from_numpy(np.concatenate(flat, axis=1))
        if not state.isfinite().all():
            raise SimulationError(
                f"{self.name} returned a state with NaN or infinity; check its physics or actions"
            )
        frames = None
        if self._renders:
            images = self._call("render", self._envs.render)
            if images is None or any(image is None for image in images):
                raise InputError(
                    f"{self.name} rendered nothing; {self._frames_remedy('render with')}"
                )
            frames = self._frames([images])
        elif self._cameras:
            frames = self._frames([seen[key] for key in self._frame_keys])
        return Observation(state=state.to(self.device), frames=frames)

    def _frames(self, cameras: list[Any]) -> Tensor:
        """Frames (worlds, 3·cameras, 64, 64) of each camera's images."""
        try:
            images = [batch_of(camera) for camera in cameras]
            frames = torch.cat([to_frames(image, self.device) for image in images], dim=1)
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from error
        sizes = [tuple(image.shape[1:]) for image in images]
        if self._sizes not in (None, sizes):
            raise SimulationError(
                f"{self.name} changed the size of its frames from {self._sizes} to {sizes}; keep it"
            )
        self._sizes = sizes
        return frames

    def _success(self, info: dict[str, Any], was_reset: np.ndarray) -> Tensor:
        """Whether the environment reports success; where it reports nothing, no."""
        last, nothing = info.get("final_info", {}), np.zeros(self.worlds, dtype=bool)
        key = next((key for key in _SUCCESS if key in info or key in last), "")
        now, final = (np.asarray(told.get(key, nothing), dtype=bool) for told in (info, last))
        return torch.as_tensor(np.where(was_reset, final, now), device=self.device)


def _may_be_image(space: spaces.Space) -> bool:
    """Whether a part of an observation looks like an image; grey ones have two axes."""
    axes = len(space.shape) if isinstance(space, spaces.Box) else 0
    return axes == 3 or (axes == 2 and space.dtype == np.uint8)


def _line_of(error: Exception) -> str:
    """Say where the user's own code raised an error, if that is known."""
    others = (str(Path(__file__).parents[1]), *(get_path(name) for name in ("stdlib", "purelib")))
    own = [at for at in extract_tb(error.__traceback__) if not at.filename.startswith(others)]
    return f", and see line {own[-1].lineno} of {own[-1].filename}" if own else ""
