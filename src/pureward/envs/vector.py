# SPDX-License-Identifier: Apache-2.0
"""Gymnasium adapters: a `VectorEnv` over a batch of worlds and an `Env` of one world."""

from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from torch import Tensor

from pureward.envs import BatchEnv, make
from pureward.errors import InputError
from pureward.types import Observation

if TYPE_CHECKING:
    from pureward.envs.makers import Maker


def make_vec(
    task: "str | Maker | gymnasium.Env",
    num_envs: int = 1,
    *,
    render_mode: str | None = None,
    cameras: bool = False,
    **options: Any,
) -> "PurewardVectorEnv":
    """Make a `gymnasium.vector.VectorEnv`.

    Args:
        task: a name or an object as in `pureward.make`.
        num_envs: number of worlds.
        render_mode: None or "rgb_array".
        cameras: whether observations have frames.
        options: further options of `pureward.make`.

    Returns:
        The environment. An ended episode restarts in the same step.
    """
    _check_render_mode(render_mode)
    env = make(task, num_envs, cameras=cameras or render_mode is not None, **options)
    return PurewardVectorEnv(env, observes_frames=cameras)


def make_single(task: str, render_mode: str | None = None, **options: Any) -> "PurewardEnv":
    """Make a `gymnasium.Env` of one world; options are those of `make_vec`."""
    # A function: `gymnasium.make` would read the render modes of a class before its __init__.
    return PurewardEnv(task, render_mode, **options)


class PurewardVectorEnv(VectorEnv):
    """A batch of worlds as numpy arrays; an ended episode restarts in the same step."""

    def __init__(self, env: BatchEnv, *, observes_frames: bool = True):
        self.env = env
        self.num_envs = env.worlds
        self.render_mode = None if env.frame_shape is None else "rgb_array"
        self._observes_frames = observes_frames
        self._frames: Tensor | None = None  # of the last observation
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, **_metadata(env)}
        self.single_observation_space, self.single_action_space = _spaces(env, observes_frames)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a new episode in every world."""
        if options and "reset_mask" in options:
            raise InputError(
                "all worlds are reset together, got a reset_mask; leave it out, because ended "
                "episodes restart by themselves"
            )
        one = None if seed is None else _one_seed(seed, self.num_envs)
        super().reset(seed=one, options=options)
        if one is not None:
            self.env.seed(one)
        obs = self.env.reset()
        self._frames = obs.frames
        return _to_numpy(obs, self._observes_frames), {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Apply one action per world."""
        step = self.env.step(_to_tensor(actions, self.env.device))
        truncated = step.truncated.cpu().numpy().copy()
        terminated = step.terminated.cpu().numpy().copy()
        success = step.success.cpu().numpy()
        info: dict[str, Any] = {"success": success, "_success": np.ones(self.num_envs, dtype=bool)}
        if (ended := truncated | terminated).any():
            final = _to_numpy(step.final_obs, self._observes_frames)
            for world in np.flatnonzero(ended).tolist():
                final_info = {"success": bool(success[world])}
                row = {"final_obs": _row(final, world), "final_info": final_info}
                info = self._add_info(info, row, world)
        self._frames = step.obs.frames
        obs = _to_numpy(step.obs, self._observes_frames)
        return obs, step.reward.cpu().numpy(), terminated, truncated, info

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Return each world's first camera image (height, width, 3), as last observed.

        None without cameras, and before the first reset.
        """
        return None if self._frames is None else tuple(_images(self._frames))

    def close_extras(self, **_: Any) -> None:
        """Free the simulator's memory; `close` calls this."""
        self.env.close()


class PurewardEnv(gymnasium.Env):
    """One world; the caller must `reset` it when its episode ends."""

    def __init__(
        self, task: str, render_mode: str | None = None, *, cameras: bool = False, **options: Any
    ):
        _check_render_mode(render_mode)
        self.render_mode = render_mode
        self._observes_frames = cameras
        self.env = make(task, 1, cameras=cameras or render_mode is not None, **options)
        # Kept, because the world has already restarted when an episode's last frame is rendered.
        self._frames: Tensor | None = None
        self.metadata = _metadata(self.env)
        self.observation_space, self.action_space = _spaces(self.env, cameras)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a new episode."""
        super().reset(seed=seed, options=options)
        if seed is not None:
            self.env.seed(seed)
        return self._convert(self.env.reset()), {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Apply one action."""
        step = self.env.step(_to_tensor(action, self.env.device)[None])
        obs, info = self._convert(step.final_obs), {"success": bool(step.success)}
        return obs, float(step.reward), bool(step.terminated), bool(step.truncated), info

    def render(self) -> np.ndarray | None:
        """Return the first camera's image of the last observation, (height, width, 3)."""
        if self.render_mode is None or self._frames is None:
            return None
        return _images(self._frames)[0]

    def close(self) -> None:
        """Free the simulator's memory."""
        self.env.close()
        super().close()

    def _convert(self, obs: Observation) -> Any:
        self._frames = obs.frames
        return _row(_to_numpy(obs, self._observes_frames), 0)


def _check_render_mode(mode: str | None) -> None:
    if mode not in (None, "rgb_array"):
        raise InputError(
            f"render_mode must be 'rgb_array' or None, got {mode!r}; "
            "for a window wrap the environment in gymnasium's HumanRendering"
        )


def _metadata(env: BatchEnv) -> dict[str, Any]:
    return {"render_modes": ["rgb_array"], "render_fps": round(1.0 / env.control_step)}


def _spaces(env: BatchEnv, observes_frames: bool) -> tuple[spaces.Space, spaces.Box]:
    """Observation and action space of one world."""
    space = spaces.Box(-np.inf, np.inf, (env.state_size,), np.float32)
    if env.frame_shape is not None and observes_frames:
        frames = spaces.Box(0, 255, env.frame_shape, np.uint8)
        space = spaces.Dict({"state": space, "frames": frames})
    return space, spaces.Box(-1.0, 1.0, (env.action_size,), np.float32)


def _to_numpy(obs: Observation, observes_frames: bool) -> Any:
    state = obs.state.cpu().numpy()
    if obs.frames is None or not observes_frames:
        return state
    return {"state": state, "frames": obs.frames.cpu().numpy()}


def _images(frames: Tensor) -> np.ndarray:
    """Copies of the first camera's images (worlds, height, width, 3)."""
    return frames[:, :3].permute(0, 2, 3, 1).cpu().numpy().copy()


def _to_tensor(actions: np.ndarray, device: torch.device) -> Tensor:
    # A copy: torch warns about read-only arrays, such as those of JAX.
    return torch.as_tensor(np.array(actions, dtype=np.float32), device=device)


def _row(batch: Any, world: int) -> Any:
    if isinstance(batch, dict):
        return {name: values[world] for name, values in batch.items()}
    return batch[world]


def _one_seed(seed: int | Sequence[int], worlds: int) -> int:
    """Combine one seed per world into one, because a batch has a single generator."""
    if isinstance(seed, Integral):
        return int(seed)
    seeds = list(seed) if isinstance(seed, Sequence | np.ndarray) else []
    numbers = [int(each) for each in seeds if isinstance(each, Integral)]
    if not len(seeds) == len(numbers) == worlds or min(numbers) < 0:
        raise InputError(
            f"seed must be a whole number or a list of {worlds}, one per world, none below 0, "
            f"got {seed!r}; try seed=0"
        )
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])
