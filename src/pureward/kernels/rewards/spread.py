# SPDX-License-Identifier: Apache-2.0
"""Expanded weights of the fused convolutions.

A cell of 2×2 pixels depends on 4×4 source pixels. The weight of that product is
(4, 4, in, 2, 2, out): the 3×3 kernel shifted to each place of the cell, and zeros elsewhere.
One gather from the parameters expands all layers.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from pureward.kernels.rewards.distortion import image_slots


class Layer(NamedTuple):
    """One convolution of `source` channels to `target`."""

    source: int
    target: int
    forward: Tensor
    """Expanded weight."""
    backward: Tensor | None
    """Expanded weight of the gradient by the input, if needed."""
    bias: Tensor
    """(target,) float32."""

    @property
    def size(self) -> int:
        """Numbers in the gradients by weight and bias."""
        return (9 * self.source + 1) * self.target


def spread_layers(
    weights: Sequence[Tensor], biases: Sequence[Tensor], dtype: torch.dtype, backward: bool
) -> list[Layer]:
    """Cast and expand the weights (out, in, 3, 3) of all layers; the first layer reads frames."""
    shapes = tuple((weight.shape[0], weight.shape[1]) for weight in weights)
    index, zero = _gather(shapes, backward, weights[0].device)
    flat = [weight.detach().permute(0, 2, 3, 1).reshape(-1) for weight in weights]
    wide = torch.cat([*flat, zero]).to(dtype).index_select(0, index)
    layers, at = [], 0
    for position, ((target, source), bias) in enumerate(zip(shapes, biases, strict=True)):
        source = source if position else padded_depth(source)
        size = 64 * source * target
        end = at + 2 * size if backward and position else at + size
        other = wide[at + size : end] if end > at + size else None
        layers.append(Layer(source, target, wide[at : at + size], other, bias.detach()))
        at = end
    return layers


def padded_depth(channels: int) -> int:
    """Return the number of channels of the first layer's input for frames of `channels`."""
    return 4 * image_slots(channels // 3)


@lru_cache(maxsize=16)
def _gather(
    shapes: tuple[tuple[int, int], ...], backward: bool, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return the index of each expanded number among the weights, and the zero after them.

    Cached, because a captured graph cannot copy from the host.
    """
    empty = sum(9 * target * source for target, source in shapes)
    parts, start = [], 0
    for position, (target, source) in enumerate(shapes):
        size = 9 * target * source
        home = torch.arange(start, start + size).view(target, 3, 3, source)
        start += size
        if position == 0:
            home = _padded(home, empty)
        parts.append(_spread(home, empty))
        if backward and position:
            parts.append(_spread(home.flip(1, 2).transpose(0, 3), empty))
    index = torch.cat(parts).to(torch.int32).to(device)
    return index, torch.zeros(1, device=device)


def _padded(home: Tensor, empty: int) -> Tensor:
    """Insert the padding of frames: four channels per image."""
    target, source = home.shape[0], home.shape[3]
    images = source // 3
    wide = home.new_full((target, 3, 3, image_slots(images), 4), empty)
    wide[..., :images, :3] = home.unflatten(3, (images, 3))
    return wide.flatten(3)


def _spread(home: Tensor, empty: int) -> Tensor:
    """Shift a kernel (out, 3, 3, in) over the 4×4 pixels to each place of a cell."""
    target, _, _, source = home.shape
    wide = home.new_full((4, 4, source, 2, 2, target), empty)
    for down in range(2):
        for right in range(2):
            wide[down : down + 3, right : right + 3, :, down, right] = home.permute(1, 2, 3, 0)
    return wide.flatten()
