# SPDX-License-Identifier: Apache-2.0
"""Frames as images without loss: strips of several frames."""

import io

from PIL import Image
from torch import Tensor

_PIXELS = 1 << 17  # of one strip: 32 frames of 64×64
_MOST = 64  # frames of one strip


def frames_per_strip(shape: tuple[int, ...]) -> int:
    """Return how many frames of a shape (channels, height, width) one strip has."""
    channels, height, width = shape
    return max(1, min(_MOST, _PIXELS // (channels // 3 * height * width)))


def to_png(frames: Tensor) -> bytes:
    """Return frames (count, 3·cameras, h, w) below each other, cameras side by side."""
    count, channels, height, width = frames.shape
    views = frames.reshape(count, channels // 3, 3, height, width).permute(0, 3, 1, 4, 2)
    image = views.reshape(count * height, channels // 3 * width, 3)
    written = io.BytesIO()
    Image.fromarray(image.numpy()).save(written, "PNG", compress_level=1)
    return written.getvalue()
