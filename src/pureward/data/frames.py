# SPDX-License-Identifier: Apache-2.0
"""Frames of whole episodes, handed out as a reward sees them: in stacks of consecutive ones."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pureward.data.episodes import Episode
from pureward.errors import InputError


class FrameBank:
    """Arrival frames of episodes on one device; frames are kept once and stacked when read.

    Row i is the i-th step of all episodes put end to end: the frame it arrived at and those
    before it, oldest first. At an episode's start its first frame stands in for those before,
    as in the replay.
    """

    def __init__(
        self, episodes: Sequence[Episode], *, stack: int = 1, device: torch.device | str = "cpu"
    ) -> None:
        """Bring the frames to a device.

        Args:
            episodes: at least one, each with frames.
            stack: consecutive frames in a row.
            device: the learner's.
        """
        self.device = torch.device(device)
        frames, first, arrivals, numbers, start = [], [], [], [], 0
        for number, episode in enumerate(episodes):
            if episode.frames is None:
                raise InputError(f"episode {number} has no frames yet; draw them with `draw`")
            count = len(episode.frames)
            frames.append(episode.frames.to(self.device))
            first.append(torch.full((count,), start))
            arrivals.append(torch.arange(start + 1, start + count))
            numbers.append(torch.full((count - 1,), number))
            start += count
        if not frames:
            raise InputError("frames are taken from at least one episode, got none")
        # Stacks are views of it, whatever order in memory the frames came in.
        self._frames = torch.cat(frames).contiguous()
        self._first = torch.cat(first).to(self.device)
        self._arrivals = torch.cat(arrivals).to(self.device)
        self._back = torch.arange(stack, device=self.device).flip(0)
        self.episodes = torch.cat(numbers).to(self.device)
        """Number of the episode of each row, int64 (rows,)."""
        self.rewards = torch.cat([episode.rewards for episode in episodes]).to(self.device)
        """What was written on each row, float32 (rows,)."""

    def __len__(self) -> int:
        """Rows."""
        return len(self._arrivals)

    def __getitem__(self, rows: Tensor) -> Tensor:
        """Stacks of some rows, uint8 (rows, stack · channels, height, width)."""
        newest = self._arrivals[rows.to(self.device)]
        seen = torch.maximum(newest[:, None] - self._back, self._first[newest][:, None])
        stacks = self._frames[seen]
        return stacks.view(len(rows), -1, *self._frames.shape[2:])

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Return stacks of `count` rows drawn uniformly with replacement."""
        rows = torch.randint(len(self), (count,), generator=generator, device=self.device)
        return self[rows]

    def every(self) -> Tensor:
        """All stacks at once."""
        return self[torch.arange(len(self), device=self.device)]


class RollingStack:
    """The last frames of worlds that began their episodes together."""

    def __init__(self, stack: int) -> None:
        """Stacks of so many consecutive frames."""
        self._stack = stack
        self._kept: list[Tensor] = []

    def begin(self, frames: Tensor) -> None:
        """Start from an episode's first frames, (worlds, channels, height, width)."""
        self._kept = [frames] * self._stack

    def push(self, frames: Tensor) -> Tensor:
        """Take the next frames; returns the stacks that end in them, oldest first."""
        self._kept = [*self._kept[1:], frames]
        return torch.cat(self._kept, dim=1)
