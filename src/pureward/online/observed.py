# SPDX-License-Identifier: Apache-2.0
"""The agent's last frames, as a loop outside of this library observes them."""

import torch
from torch import Tensor

from pureward.data.frames import black_frames
from pureward.errors import InputError


class ObservedFrames:
    """A ring of frames with the episode of each; D's unlabeled data."""

    def __init__(
        self, capacity: int, frame_shape: tuple[int, int, int], device: torch.device
    ) -> None:
        """Allocate the memory.

        Args:
            capacity: frames stored.
            frame_shape: channels (of all stacked frames), height and width.
            device: the learner's.
        """
        self.device = device
        self._frames = black_frames(capacity, frame_shape, device)
        self._episode = torch.zeros(capacity, dtype=torch.int64, device=device)
        self._current = torch.zeros(0, dtype=torch.int64, device=device)  # episode of each world
        self._begun = 0
        self.observed = 0
        """Frames ever observed."""

    @property
    def capacity(self) -> int:
        """The most frames that it stores."""
        return len(self._frames)

    def __len__(self) -> int:
        """Frames stored now."""
        return min(self.observed, self.capacity)

    def add(self, frames: Tensor, ended: Tensor, stepped: Tensor | None = None) -> Tensor:
        """Store the newest frame of every world.

        Args:
            frames: uint8 (worlds, channels, height, width), of arrival states.
            ended: whether the frame is the last of its episode, bool (worlds,).
            stepped: worlds whose frames are stored, bool (worlds,); None for all.

        Returns:
            The indices of the stored frames, int64 (frames,).
        """
        worlds, capacity = len(frames), self.capacity
        if worlds > capacity:
            raise InputError(
                f"capacity must hold a frame of every world, got {capacity} for {worlds}; raise it"
            )
        if worlds != len(self._current):
            self._current = self._new_episodes(worlds)
        episodes = self._current
        if stepped is not None:
            frames, episodes = frames[stepped], episodes[stepped]
        steps = (self.observed + torch.arange(len(frames), device=self.device)) % capacity
        self._frames[steps] = frames
        self._episode[steps] = episodes
        self.restart(ended)
        self.observed += len(frames)
        return steps

    def restart(self, worlds: Tensor) -> None:
        """Begin new episodes in worlds, bool (worlds,)."""
        begun = self._new_episodes(len(worlds))
        same = len(self._current) == len(worlds)
        self._current = torch.where(worlds, begun, self._current) if same else begun

    def sample_steps(self, batch: int, generator: torch.Generator) -> Tensor:
        """Sample indices of stored frames, int64 (batch,), each with the same probability."""
        return torch.randint(len(self), (batch,), generator=generator, device=self.device)

    def arrival_frames(self, steps: Tensor) -> Tensor:
        """Return the frames of indices, uint8 (batch, channels, height, width)."""
        return self._frames[steps]

    def episodes(self, steps: Tensor) -> Tensor:
        """Return the episode of each index, as a number."""
        return self._episode[steps]

    def _new_episodes(self, worlds: int) -> Tensor:
        self._begun += worlds
        return torch.arange(self._begun - worlds, self._begun, device=self.device)
