# SPDX-License-Identifier: Apache-2.0
"""Stable-Baselines3 on a learned reward: environment, replay buffers and callback."""

from collections import deque
from typing import Any, SupportsFloat

import numpy as np
import torch

from pureward.diagnostics.verdict import Verdict
from pureward.errors import InputError, missing_extra
from pureward.hooks.scorer import FrameSource, Scorer, check_source, images_of
from pureward.online.online_reward import OnlineReward
from pureward.rewards.learned import LearnedReward

try:
    import gymnasium
    from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
except ModuleNotFoundError as error:
    raise missing_extra(error) from error


class RecordFrames(gymnasium.Wrapper):
    """Puts the rendered frame of the arrival state into `info["frame"]`.

    A `VecEnv` resets an ended episode before anyone can render its last state. Pass this to
    `make_vec_env` as `wrapper_class`, and `RewardVecEnv` gets the frames from it.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        """Check that the environment renders images."""
        super().__init__(env)
        check_source("render", env.observation_space, env.render_mode)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take a step and render the state in which it arrives."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated, truncated, info | {"frame": self.env.render()}


class RewardVecEnv(VecEnvWrapper):
    """Pays learned rewards of arrival frames, that of `terminal_observation` for ended episodes.

    The infos of a step have the true reward, "env_reward", and the reward's frame, "frame", uint8
    (channels, height, width). At the end of an episode "env_return" is the sum of the true
    rewards, also in "episode" if a `Monitor` is inside; `VecMonitor` outside records it with
    `info_keywords=("env_return",)`.
    """

    def __init__(
        self,
        venv: VecEnv,
        reward: OnlineReward | LearnedReward,
        *,
        frames: FrameSource = "render",
        discount: float | None = None,
    ) -> None:
        """Wrap a `VecEnv`.

        Args:
            venv: environments; with frames="render", each in `RecordFrames`.
            reward: an `OnlineReward`, or a frozen one of `load_reward`.
            frames: "render", a key of a dict observation, "observation" if that is an image, or a
                function of the `VecEnv` and the observation of one environment that returns the
                image.
            discount: γ of the algorithm; needed if the reward has an absorbing state.
        """
        if not isinstance(venv, VecEnv):
            raise InputError(
                f"RewardVecEnv wraps a VecEnv, got {type(venv).__name__}; use make_vec_env"
            )
        super().__init__(venv)
        if frames != "render":
            check_source(frames, venv.observation_space, None)
        elif not all(venv.env_is_wrapped(RecordFrames)):
            raise InputError(
                "frames='render' needs environments in RecordFrames, because a VecEnv resets "
                "before the last frame can be rendered; use make_vec_env(…, "
                "wrapper_class=RecordFrames)"
            )
        self._source = frames
        self._scorer = Scorer(reward, discount=discount)
        self._returns = np.zeros(self.num_envs)

    def reset(self) -> Any:
        """Reset all environments."""
        self._returns[:] = 0.0
        self._scorer.restart()
        return self.venv.reset()

    def step_wait(self) -> Any:
        """Return observations, learned rewards, ends and infos of the step."""
        obs, env_rewards, ended, infos = self.venv.step_wait()
        images = [self._image(obs, i, infos[i], ended[i]) for i in range(self.num_envs)]
        frames = self._scorer.frames(images)
        timeouts = np.array([info.get("TimeLimit.truncated", False) for info in infos])
        terminated = ended & ~timeouts
        rewards = self._scorer.step(frames, ended, terminated).cpu().numpy()
        self._returns += env_rewards
        for i, (info, frame) in enumerate(zip(infos, frames.cpu().numpy(), strict=True)):
            info |= {"env_reward": float(env_rewards[i]), "frame": frame}
            if ended[i]:
                total = {"env_return": float(self._returns[i])}
                info |= total
                if "episode" in info:
                    info["episode"] |= total
        self._returns[ended] = 0.0
        return obs, rewards, ended, infos

    def env_method(self, method_name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of the environments, but not the one by which HER computes rewards."""
        if method_name == "compute_reward":
            raise InputError(
                "HerReplayBuffer takes rewards from the environment's compute_reward, which are "
                "true ones; use replay_buffer_class=RewardDictReplayBuffer"
            )
        return super().env_method(method_name, *args, **kwargs)

    def _image(self, obs: Any, i: int, info: dict[str, Any], ended: bool) -> Any:
        """The image of the state in which environment i arrived."""
        if self._source == "render":
            return info["frame"]
        if ended:
            arrival = info["terminal_observation"]
        elif isinstance(obs, dict):
            arrival = {key: part[i] for key, part in obs.items()}
        else:
            arrival = obs[i]
        return images_of(self._source, self.venv, arrival)


class RewardReplayBuffer(ReplayBuffer):
    """Stores arrival frames; rewards are computed by the current reward when they are sampled.

    The environment must be a `RewardVecEnv`, and `RewardCallback` sets the reward.
    """

    def __init__(
        self, buffer_size: int, observation_space: gymnasium.Space, *args: Any, **kwargs: Any
    ) -> None:
        """Allocate the memory; arguments are those of SB3's buffer."""
        observes_dict = isinstance(observation_space, gymnasium.spaces.Dict)
        if observes_dict != isinstance(self, DictReplayBuffer):
            wanted = "RewardDictReplayBuffer" if observes_dict else "RewardReplayBuffer"
            raise InputError(
                f"{type(self).__name__} cannot store observations of {observation_space}; use "
                f"replay_buffer_class={wanted}"
            )
        super().__init__(buffer_size, observation_space, *args, **kwargs)
        self.env_rewards = self.rewards
        """The true rewards, float32 (steps, environments)."""
        self.rewards = _CurrentRewards(self)  # type: ignore[assignment]
        self.frames: np.ndarray | None = None
        """Arrival frames, uint8 (steps, environments, channels, height, width)."""
        self._scorer: Scorer | None = None

    def set_reward(
        self, reward: OnlineReward | LearnedReward, *, discount: float | None = None
    ) -> None:
        """Set the reward that relabels; `RewardCallback` calls this.

        Args:
            reward: an `OnlineReward`, or a frozen one of `load_reward`.
            discount: γ of the algorithm; needed if the reward has an absorbing state.
        """
        self._scorer = Scorer(reward, discount=discount)

    def add(self, *args: Any, **kwargs: Any) -> None:
        """Store a step of every environment, with the frames and true rewards of its infos."""
        infos = kwargs["infos"] if "infos" in kwargs else args[-1]
        if any("frame" not in info or "env_reward" not in info for info in infos):
            raise InputError(
                f"{type(self).__name__} needs 'frame' and 'env_reward' in the infos, which are "
                "missing; wrap the environment in RewardVecEnv"
            )
        frames = np.stack([info["frame"] for info in infos])
        if self.frames is None:
            self.frames = np.zeros((self.buffer_size, *frames.shape), dtype=np.uint8)
        self.frames[self.pos] = frames
        self.env_rewards[self.pos] = [info["env_reward"] for info in infos]
        super().add(*args, **kwargs)

    def current_rewards(self, index: Any) -> np.ndarray:
        """Return rewards by the current networks, float32, of the steps that `index` selects."""
        if self._scorer is None:
            raise InputError(
                f"{type(self).__name__} has no reward; train with RewardCallback, or call "
                "model.replay_buffer.set_reward(reward)"
            )
        assert self.frames is not None, "a buffer that is sampled has frames"
        frames = torch.from_numpy(self.frames[index])
        terminated = (self.dones[index] > 0) & (self.timeouts[index] == 0)
        rewards = self._scorer(frames.flatten(0, -4), terminated.reshape(-1))
        return rewards.cpu().numpy().reshape(terminated.shape)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_scorer": None}  # a saved buffer does not hold the networks


class _CurrentRewards:
    """Stands for the array `rewards` of a buffer; SB3's code for n steps reads it unchanged."""

    def __init__(self, buffer: RewardReplayBuffer) -> None:
        self._buffer = buffer

    def __getitem__(self, index: Any) -> np.ndarray:
        return self._buffer.current_rewards(index)

    def __setitem__(self, index: Any, rewards: Any) -> None:
        """Rewards at the time of the step are not stored."""


class RewardNStepReplayBuffer(RewardReplayBuffer, NStepReplayBuffer):
    """A `RewardReplayBuffer` of n-step returns; every step of a window is relabelled.

    Set `replay_buffer_kwargs={"n_steps": 3, "gamma": 0.99}`.
    """


class RewardDictReplayBuffer(RewardReplayBuffer, DictReplayBuffer):
    """A `RewardReplayBuffer` of dict observations."""


class RewardCallback(BaseCallback):
    """Lets a reward learn during `model.learn`, gives it to the replay buffer, logs `reward/`.

    Attributes:
        verdict: after the training, whether the reward is healthy.
    """

    def __init__(self, reward: OnlineReward, every: int = 1000, updates: int = 20) -> None:
        """Check the arguments.

        Args:
            reward: the reward of the `RewardVecEnv`.
            every: environment steps, of all environments together, between two calls of `learn`.
            updates: of D in each of them.
        """
        super().__init__()
        if not isinstance(reward, OnlineReward):
            raise InputError(
                f"RewardCallback trains an OnlineReward, got {type(reward).__name__}; a frozen "
                "reward needs no callback"
            )
        if every < 1 or updates < 1:
            raise InputError(f"every and updates must be at least 1, got {every} and {updates}")
        self._reward, self._every, self._updates = reward, every, updates
        self._steps = 0  # since the last call; counted over several calls of model.learn
        self._returns: deque[float] = deque(maxlen=100)
        self.verdict: Verdict | None = None

    def _on_training_start(self) -> None:
        buffer = getattr(self.model, "replay_buffer", None)
        if isinstance(buffer, RewardReplayBuffer):
            buffer.set_reward(self._reward, discount=self.model.gamma)  # type: ignore[attr-defined]

    def _on_step(self) -> bool:
        infos = self.locals["infos"]
        self._returns.extend(info["env_return"] for info in infos if "env_return" in info)
        self._steps += len(infos)
        if self._steps >= self._every:
            self._steps = 0
            metrics = self._reward.learn(self._updates)
            if self._returns:
                metrics |= {"env_return": float(np.mean(self._returns))}
            for name, value in metrics.items():
                self.logger.record(f"reward/{name.removeprefix('reward/')}", value)
        return True

    def _on_training_end(self) -> None:
        self.verdict = self._reward.verdict()
        self.logger.record("reward/verdict", self.verdict.name)
        self.logger.info(f"reward: {self.verdict}")
        self.logger.dump(self.num_timesteps)
