# SPDX-License-Identifier: Apache-2.0
"""Images of any usual layout as the frames that rewards see."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pureward.errors import InputError
from pureward.types import AsyncFlag

#: Height and width of frames, unless the data has its own.
SIDE = 64
#: The most images in one frame, of 3 channels each; more are a mistake in the shape.
MAX_IMAGES = 16
#: The most channels that a network takes, of all frames in a stack together.
MAX_CHANNELS = 1024
_TYPES = {torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.float64}
_TYPES |= {np.dtype(name) for name in ("u1", "f2", "f4", "f8")}
_ROUNDING = 0.01  # of floating-point images, which are clipped to [0, 1]


def to_frames(
    images: np.ndarray | Tensor,
    device: torch.device | str = "cpu",
    size: tuple[int, int] | None = (SIDE, SIDE),
    numbers: Sequence[int] = (),
) -> Tensor:
    """Return images as uint8 frames (batch, channels, height, width), resized with antialiasing.

    Args:
        images: (batch, height, width), or with channels last or first: 1 (grey), 3, 4 (alpha, which
            is constant, is dropped) or a multiple of 3 (several images); (batch, images, …) is a
            stack of images, oldest first. uint8, or floating point in [0, 1]; others raise
            `InputError`: at once if they are on a CPU, in a later call if they are on CUDA.
        device: where the frames go.
        size: height and width of the frames; None keeps those of the images.
        numbers: of the images in their episode, for messages; by default from 0.
    """
    if not isinstance(images, Tensor):  # torch takes the machine's byte order only
        images = np.ascontiguousarray(images, images.dtype.newbyteorder("="))
    if images.dtype not in _TYPES:
        raise InputError(
            f"frames must be uint8 or floating point in [0, 1], got {images.dtype}; convert them "
            "to uint8 from 0 to 255"
        )
    pixels = torch.as_tensor(images).detach()
    if pixels.dim() == 3:
        pixels = pixels[..., None]
    if pixels.dim() not in (4, 5) or 0 in pixels.shape:
        raise InputError(
            f"frames must be (batch, height, width, channels), got shape {tuple(images.shape)}; "
            "pass a batch of images"
        )
    if pixels.dim() == 5:
        frames = [to_frames(image, device, size, numbers) for image in pixels.unbind(1)]
        return torch.cat(frames, dim=1)
    if pixels.is_floating_point():
        _check_range(pixels, numbers)
    first, last = pixels.shape[1], pixels.shape[-1]
    if _are_channels(last) and not (_are_channels(first) and first < last):
        pixels = pixels.permute(0, 3, 1, 2)
    elif not _are_channels(first):
        raise InputError(
            f"frames must have 1, 3, 4 or a multiple of 3 channels, got shape "
            f"{tuple(images.shape)}; pass grey or colour images"
        )
    channels = pixels.shape[1]
    if channels == 4:
        _check_alpha(pixels[:, 3])
    pixels = pixels.to(device)
    pixels = pixels.expand(-1, 3, -1, -1) if channels == 1 else pixels
    pixels = pixels[:, :3] if channels == 4 else pixels
    if pixels.is_floating_point():
        pixels = 255.0 * pixels.float()
    if size is not None and tuple(pixels.shape[2:]) != tuple(size):
        # On a CPU, uint8 with channels last is ten times as fast as floating point.
        pixels = pixels if pixels.device.type == "cpu" else pixels.float()
        pixels = F.interpolate(pixels, size, mode="bilinear", align_corners=False, antialias=True)
    if pixels.is_floating_point():
        pixels = pixels.round().clamp(0, 255).to(torch.uint8)
    if pixels.device.type == "cpu" and not pixels.is_contiguous():
        # Three times as fast as torch's own copy.
        return torch.from_numpy(np.ascontiguousarray(pixels.numpy()))
    return pixels.contiguous()


def batch_of(images: Any) -> np.ndarray | Tensor:
    """Return a batch of images, or a sequence of images, as one array."""
    if images is None or (isinstance(images, Sequence) and any(i is None for i in images)):
        raise InputError(
            "frames must be images, got None; make the environment with render_mode='rgb_array'"
        )
    if not isinstance(images, np.ndarray | Tensor):
        arrays = [np.asarray(image) for image in images]
        sizes = sorted({array.shape for array in arrays})
        if len(sizes) != 1:
            raise InputError(
                f"frames must have one size, got {sizes or 'no images'}; pass images of one size"
            )
        images = np.stack(arrays)
    if images.ndim == 3 and images.shape[-1] in (1, 3, 4):
        raise InputError(
            f"frames must be a batch of images, got one of shape {tuple(images.shape)}; pass "
            "image[None]"
        )
    return images


def _are_channels(count: int) -> bool:
    return count in (1, 4) or (count % 3 == 0 and 0 < count <= 3 * MAX_IMAGES)


def _check_range(pixels: Tensor, numbers: Sequence[int]) -> None:
    """Refuse values that are NaN or beyond [0, 1]."""
    low, high = pixels.aminmax()  # NaN if there is one
    within = (low > -_ROUNDING) & (high < 1 + _ROUNDING)
    if _was_true("range", ~within):
        if not pixels.is_cuda and low.isnan():
            row = int(pixels.isnan().flatten(1).any(1).nonzero()[0])
            place = f"frame {numbers[row]}" if numbers else f"image {row}"
            raise InputError(
                f"images must be numbers, got NaN in {place}; repair it, or drop its episode"
            )
        got = "others or NaN before" if pixels.is_cuda else f"{low:g} to {high:g}"
        raise InputError(
            f"floating-point images must lie in [0, 1], got {got}; scale them to that range, "
            "or use uint8"
        )


def _check_alpha(alpha: Tensor) -> None:
    """Refuse a fourth channel that may be a fourth grey image."""
    low, high = alpha.aminmax()
    if _was_true("alpha", low != high):
        raise InputError(
            "the fourth channel of images is alpha and must be constant, got different values; "
            "pass images[..., :3], or four grey images as (batch, 4, height, width, 1)"
        )


def _was_true(name: str, now: Tensor) -> bool:
    """Return whether a condition is true; on CUDA in a later call, without waiting."""
    raised = _flag(name, now.device).raised(now)
    if raised:
        _flag.cache_clear()
    return raised


@lru_cache
def _flag(name: str, device: torch.device) -> AsyncFlag:
    with torch.inference_mode(False):  # for calls within that mode and outside it
        return AsyncFlag(device)
