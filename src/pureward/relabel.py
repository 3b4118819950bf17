# SPDX-License-Identifier: Apache-2.0
"""Rewards of replayed steps, computed at sampling time from the frames of the arrival states.

Algorithm 1 computes the rewards of every minibatch with the current networks (`FreshLabels`). That
is ten thousand frames and more for a large batch. `CachedLabels` instead stores the networks'
scores of every step: a step is scored when it is added, and again in turn while D learns. A reward
model no longer learns, so its predictions are never stale.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from pureward.data.replay.replay import Replay
from pureward.data.replay.windows import Windows
from pureward.rewards.learned import LearnedReward


class Labels:
    """Rewards of the steps of a replay; the base class has no state to update."""

    def __call__(self, windows: Windows) -> Tensor:
        """Return the reward of every step of the windows, (batch, n)."""
        raise NotImplementedError

    def arrive(self) -> None:
        """Process the newest step of every world."""

    def refresh(self) -> None:
        """Score some older steps again."""

    def tensors(self) -> Mapping[str, Tensor]:
        """Return the state to save, by name."""
        return {}


class TaskLabels(Labels):
    """The task's own reward: for experts only."""

    def __call__(self, windows: Windows) -> Tensor:
        """Return the environment's rewards."""
        return windows.task_reward


class FreshLabels(Labels):
    """Learned rewards by the current networks, as in Algorithm 1."""

    def __init__(self, reward: LearnedReward, replay: Replay) -> None:
        self._reward = reward
        self._replay = replay

    def __call__(self, windows: Windows) -> Tensor:
        """Return rewards of the arrival frames."""
        frames = self._replay.arrival_frames(windows.steps)
        return self._reward(frames.flatten(0, 1)).unflatten(0, windows.steps.shape)


class CachedLabels(Labels):
    """Learned rewards from a table of scores, one column per step of the replay."""

    def __init__(self, reward: LearnedReward, replay: Replay, *, refreshed: int) -> None:
        """Allocate the table.

        Args:
            reward: its networks may continue to learn.
            replay: call `arrive` after each step that is added to it.
            refreshed: steps that one `refresh` scores again.
        """
        self._reward = reward
        self._replay = replay
        device = replay.device
        self._scores = torch.zeros(reward.parts, replay.layout.steps, device=device)
        self._turn = torch.arange(refreshed, device=device)
        self._next = torch.zeros((), dtype=torch.int64, device=device)
        self._filled = torch.zeros((), dtype=torch.int64, device=device)

    def arrive(self) -> None:
        """Score the newest step of every world."""
        newest = self._replay.newest_steps()
        scores = self._reward.scores(self._replay.arrival_frames(newest))
        self._scores.index_copy_(1, newest, scores)
        self._filled.add_(self._replay.layout.worlds).clamp_(max=self._scores.shape[1])

    def refresh(self) -> None:
        """Compute D's logits of the next few steps again, in the order of the ring."""
        if not len(self._turn) or self._reward.discriminator is None:
            return
        places = (self._next + self._turn) % self._filled
        logits = self._reward.success_logits(self._replay.arrival_frames(places))
        self._scores[0].index_copy_(0, places, logits)
        self._next.add_(len(self._turn)).remainder_(self._filled)

    def __call__(self, windows: Windows) -> Tensor:
        """Return rewards from the stored scores."""
        return self._reward.from_scores(self._scores[:, windows.steps])

    def tensors(self) -> Mapping[str, Tensor]:
        """Return the table, the next step to refresh and the number of scored steps."""
        return {"scores": self._scores, "next": self._next, "filled": self._filled}
