# SPDX-License-Identifier: Apache-2.0
"""Frames as images without loss: strips of several frames."""

import io
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image
from torch import Tensor

from pureward.errors import InputError

_PIXELS = 1 << 17  # of one strip: 32 frames of 64×64
_MOST = 64  # frames of one strip


@dataclass(frozen=True, kw_only=True)
class Strips:
    """How the frames of an episode are cut into strips; the page gets these numbers."""

    count: int
    """Frames of the episode."""
    height: int
    width: int
    """Of one camera."""
    cameras: int
    per_strip: int
    """Frames of one strip."""

    @classmethod
    def of(cls, count: int, shape: Sequence[int], most: int = _MOST) -> "Strips":
        """Cut `count` frames of a shape (channels, height, width), at most so many a strip."""
        cameras, height, width = shape[0] // 3, *shape[1:]
        fit = max(1, min(most, _PIXELS // (cameras * height * width)))
        return cls(count=count, height=height, width=width, cameras=cameras, per_strip=fit)

    def rows(self, strip: int) -> range:
        """Return the numbers of a strip's frames; refuse a strip that does not exist."""
        last = (self.count - 1) // self.per_strip
        if not 0 <= strip <= last:
            raise InputError(f"strips are 0 to {last}, got {strip}; reload the page")
        start = strip * self.per_strip
        return range(start, min(start + self.per_strip, self.count))


def to_png(frames: Tensor) -> bytes:
    """Return frames (count, 3·cameras, h, w) below each other, cameras side by side."""
    count, channels, height, width = frames.shape
    views = frames.reshape(count, channels // 3, 3, height, width).permute(0, 3, 1, 4, 2)
    image = views.reshape(count * height, channels // 3 * width, 3)
    written = io.BytesIO()
    Image.fromarray(image.numpy()).save(written, "PNG", compress_level=1)
    return written.getvalue()
