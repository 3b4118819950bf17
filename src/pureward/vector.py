# SPDX-License-Identifier: Apache-2.0
"""The Gymnasium face of a batch: a `VectorEnv` of numpy arrays, and a single `Env`."""

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from torch import Tensor

from pureward.env import BatchEnv, make
from pureward.types import Observation


def make_vec(task: str, num_envs: int = 1, **options: Any) -> "PurewardVectorEnv":
    """Make a `gymnasium.vector.VectorEnv`; options are those of `pureward.make`."""
    return PurewardVectorEnv(make(task, num_envs, **options))


def make_single(task: str, render_mode: str | None = None, **options: Any) -> "PurewardEnv":
    """Make a `gymnasium.Env` of one world; options are those of `pureward.make`."""
    return PurewardEnv(task, render_mode, **options)


class PurewardVectorEnv(VectorEnv):
    """A batch of worlds as numpy arrays; an ended episode begins anew in the same step."""

    def __init__(self, env: BatchEnv):
        self.env = env
        self.num_envs = env.worlds
        self.metadata = {
            "autoreset_mode": AutoresetMode.SAME_STEP,
            "render_modes": ["rgb_array"],
            "render_fps": _frames_per_second(env),
        }
        self.single_observation_space = _observation_space(env)
        self.single_action_space = _action_space(env)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | list[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a new episode in every world."""
        super().reset(seed=seed if isinstance(seed, int) else None, options=options)
        if seed is not None:
            self.env.seed(_one_seed(seed))
        return _to_numpy(self.env.reset()), {}

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict]:
        """Apply one action a world."""
        step = self.env.step(_to_tensor(actions, self.env.device))
        truncated = step.truncated.cpu().numpy().copy()
        terminated = step.terminated.cpu().numpy().copy()
        ended = truncated | terminated
        info: dict[str, Any] = {
            "success": step.success.cpu().numpy(),
            "_success": np.ones(self.num_envs, dtype=bool),
        }
        if ended.any():
            final = _to_numpy(step.final_obs)
            for world in np.flatnonzero(ended).tolist():
                row = {"final_obs": _row(final, world), "final_info": {}}
                info = self._add_info(info, row, world)
        return (
            _to_numpy(step.obs),
            step.reward.cpu().numpy(),
            terminated,
            truncated,
            info,
        )

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Each world's first camera, (height, width, 3), if there are cameras."""
        if self.env.cameras is None:
            return None
        return tuple(self.env.cameras.render()[:, :3].permute(0, 2, 3, 1).cpu().numpy())


class PurewardEnv(gymnasium.Env):
    """One world, which waits for `reset` when its episode has ended."""

    def __init__(self, task: str, render_mode: str | None = None, **options: Any):
        self.render_mode = render_mode
        cameras = options.pop("cameras", False) or render_mode is not None
        self.env = make(task, 1, cameras=cameras, **options)
        self.metadata = {
            "render_modes": ["rgb_array"],
            "render_fps": _frames_per_second(self.env),
        }
        self.observation_space = _observation_space(self.env)
        self.action_space = _action_space(self.env)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a new episode."""
        super().reset(seed=seed, options=options)
        if seed is not None:
            self.env.seed(seed)
        return _row(_to_numpy(self.env.reset()), 0), {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Apply one action."""
        step = self.env.step(_to_tensor(action, self.env.device)[None])
        return (
            _row(_to_numpy(step.final_obs), 0),
            float(step.reward),
            bool(step.terminated),
            bool(step.truncated),
            {"success": bool(step.success)},
        )

    def render(self) -> np.ndarray | None:
        """The first camera's image, (height, width, 3)."""
        if self.render_mode is None or self.env.cameras is None:
            return None
        return self.env.cameras.render()[0, :3].permute(1, 2, 0).cpu().numpy().copy()


def _frames_per_second(env: BatchEnv) -> int:
    return round(1.0 / env.task.control_step(env.engine.model))


def _observation_space(env: BatchEnv) -> spaces.Space:
    state = spaces.Box(-np.inf, np.inf, (env.state_size,), np.float32)
    if env.frame_shape is None:
        return state
    return spaces.Dict({"state": state, "frames": spaces.Box(0, 255, env.frame_shape, np.uint8)})


def _action_space(env: BatchEnv) -> spaces.Box:
    return spaces.Box(-1.0, 1.0, (env.action_size,), np.float32)


def _to_numpy(obs: Observation) -> Any:
    state = obs.state.cpu().numpy()
    return state if obs.frames is None else {"state": state, "frames": obs.frames.cpu().numpy()}


def _to_tensor(actions: np.ndarray, device: torch.device) -> Tensor:
    return torch.as_tensor(np.asarray(actions, dtype=np.float32), device=device)


def _row(batch: Any, world: int) -> Any:
    if isinstance(batch, dict):
        return {name: values[world] for name, values in batch.items()}
    return batch[world]


def _one_seed(seed: int | list[int]) -> int:
    """One seed for the batch, which draws all its worlds from one generator."""
    if isinstance(seed, int):
        return seed
    return int(np.random.SeedSequence(seed).generate_state(1)[0])
