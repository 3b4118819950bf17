# SPDX-License-Identifier: Apache-2.0
"""A uniform sample of all frames that the agent has ever seen, by reservoir sampling.

A discriminator that only sees recent frames of a good policy forgets what failures look like, and
then rewards them. Here every frame so far is kept with the same probability, early failures too.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from pureward.data.frames import black_frames

#: Frames in a checkpoint that does not save the replay.
_THINNED = 1024


class FrameMemory:
    """A uniform sample of a stream of unknown length; `add` can be captured in a CUDA graph."""

    def __init__(
        self, size: int, frame_shape: tuple[int, int, int], device: torch.device | str
    ) -> None:
        """Allocate the memory.

        Args:
            size: frames stored.
            frame_shape: channels (of all stacked frames), height and width.
            device: the learner's.
        """
        self.size = size
        # Rejected frames are written to the last row, so that there is no branch.
        self._frames = black_frames(size + 1, frame_shape, device)
        self._offered = torch.zeros((), dtype=torch.int64, device=device)

    @torch.no_grad()
    def add(self, frames: Tensor, generator: torch.Generator) -> None:
        """Add frames uint8 (count, channels, height, width), at most `size` at once."""
        count, device = len(frames), frames.device
        number = self._offered + torch.arange(count, device=device)
        uniform = torch.rand(count, dtype=torch.float64, device=device, generator=generator)
        # The n-th frame is kept with probability size / n, in place of any of the others.
        place = torch.where(number < self.size, number, (uniform * (number + 1)).long())
        self._frames.index_copy_(0, place.clamp(max=self.size), frames)
        self._offered.add_(count)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Return frames sampled uniformly with replacement; black ones before the first `add`."""
        uniform = torch.rand(count, device=self._frames.device, generator=generator)
        return self._frames[(uniform * self._offered.clamp(max=self.size)).long()]

    def tensors(self) -> Mapping[str, Tensor]:
        """Return the state to save, by name."""
        return {"frames": self._frames, "offered": self._offered}

    def thinned(self) -> Mapping[str, Tensor]:
        """Return an evenly spaced part of the state, by name, for small checkpoints."""
        count = min(_THINNED, self.size)
        slots = torch.arange(count, device=self._frames.device)
        kept = slots * self._offered.clamp(max=self.size) // count
        return {"frames": self._frames[kept], "offered": self._offered}

    def load_thinned(self, saved: Mapping[str, Tensor]) -> None:
        """Load what `thinned` returned; each frame takes the place of those that were left out."""
        frames = saved["frames"].to(self._frames.device)
        self._offered.copy_(saved["offered"])
        slots = torch.arange(self.size, device=frames.device)
        stored = self._offered.clamp(1, self.size)
        count = len(frames)
        kept = (slots * count + stored - 1) // stored  # rounded up, as `thinned` rounds down
        self._frames[:-1] = frames[kept.clamp(max=count - 1)]
