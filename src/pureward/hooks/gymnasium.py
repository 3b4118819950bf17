# SPDX-License-Identifier: Apache-2.0
"""Gymnasium environments that are paid by a learned reward."""

from typing import Any, SupportsFloat

import numpy as np

from pureward.errors import missing_extra
from pureward.hooks.scorer import FrameSource, Scorer, check_source, images_of
from pureward.online.online_reward import OnlineReward
from pureward.rewards.learned import LearnedReward

try:
    import gymnasium
    from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

    from pureward.gym import arrivals, autoreset_mode
except ModuleNotFoundError as error:
    raise missing_extra(error) from error


class RewardWrapper(gymnasium.Wrapper):
    """Pays the learned reward of the arrival frame; `info["env_reward"]` is the true one."""

    def __init__(
        self,
        env: gymnasium.Env,
        reward: OnlineReward | LearnedReward,
        *,
        frames: FrameSource = "render",
        discount: float | None = None,
        learn_every: int = 0,
        updates: int = 20,
    ) -> None:
        """Wrap one environment.

        An `OnlineReward` observes one environment by this; use `VectorRewardWrapper` for several.

        Args:
            env: the environment.
            reward: an `OnlineReward`, or a frozen one of `load_reward`.
            frames: "render", a key of a dict observation, "observation" if that is an image, or a
                function of the environment and its observation that returns the image.
            discount: γ of the RL library; needed if the reward has an absorbing state.
            learn_every: steps between two calls of `reward.learn`; 0 if your loop calls it.
            updates: of D in each of them.
        """
        super().__init__(env)
        check_source(frames, env.observation_space, env.render_mode)
        self._source = frames
        self._scorer = Scorer(reward, discount=discount, learn_every=learn_every, updates=updates)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environment; an episode that has no end yet ends here."""
        self._scorer.restart()
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take a step; the reward is that of the state in which it arrives."""
        obs, env_reward, terminated, truncated, info = self.env.step(action)
        frames = self._scorer.frames([images_of(self._source, self.env, obs)])
        reward = float(self._scorer.step(frames, [terminated or truncated], [terminated]))
        return obs, reward, terminated, truncated, info | {"env_reward": float(env_reward)}


class VectorRewardWrapper(VectorWrapper):
    """Pays learned rewards of arrival frames; `info["env_reward"]` has the true ones, (envs,).

    The frame of an ended episode is that of its last state in every autoreset mode. A step that
    only resets (NEXT_STEP mode) is paid 0 and not observed.
    """

    def __init__(
        self,
        env: VectorEnv,
        reward: OnlineReward | LearnedReward,
        *,
        frames: FrameSource = "render",
        discount: float | None = None,
        learn_every: int = 0,
        updates: int = 20,
    ) -> None:
        """Wrap a vector environment.

        Args:
            env: the vector environment.
            reward: an `OnlineReward`, or a frozen one of `load_reward`.
            frames: "render", a key of a dict observation, "observation" if that is an image, or a
                function of the vector environment and its observations of arrival states that
                returns a batch of images.
            discount: γ of the RL library; needed if the reward has an absorbing state.
            learn_every: steps of the vector environment between two calls of `reward.learn`; 0 if
                your loop calls it.
            updates: of D in each of them.
        """
        super().__init__(env)
        check_source(frames, env.single_observation_space, env.render_mode)
        self._mode = autoreset_mode(env, renders=frames == "render")
        self._source = frames
        self._scorer = Scorer(reward, discount=discount, learn_every=learn_every, updates=updates)
        self._resets = np.zeros(self.num_envs, dtype=bool)  # reset by the next step

    def reset(
        self,
        *,
        seed: int | list[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all environments, or those of `options["reset_mask"]`."""
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, dtype=bool))
        self._resets &= ~np.asarray(mask)
        self._scorer.restart(mask)
        return self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take a step in every environment."""
        obs, env_reward, terminated, truncated, info = self.env.step(actions)
        ended, stepped = terminated | truncated, ~self._resets
        arrived = arrivals(obs, info, ended) if self._mode == AutoresetMode.SAME_STEP else obs
        frames = self._scorer.frames(images_of(self._source, self.env, arrived))
        paid = self._scorer.step(frames, ended, terminated, stepped)
        reward = paid.cpu().numpy().astype(np.float64)
        if self._mode == AutoresetMode.NEXT_STEP:
            self._resets = ended
        truth = {"env_reward": env_reward, "_env_reward": stepped}
        return obs, reward, terminated, truncated, info | truth
