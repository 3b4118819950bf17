# SPDX-License-Identifier: Apache-2.0
"""The Gymnasium face of a batch: a `VectorEnv` of numpy arrays, and a single `Env`."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

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


def make_vec(
    task: str,
    num_envs: int = 1,
    *,
    render_mode: str | None = None,
    cameras: bool = False,
    **options: Any,
) -> "PurewardVectorEnv":
    """Make a `gymnasium.vector.VectorEnv`; further options are those of `pureward.make`."""
    _check_render_mode(render_mode)
    env = make(task, num_envs, cameras=cameras or render_mode is not None, **options)
    return PurewardVectorEnv(env, observes_frames=cameras)


def make_single(task: str, render_mode: str | None = None, **options: Any) -> "PurewardEnv":
    """Make a `gymnasium.Env` of one world; options are those of `pureward.make`."""
    return PurewardEnv(task, render_mode, **options)


class PurewardVectorEnv(VectorEnv):
    """A batch of worlds as numpy arrays; an ended episode begins anew in the same step."""

    def __init__(self, env: BatchEnv, *, observes_frames: bool = True):
        self.env = env
        self.num_envs = env.worlds
        self.render_mode = None if env.frame_shape is None else "rgb_array"
        self._observes_frames = observes_frames
        self.metadata = {
            "autoreset_mode": AutoresetMode.SAME_STEP,
            "render_modes": ["rgb_array"],
            "render_fps": _frames_per_second(env),
        }
        self.single_observation_space = _observation_space(env, observes_frames)
        self.single_action_space = _action_space(env)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a new episode in every world."""
        if options and "reset_mask" in options:
            raise InputError(
                "all worlds are reset together, got a reset_mask; leave it out: a world that "
                "ends begins anew by itself"
            )
        one = None if seed is None else _one_seed(seed, self.num_envs)
        super().reset(seed=one, options=options)
        if one is not None:
            self.env.seed(one)
        return _to_numpy(self.env.reset(), self._observes_frames), {}

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict]:
        """Apply one action a world."""
        step = self.env.step(_to_tensor(actions, self.env.device))
        truncated = step.truncated.cpu().numpy().copy()
        terminated = step.terminated.cpu().numpy().copy()
        ended = truncated | terminated
        success = step.success.cpu().numpy()
        info: dict[str, Any] = {
            "success": success,
            "_success": np.ones(self.num_envs, dtype=bool),
        }
        if ended.any():
            final = _to_numpy(step.final_obs, self._observes_frames)
            for world in np.flatnonzero(ended).tolist():
                told = {"success": bool(success[world])}
                row = {"final_obs": _row(final, world), "final_info": told}
                info = self._add_info(info, row, world)
        return (
            _to_numpy(step.obs, self._observes_frames),
            step.reward.cpu().numpy(),
            terminated,
            truncated,
            info,
        )

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Each world's first camera, (height, width, 3), if there are cameras."""
        if self.env.frame_shape is None:
            return None
        return tuple(_images(self.env.draw(self.env.simulator_state())))

    def close_extras(self, **_: Any) -> None:
        """Give the simulator's memory back; `close` calls this."""
        self.env.close()


class PurewardEnv(gymnasium.Env):
    """One world; when its episode has ended, the caller has to `reset` it."""

    def __init__(
        self, task: str, render_mode: str | None = None, *, cameras: bool = False, **options: Any
    ):
        _check_render_mode(render_mode)
        self.render_mode = render_mode
        self._observes_frames = cameras
        self.env = make(task, 1, cameras=cameras or render_mode is not None, **options)
        # The world behind it has begun its next episode when this one's last frame is shown.
        self._frames: Tensor | None = None
        self.metadata = {
            "render_modes": ["rgb_array"],
            "render_fps": _frames_per_second(self.env),
        }
        self.observation_space = _observation_space(self.env, cameras)
        self.action_space = _action_space(self.env)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a new episode."""
        super().reset(seed=seed, options=options)
        if seed is not None:
            self.env.seed(seed)
        return self._see(self.env.reset()), {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Apply one action."""
        step = self.env.step(_to_tensor(action, self.env.device)[None])
        return (
            self._see(step.final_obs),
            float(step.reward),
            bool(step.terminated),
            bool(step.truncated),
            {"success": bool(step.success)},
        )

    def render(self) -> np.ndarray | None:
        """The first camera's image of what was last observed, (height, width, 3)."""
        if self.render_mode is None or self._frames is None:
            return None
        return _images(self._frames)[0]

    def close(self) -> None:
        """Give the simulator's memory back."""
        self.env.close()
        super().close()

    def _see(self, obs: Observation) -> Any:
        self._frames = obs.frames
        return _row(_to_numpy(obs, self._observes_frames), 0)


def _check_render_mode(mode: str | None) -> None:
    if mode not in (None, "rgb_array"):
        raise InputError(
            f"render_mode must be 'rgb_array' or None, got {mode!r}; "
            "for a window wrap the environment in gymnasium's HumanRendering"
        )


def _frames_per_second(env: BatchEnv) -> int:
    return round(1.0 / env.control_step)


def _observation_space(env: BatchEnv, observes_frames: bool) -> spaces.Space:
    state = spaces.Box(-np.inf, np.inf, (env.state_size,), np.float32)
    if env.frame_shape is None or not observes_frames:
        return state
    return spaces.Dict({"state": state, "frames": spaces.Box(0, 255, env.frame_shape, np.uint8)})


def _action_space(env: BatchEnv) -> spaces.Box:
    return spaces.Box(-1.0, 1.0, (env.action_size,), np.float32)


def _to_numpy(obs: Observation, observes_frames: bool) -> Any:
    state = obs.state.cpu().numpy()
    if obs.frames is None or not observes_frames:
        return state
    return {"state": state, "frames": obs.frames.cpu().numpy()}


def _images(frames: Tensor) -> np.ndarray:
    """The first camera's images (worlds, height, width, 3), which later frames leave alone."""
    return frames[:, :3].permute(0, 2, 3, 1).cpu().numpy().copy()


def _to_tensor(actions: np.ndarray, device: torch.device) -> Tensor:
    # A copy: torch warns of arrays that cannot be written to, as those of JAX.
    return torch.as_tensor(np.array(actions, dtype=np.float32), device=device)


def _row(batch: Any, world: int) -> Any:
    if isinstance(batch, dict):
        return {name: values[world] for name, values in batch.items()}
    return batch[world]


def _one_seed(seed: int | Sequence[int], worlds: int) -> int:
    """One seed for the batch, which draws all its worlds from one generator."""
    if isinstance(seed, Integral):
        return int(seed)
    many = _seeds_of_worlds(seed, worlds)
    if many is None:
        raise InputError(
            f"seed must be a whole number or {worlds} of them, none below 0, one a world, "
            f"got {seed!r}; try seed=0"
        )
    return int(np.random.SeedSequence(many).generate_state(1)[0])


def _seeds_of_worlds(seed: Any, worlds: int) -> list[int] | None:
    """One seed a world, or None where it is anything else."""
    if not isinstance(seed, Sequence | np.ndarray) or len(seed) != worlds:
        return None
    numbers = [int(each) for each in seed if isinstance(each, Integral)]
    return numbers if len(numbers) == worlds and min(numbers) >= 0 else None
