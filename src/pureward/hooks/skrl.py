# SPDX-License-Identifier: Apache-2.0
"""A learned reward in skrl (PyTorch): a wrapper around an environment of `wrap_env`."""

from operator import attrgetter
from typing import Any

from pureward.errors import InputError, missing_extra
from pureward.hooks.scorer import FrameSource, Scorer, check_source, images_of
from pureward.online.online_reward import OnlineReward
from pureward.rewards.learned import LearnedReward

try:
    import gymnasium
    import numpy as np
    import torch
    from skrl.envs.wrappers.torch import Wrapper
    from skrl.utils.spaces.torch import unflatten_tensorized_space
    from torch import Tensor
except ModuleNotFoundError as error:
    raise missing_extra(error) from error

#: Autoreset of a batch: the observation of an ended episode is its last ("none"), the next step
#: only resets it ("next_step"), or it is already that of the next episode ("same_step").
AUTORESETS = ("none", "next_step", "same_step")


class RewardWrapper(Wrapper):
    """Replace rewards by the learned rewards of arrival frames.

    The true reward is in `infos["env_reward"]`, float32 (worlds, 1). The reward of a step that only
    resets a world is 0.
    """

    def __init__(
        self,
        env: Wrapper,
        reward: OnlineReward | LearnedReward,
        *,
        frames: FrameSource = "render",
        autoreset: str | None = None,
        discount: float | None = None,
        learn_every: int = 0,
        updates: int = 20,
    ) -> None:
        """Wrap an environment that skrl has wrapped.

        Args:
            env: what skrl's `wrap_env` returned.
            reward: an `OnlineReward`, or a frozen one of `load_reward`.
            frames: "render", a key of a dict observation, "observation" if that is an image, or a
                function of `env` and its observations as tensors that returns a batch of images.
            autoreset: "none", "next_step" or "same_step". None finds it: Gymnasium's vector
                environments state it, other batches are "same_step". With "same_step", and no
                `final_obs` in infos or a function as `frames`, the last step of an episode is
                scored by the frame before.
            discount: γ of the agent; needed if the reward has an absorbing state.
            learn_every: steps of the environment, or of the batch, between two calls of
                `reward.learn`; 0 if your loop calls it.
            updates: of D in each of them.
        """
        if not isinstance(env, Wrapper):
            raise InputError(
                f"env must be wrapped by skrl, got {type(env).__name__}; pass wrap_env(env)"
            )
        super().__init__(env)
        self._autoreset = _autoreset(env) if autoreset is None else autoreset
        if self._autoreset not in AUTORESETS:
            raise InputError(f"unknown autoreset {autoreset!r}; choose from {AUTORESETS}")
        check_source(frames, env.observation_space, getattr(env, "render_mode", "rgb_array"))
        if frames == "render" and self._autoreset == "same_step":
            raise InputError(
                "frames='render' needs an environment that is not reset in the step that ends an "
                "episode, got autoreset 'same_step'; use AutoresetMode.NEXT_STEP, or take frames "
                "from the observation"
            )
        self._source = frames
        self._scorer = Scorer(reward, discount=discount, learn_every=learn_every, updates=updates)
        self._resets = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
        self._newest: Tensor | None = None  # frames of the newest observations

    def reset(self) -> tuple[Tensor, dict[str, Any]]:
        """Reset the environment; a batch only once."""
        if self._autoreset == "none":
            self._scorer.restart()
        observations, infos = self._env.reset()
        if self._autoreset == "same_step":
            self._newest = self._frames(observations)
        return observations, infos

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Any]:
        """Take a step; rewards are those of the states in which it arrives."""
        observations, env_reward, terminated, truncated, infos = self._env.step(actions)
        ended, terminal = (terminated | truncated).reshape(-1), terminated.reshape(-1)
        frames = self._frames(observations)
        if self._autoreset == "same_step":
            before, self._newest = self._newest, frames
            if bool(ended.any()):
                frames = self._with_last(frames, before, ended, infos.get("final_obs"))
        rewards = self._scorer.step(frames, ended, terminal, ~self._resets)
        if self._autoreset == "next_step":
            self._resets = ended
        rewards = rewards.to(env_reward.device).reshape(env_reward.shape)
        infos = {**infos, "env_reward": env_reward}
        return observations, rewards, terminated, truncated, infos

    def _frames(self, observations: Tensor) -> Tensor:
        """The frames of present states, uint8 (worlds, channels, height, width)."""
        if self._source == "render":
            images = self._env.render()
            one = images is None or getattr(images, "ndim", 0) == 3
            return self._scorer.frames([images] if one else images)
        space: Any = self.observation_space
        parts = _as_in(space, unflatten_tensorized_space(space, observations))
        return self._scorer.frames(images_of(self._source, self._env, parts))

    def _with_last(self, frames: Tensor, before: Tensor | None, ended: Tensor, last: Any) -> Tensor:
        """A copy in which ended episodes have their last frame, or the one before."""
        rows = ended.nonzero().reshape(-1).to(frames.device)
        frames = frames.clone()
        if last is not None and not callable(self._source):
            images = [images_of(self._source, self._env, last[row]) for row in rows.tolist()]
            frames[rows] = self._scorer.frames(images)
        elif before is not None:
            frames[rows] = before[rows]
        return frames

    def state(self) -> Tensor | None:
        """Return the environment's state."""
        return self._env.state()

    def render(self, *args: Any, **kwargs: Any) -> Any:
        """Render the environment."""
        return self._env.render(*args, **kwargs)

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    # skrl's own are those of the innermost environment, before `wrap_env`.
    device = property(attrgetter("_env.device"))
    num_envs = property(attrgetter("_env.num_envs"))
    state_space = property(attrgetter("_env.state_space"))
    observation_space = property(attrgetter("_env.observation_space"))
    action_space = property(attrgetter("_env.action_space"))


def _autoreset(env: Wrapper) -> str:
    inner = env._env
    if isinstance(inner, gymnasium.vector.VectorEnv):
        mode = inner.metadata.get("autoreset_mode", gymnasium.vector.AutoresetMode.NEXT_STEP)
        if mode == gymnasium.vector.AutoresetMode.DISABLED:
            raise InputError(
                "skrl does not reset ended worlds of a vector environment, got "
                "AutoresetMode.DISABLED; use AutoresetMode.NEXT_STEP"
            )
        return "next_step" if mode == gymnasium.vector.AutoresetMode.NEXT_STEP else "same_step"
    return "same_step" if env.num_envs > 1 else "none"


def _as_in(space: Any, values: Any) -> Any:
    """Observations with uint8 images; skrl makes float32 of them, with values up to 255."""
    if isinstance(space, gymnasium.spaces.Dict):
        return {key: _as_in(part, values[key]) for key, part in space.items()}
    return values.to(torch.uint8) if space.dtype == np.uint8 else values
