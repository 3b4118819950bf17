# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false, reportIndexIssue=false
# ruff: noqa: N803 - capitals are Triton's compile-time constants
"""All distortions of a view in one pass, from stored frames to the network's input.

A frame is read as bytes and written once as bfloat16 (batch, height, width, channels), with four
channels per image, the fourth zero. Everything in between stays in registers.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from pureward.rewards.view import View

BLOCK = 1024
WARPS = 8


@triton.jit
def _clipped(x):
    return tl.minimum(tl.maximum(x, 0.0), 1.0)


@triton.jit
def _bilinear(plane, top, bottom, left, right, down, across):
    """One channel interpolated between four pixels, in [0, 1]."""
    upper = tl.load(plane + top + left).to(tl.float32)
    upper += across * (tl.load(plane + top + right).to(tl.float32) - upper)
    lower = tl.load(plane + bottom + left).to(tl.float32)
    lower += across * (tl.load(plane + bottom + right).to(tl.float32) - lower)
    return (upper + down * (lower - upper)) * (1 / 255)


@triton.jit
def _colours(
    frame,
    parameter,
    pixel,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CROP: tl.constexpr,
    MOVE: tl.constexpr,
    BRIGHTEN: tl.constexpr,
):
    """Red, green, blue at output pixels after flip, crop, resize and brightness."""
    area: tl.constexpr = HEIGHT * WIDTH
    row = pixel // WIDTH
    column = pixel % WIDTH
    if MOVE:
        column = tl.where(tl.load(parameter) > 0.5, WIDTH - 1 - column, column)
        y = tl.load(parameter + 1) * HEIGHT + (row.to(tl.float32) + 0.5) * CROP - 0.5
        x = tl.load(parameter + 2) * WIDTH + (column.to(tl.float32) + 0.5) * CROP - 0.5
        y = tl.minimum(tl.maximum(y, 0.0), HEIGHT - 1.0)
        x = tl.minimum(tl.maximum(x, 0.0), WIDTH - 1.0)
        row, column = y.to(tl.int32), x.to(tl.int32)
        down, across = y - row.to(tl.float32), x - column.to(tl.float32)
        right = tl.minimum(column + 1, WIDTH - 1)
        bottom = tl.minimum(row + 1, HEIGHT - 1) * WIDTH
        top = row * WIDTH
        red = _bilinear(frame, top, bottom, column, right, down, across)
        green = _bilinear(frame + area, top, bottom, column, right, down, across)
        blue = _bilinear(frame + 2 * area, top, bottom, column, right, down, across)
    else:
        red = tl.load(frame + pixel).to(tl.float32) * (1 / 255)
        green = tl.load(frame + area + pixel).to(tl.float32) * (1 / 255)
        blue = tl.load(frame + 2 * area + pixel).to(tl.float32) * (1 / 255)
    if BRIGHTEN:
        shift = tl.load(parameter + 3)
        red, green, blue = _clipped(red + shift), _clipped(green + shift), _clipped(blue + shift)
    return red, green, blue


@triton.jit
def _recoloured(red, green, blue, saturation, hue):
    """HSV saturation scaled and hue rotated, as in `view.recoloured`."""
    value = tl.maximum(tl.maximum(red, green), blue)
    chroma = value - tl.minimum(tl.minimum(red, green), blue)
    per_chroma = 1.0 / tl.maximum(chroma, 1e-12)
    sextant = tl.where(green >= blue, (blue - red) * per_chroma + 2, (red - green) * per_chroma + 4)
    red_leads = (red >= green) & (red >= blue)
    sextant = tl.where(red_leads, (green - blue) * per_chroma, sextant) + hue * 6
    sextant -= 6 * tl.floor(sextant / 6)
    chroma = tl.minimum(chroma * saturation, value)
    red = value - chroma * _clipped(2 - tl.abs(sextant - 3))
    green = value - chroma * _clipped(tl.abs(sextant - 2) - 1)
    blue = value - chroma * _clipped(tl.abs(sextant - 4) - 1)
    return red, green, blue


@triton.jit
def _pixels(start, AREA: tl.constexpr, BLOCK: tl.constexpr):
    """Numbers of BLOCK pixels; the last one is repeated, and written again with its colour."""
    pixel = start + tl.arange(0, BLOCK)
    if AREA % BLOCK != 0:  # without the minimum, loads of several pixels are joined
        pixel = tl.minimum(pixel, AREA - 1)
    return pixel


@triton.jit
def _mean_grey(
    frame,
    parameter,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CROP: tl.constexpr,
    MOVE: tl.constexpr,
    BRIGHTEN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Mean grey level of an image after flip, crop, resize and brightness."""
    area: tl.constexpr = HEIGHT * WIDTH
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, area, BLOCK):
        red, green, blue = _colours(
            frame, parameter, _pixels(start, area, BLOCK), HEIGHT, WIDTH, CROP, MOVE, BRIGHTEN
        )
        inside = start + tl.arange(0, BLOCK) < area
        total += tl.where(inside, 0.299 * red + 0.587 * green + 0.114 * blue, 0.0)
    return tl.sum(total, 0) / area


@triton.jit
def _distorted_colours(
    frame,
    parameter,
    seed,
    pixel,
    number,
    grey,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    NOISE: tl.constexpr,
    CROP: tl.constexpr,
    MOVE: tl.constexpr,
    BRIGHTEN: tl.constexpr,
    CONTRAST: tl.constexpr,
    RECOLOUR: tl.constexpr,
):
    """Red, green, blue at output pixels after all distortions; `number` is of the image."""
    red, green, blue = _colours(frame, parameter, pixel, HEIGHT, WIDTH, CROP, MOVE, BRIGHTEN)
    if CONTRAST:
        factor = tl.load(parameter + 4)
        rest = grey * (1 - factor)
        red, green = _clipped(red * factor + rest), _clipped(green * factor + rest)
        blue = _clipped(blue * factor + rest)
    if RECOLOUR:
        saturation, hue = tl.load(parameter + 5), tl.load(parameter + 6)
        red, green, blue = _recoloured(red, green, blue, saturation, hue)
    if NOISE > 0:
        bits = tl.randint(tl.load(seed), number * (HEIGHT * WIDTH) + pixel)
        unit: tl.constexpr = 2 * NOISE / 255 / 255
        red = _clipped(red + (bits & 255).to(tl.float32) * unit - NOISE / 255)
        green = _clipped(green + ((bits >> 8) & 255).to(tl.float32) * unit - NOISE / 255)
        blue = _clipped(blue + ((bits >> 16) & 255).to(tl.float32) * unit - NOISE / 255)
    return red, green, blue


@triton.jit
def distort(
    frames,
    parameters,
    stride,
    seed,
    target,
    IMAGES: tl.constexpr,
    SLOTS: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    NOISE: tl.constexpr,
    CROP: tl.constexpr,
    MOVE: tl.constexpr,
    BRIGHTEN: tl.constexpr,
    CONTRAST: tl.constexpr,
    RECOLOUR: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Two images of one sample; the grid is (samples, SLOTS / 2); slots past IMAGES are zero.

    Two images are 16 bytes of a pixel, which one thread stores at once.
    """
    area: tl.constexpr = HEIGHT * WIDTH
    sample, image = tl.program_id(0), tl.program_id(1) * 2
    frame = frames + (sample.to(tl.int64) * IMAGES + image) * (3 * area)
    other = frame + 3 * area
    out = target + (sample.to(tl.int64) * area * SLOTS + image) * 4
    parameter = parameters + sample * stride
    number = sample * SLOTS + image
    grey, other_grey = 0.0, 0.0
    if CONTRAST and image < IMAGES:
        grey = _mean_grey(frame, parameter, HEIGHT, WIDTH, CROP, MOVE, BRIGHTEN, BLOCK)
    if CONTRAST and image + 1 < IMAGES:
        other_grey = _mean_grey(other, parameter, HEIGHT, WIDTH, CROP, MOVE, BRIGHTEN, BLOCK)
    for start in range(0, area, BLOCK):
        pixel = _pixels(start, area, BLOCK)
        zero = tl.zeros((BLOCK,), tl.float32)
        red, green, blue = zero, zero, zero
        other_red, other_green, other_blue = zero, zero, zero
        if image < IMAGES:
            red, green, blue = _distorted_colours(
                frame, parameter, seed, pixel, number, grey, HEIGHT, WIDTH, NOISE, CROP, MOVE,
                BRIGHTEN, CONTRAST, RECOLOUR,
            )  # fmt: skip
        if image + 1 < IMAGES:
            other_red, other_green, other_blue = _distorted_colours(
                other, parameter, seed, pixel, number + 1, other_grey, HEIGHT, WIDTH, NOISE, CROP,
                MOVE, BRIGHTEN, CONTRAST, RECOLOUR,
            )  # fmt: skip
        outer = tl.join(tl.join(red, other_red), tl.join(blue, other_blue))
        inner = tl.join(tl.join(green, other_green), tl.join(zero, zero))
        colours = tl.reshape(tl.join(outer, inner), (BLOCK, 8)).to(target.dtype.element_ty)
        tl.store(out + pixel[:, None] * (4 * SLOTS) + tl.arange(0, 8)[None, :], colours)


def distorted(
    frames: Tensor,
    parameters: Tensor,
    view: View,
    seed: Tensor | None,
    dtype: torch.dtype = torch.bfloat16,
) -> Tensor:
    """Return distorted frames in the layout of the fused convolutions.

    Args:
        frames: (batch, 3·k, height, width) uint8.
        parameters: (batch, 7) of `sample_distortions`; may be one expanded row.
        view: the distortions.
        seed: (1,) int64 on the device, for the noise; may be None without noise.
        dtype: of the result.

    Returns:
        (batch, height, width, 4 · slots) in [0, 1].
    """
    batch, channels, height, width = frames.shape
    images = channels // 3
    slots = image_slots(images)
    target = torch.empty(batch, height, width, 4 * slots, dtype=dtype, device=frames.device)
    frames = frames.contiguous()
    distort[(batch, slots // 2)](
        frames, parameters, parameters.stride(0), seed, target,
        IMAGES=images, SLOTS=slots, HEIGHT=height, WIDTH=width,
        NOISE=view.noise, CROP=view.crop, MOVE=view.moves,
        BRIGHTEN=view.brightness > 0, CONTRAST=view.contrast != (1.0, 1.0),
        RECOLOUR=view.saturation != (1.0, 1.0) or view.hue > 0,
        BLOCK=BLOCK, num_warps=WARPS,
    )  # fmt: skip
    return target


def image_slots(images: int) -> int:
    """Return the number of four-channel images that the convolutions need: a power of two ≥ 2."""
    return max(2, 1 << (images - 1).bit_length())
