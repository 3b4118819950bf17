# SPDX-License-Identifier: Apache-2.0
"""One interface to a frozen reward and to one that keeps learning."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pureward.errors import InputError
from pureward.online.online_reward import OnlineReward, frames_of
from pureward.rewards.learned import LearnedReward

#: "render", a key of a dict observation, "observation" if that is the image itself, or a function
#: of the environment and its observation that returns the image.
FrameSource = str | Callable[[Any, Any], Any]


class Scorer:
    """Converts images, computes rewards of arrival frames, and lets the reward learn.

    Attributes:
        online: the reward if it learns, otherwise None.
    """

    def __init__(
        self,
        reward: OnlineReward | LearnedReward,
        *,
        discount: float | None = None,
        learn_every: int = 0,
        updates: int = 20,
    ) -> None:
        """Check the arguments.

        Args:
            reward: an `OnlineReward`, or a frozen one of `load_reward`.
            discount: γ of the RL library; needed if the reward has an absorbing state.
            learn_every: calls of `step` after which the reward learns; 0 for never.
            updates: of D each time.
        """
        if not isinstance(reward, OnlineReward | LearnedReward):
            raise InputError(
                f"reward must be an OnlineReward or a LearnedReward, got {type(reward).__name__}; "
                "use pureward.OnlineReward or pureward.load_reward"
            )
        self._reward = reward
        self.online = reward if isinstance(reward, OnlineReward) else None
        self._learned = reward.learner.learned if isinstance(reward, OnlineReward) else reward
        for name, count in {"learn_every": learn_every, "updates": updates}.items():
            if count < 0:
                raise InputError(f"{name} must be at least 0, got {count}; 0 is never")
        self._discount = 0.0 if discount is None else discount
        self._every, self._updates, self._steps = learn_every, updates, 0
        self._open: Tensor | None = None  # worlds whose observed episode has no end yet
        if self._learned.spec.absorbing and discount is None:
            raise InputError(
                "a reward with an absorbing state needs the discount of the RL library, got None; "
                "pass discount=0.99, or what the library uses"
            )
        self._learned.terminal_reward(self._discount)  # refuses a bad discount

    def frames(self, images: Any) -> Tensor:
        """Return images as the reward's frames.

        Args:
            images: a batch of images as arrays or tensors, or a sequence of images; any layout
                and size that `OnlineReward` takes.

        Returns:
            uint8 (batch, channels, height, width), on the reward's device.
        """
        return frames_of(images, self._learned)

    def step(
        self, frames: Tensor, ended: Any, terminated: Any, stepped: Any | None = None
    ) -> Tensor:
        """Show arrival frames to a reward that learns, pay them, and let it learn if it is time.

        Args:
            frames: what `frames` returned, uint8 (worlds, channels, height, width).
            ended: whether the frame is the last of its episode, bool (worlds,).
            terminated: whether that is because the state is terminal, bool (worlds,).
            stepped: which worlds took a step, bool (worlds,); the others were only reset, or wait.
                None if all did.

        Returns:
            Rewards, float32 (worlds,), on the reward's device; 0 in worlds that took no step.
        """
        terminated = self._flags(terminated)
        # Usually all did. Selecting frames by a mask would make the host wait for the device.
        moved = None if stepped is None or bool(stepped.all()) else self._flags(stepped)
        if self.online is not None:
            self.online.observe(frames, ended, terminated, moved)
            self._open = ~self._flags(ended)
        if moved is None:
            rewards = self(frames, terminated)
        else:
            rewards = torch.zeros(len(frames), device=self._learned.device)
            if bool(moved.any()):
                rewards[moved] = self(frames[moved], terminated[moved])
        self._steps += 1
        if self.online is not None and self._every and self._steps % self._every == 0:
            self.online.learn(self._updates)
        return rewards

    def restart(self, worlds: Any | None = None) -> None:
        """Begin new episodes in worlds that are reset before the reward has observed an end.

        Args:
            worlds: those that are reset, bool (worlds,); None for all.
        """
        if self.online is None or self._open is None:
            return
        cut = self._open.clone()
        if worlds is not None:
            cut &= self._flags(worlds)
        if bool(cut.any()):
            self.online.restart(cut)
            self._open &= ~cut

    def __call__(self, frames: Tensor, terminated: Any) -> Tensor:
        """Return rewards, float32 (batch,), on the reward's device.

        Args:
            frames: what `frames` returned, uint8 (batch, channels, height, width).
            terminated: whether the state is terminal, bool (batch,); such a step is also paid for
                the absorbing state after it, if there is one.
        """
        rewards, over = self._reward(frames), self._flags(terminated)
        if self._learned.spec.absorbing and bool(over.any()):
            rewards = rewards + over * self._learned.terminal_reward(self._discount)
        return rewards

    def _flags(self, values: Any) -> Tensor:
        return torch.as_tensor(values, device=self._learned.device).bool().reshape(-1)


def check_source(source: FrameSource, observation_space: Any, render_mode: str | None) -> None:
    """Reject a source of frames that the environment does not have."""
    from gymnasium import spaces

    if callable(source):
        return
    if source == "render":
        if render_mode != "rgb_array":
            raise InputError(
                f"frames='render' needs render_mode='rgb_array', got {render_mode!r}; make the "
                "environment with it, or take frames from the observation"
            )
        return
    image = observation_space
    if isinstance(observation_space, spaces.Dict):
        if source not in observation_space.spaces:
            raise InputError(
                f"frames must be 'render', a function or one of "
                f"{', '.join(observation_space.spaces)}, got {source!r}; choose one of them"
            )
        image = observation_space[source]
    elif source != "observation":
        raise InputError(
            f"frames must be 'render', 'observation' or a function, got {source!r}; keys are for "
            "dict observations"
        )
    shape = getattr(image, "shape", None)
    if shape is not None and not 2 <= len(shape) <= 4:
        raise InputError(
            f"frames={source!r} must be images, got observations of shape {tuple(shape)}; "
            "use frames='render', or a function that returns the image"
        )


def images_of(source: FrameSource, env: Any, observation: Any) -> Any:
    """Return the image or images of an observation."""
    if source == "render":
        return env.render()
    if callable(source):
        return source(env, observation)
    return observation[source] if isinstance(observation, dict) else observation
