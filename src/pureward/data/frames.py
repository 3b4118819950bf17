# SPDX-License-Identifier: Apache-2.0
"""Stacks of consecutive frames, the input of rewards."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from pureward.data.episodes import Episode, stored_frames
from pureward.errors import InputError
from pureward.pixels import MAX_CHANNELS


class FrameBank:
    """Arrival frames of episodes on one device, stored once and stacked when read.

    Row i is the i-th step of all episodes in sequence: its arrival frame and the frames before,
    oldest first. At the start of an episode its first frame is repeated, as in the replay.
    """

    def __init__(
        self, episodes: Sequence[Episode], *, stack: int = 1, device: torch.device | str = "cpu"
    ) -> None:
        """Copy the frames to a device.

        Args:
            episodes: at least one, each with frames.
            stack: number of frames in a stack.
            device: the learner's.
        """
        self.stack, self.device = stack, torch.device(device)
        frames = [part.to(self.device) for part in stored_frames(episodes)]
        most = MAX_CHANNELS // frames[0].shape[1]
        if type(stack) is not int or not 1 <= stack <= most:
            raise InputError(f"stack must be a whole number from 1 to {most}, got {stack!r}; try 2")
        lengths = torch.tensor([len(part) for part in frames])
        # Of each frame: the first one of its episode.
        first = (lengths.cumsum(0) - lengths).repeat_interleave(lengths)
        rows = torch.arange(len(first))
        self._frames = torch.cat(frames).contiguous()  # `view` below needs channels first
        self._first = first.to(self.device)
        self._arrivals = rows[rows != first].to(self.device)
        self._back = torch.arange(stack, device=self.device).flip(0)
        numbers = torch.arange(len(frames)).repeat_interleave(lengths - 1)
        self.episodes = numbers.to(self.device)
        """Index of the episode of each row, int64 (rows,)."""
        self.rewards = torch.cat([episode.rewards for episode in episodes]).to(self.device)
        """Reward of each row, float32 (rows,)."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels of a stack, height and width."""
        channels, height, width = self._frames.shape[1:]
        return self.stack * channels, height, width

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._arrivals)

    def __getitem__(self, rows: Tensor) -> Tensor:
        """Return the stacks of some rows, uint8 (rows, stack · channels, height, width)."""
        newest = self._arrivals[rows.to(self.device)]
        seen = torch.maximum(newest[:, None] - self._back, self._first[newest][:, None])
        return self._frames[seen].view(len(rows), -1, *self._frames.shape[2:])

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Return stacks of `count` rows sampled uniformly with replacement."""
        rows = torch.randint(len(self), (count,), generator=generator, device=self.device)
        return self[rows]

    def every(self) -> Tensor:
        """Return the stacks of all rows."""
        return self[torch.arange(len(self), device=self.device)]


class RollingStack:
    """The last frames of worlds whose episodes begin at the same time."""

    def __init__(self, stack: int) -> None:
        self._stack = stack
        self._kept: list[Tensor] = []

    def begin(self, frames: Tensor) -> None:
        """Start episodes with their first frames, (worlds, channels, height, width)."""
        self._kept = [frames] * self._stack

    def push(self, frames: Tensor) -> Tensor:
        """Add the next frames and return the stacks that end in them, oldest first."""
        self._kept = [*self._kept[1:], frames]
        return torch.cat(self._kept, dim=1)


def black_frames(
    count: int, frame_shape: tuple[int, int, int], device: torch.device | str
) -> Tensor:
    """Return zeros, uint8 (count, channels, height, width).

    On the CPU a page of it takes memory only after something is written to it.
    """
    if torch.device(device).type == "cpu":
        return torch.from_numpy(np.zeros((count, *frame_shape), np.uint8))
    return torch.zeros(count, *frame_shape, dtype=torch.uint8, device=device)
