# SPDX-License-Identifier: Apache-2.0
"""A sample of all the agent has ever seen, which a replay of the last steps forgets.

A discriminator that sees only what a good policy does lately no longer knows what failure looks
like, and pays for it. Here every frame offered so far is kept with the same probability
(reservoir sampling), early failures among them.
"""

from collections.abc import Mapping

import torch
from torch import Tensor


class FrameMemory:
    """Frames drawn uniformly from a stream whose length nobody knows; adding is capturable."""

    def __init__(
        self, size: int, frame_shape: tuple[int, int, int], device: torch.device | str
    ) -> None:
        """Claim the memory.

        Args:
            size: frames kept.
            frame_shape: channels (of all stacked frames), height and width.
            device: the learner's.
        """
        self.size = size
        # The last row is where frames go that are not kept: a write without a branch.
        self._frames = torch.zeros(size + 1, *frame_shape, dtype=torch.uint8, device=device)
        self._offered = torch.zeros((), dtype=torch.int64, device=device)

    @torch.no_grad()
    def add(self, frames: Tensor, generator: torch.Generator) -> None:
        """Offer frames (count, channels, height, width), no more than fit at once."""
        count, device = len(frames), frames.device
        number = self._offered + torch.arange(count, device=device)
        drawn = torch.rand(count, dtype=torch.float64, device=device, generator=generator)
        # The n-th frame is kept with probability size / n, in place of any of the others.
        place = torch.where(number < self.size, number, (drawn * (number + 1)).long())
        self._frames.index_copy_(0, place.clamp(max=self.size), frames)
        self._offered.add_(count)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw frames uniformly, with replacement; before the first `add`, black ones."""
        drawn = torch.rand(count, device=self._frames.device, generator=generator)
        return self._frames[(drawn * self._offered.clamp(max=self.size)).long()]

    def tensors(self) -> Mapping[str, Tensor]:
        """What changes and has to be saved, by name."""
        return {"frames": self._frames, "offered": self._offered}
