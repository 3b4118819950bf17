# SPDX-License-Identifier: Apache-2.0
"""Rewards of replayed steps, given at sampling time from the frames at which they arrived.

Algorithm 1 computes the reward of every minibatch with the networks as they are (`FreshLabels`).
A large batch looks at ten thousand frames and more, so `CachedLabels` keeps the networks' scores
of every step instead: a step is scored when it comes in and again in turns, as D goes on
learning. Predictions of a reward model, which no longer learns, are never stale.
"""

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from pureward.data.replay.replay import Replay
from pureward.data.replay.windows import Windows
from pureward.rewards.learned import LearnedReward


class Labels(Protocol):
    """What steps of a replay are worth."""

    def arrive(self) -> None:
        """Take note of the newest step of every world."""
        ...

    def refresh(self) -> None:
        """Bring some older steps up to date."""
        ...

    def __call__(self, windows: Windows) -> Tensor:
        """Return the reward of every step of the windows, (batch, n)."""
        ...

    def tensors(self) -> Mapping[str, Tensor]:
        """What changes and has to be saved, by name."""
        ...


class TaskLabels:
    """The task's own reward: for experts only."""

    def arrive(self) -> None:
        """Nothing: the replay keeps it."""

    def refresh(self) -> None:
        """Nothing: it does not change."""

    def __call__(self, windows: Windows) -> Tensor:
        """Return what the environment said."""
        return windows.task_reward

    def tensors(self) -> Mapping[str, Tensor]:
        """Nothing."""
        return {}


class FreshLabels:
    """Learned rewards by the networks of this moment, as in Algorithm 1."""

    def __init__(self, reward: LearnedReward, replay: Replay) -> None:
        """Judge the steps of a replay."""
        self._reward = reward
        self._replay = replay

    def arrive(self) -> None:
        """Nothing: steps are judged when they are drawn."""

    def refresh(self) -> None:
        """Nothing: they are judged anew each time."""

    def __call__(self, windows: Windows) -> Tensor:
        """Return rewards of the arrival frames."""
        frames = self._replay.arrival_frames(windows.steps)
        return self._reward(frames.flatten(0, 1)).unflatten(0, windows.steps.shape)

    def tensors(self) -> Mapping[str, Tensor]:
        """Nothing."""
        return {}


class CachedLabels:
    """Learned rewards from a table of scores, one column a place of the replay."""

    def __init__(self, reward: LearnedReward, replay: Replay, *, refreshed: int) -> None:
        """Judge the steps of a replay.

        Args:
            reward: its networks may go on learning.
            replay: its steps must be announced by `arrive` as they come in.
            refreshed: steps that one `refresh` scores again.
        """
        self._reward = reward
        self._replay = replay
        device, places = replay.device, replay.layout.steps
        self._scores = torch.zeros(reward.parts, places, device=device)
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
        """Let D judge the next few steps again, in the order of the ring; r_φ does not change."""
        if not len(self._turn) or self._reward.discriminator is None:
            return
        places = (self._next + self._turn) % self._filled
        logits = self._reward.success_logits(self._replay.arrival_frames(places))
        self._scores[0].index_copy_(0, places, logits)
        self._next.add_(len(self._turn)).remainder_(self._filled)

    def __call__(self, windows: Windows) -> Tensor:
        """Return rewards from the scores at hand."""
        return self._reward.from_scores(self._scores[:, windows.steps])

    def tensors(self) -> Mapping[str, Tensor]:
        """The table and where the refreshing stands."""
        return {"scores": self._scores, "next": self._next, "filled": self._filled}
