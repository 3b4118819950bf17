# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false, reportIndexIssue=false
"""Gradients by weights and biases, summed first over shares of the pixels.

Atomic additions have no fixed order and would not be reproducible, so each program writes its
own sum and one pass adds them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pureward.kernels.rewards.convolution import weight_gradient
from pureward.kernels.rewards.spread import Layer
from pureward.kernels.rewards.tiles import PROGRAMS, Tile, tile_of


class _Slot(NamedTuple):
    """Columns of a layer in the buffer for its number of shares."""

    tile: Tile
    shares: int
    start: int


class WeightSums:
    """Sums over shares for all layers; layers with equally many shares use one buffer."""

    def __init__(self, layers: Sequence[Layer], pooled: Sequence[bool], like: Tensor) -> None:
        """Allocate the buffers.

        Args:
            layers: of the network, in order.
            pooled: whether a max-pool follows each of them.
            like: any tensor on the device.
        """
        self.layers = layers
        self.slots: list[_Slot] = []
        widths: dict[int, int] = {}
        for layer, is_pooled in zip(layers, pooled, strict=True):
            kernel = "pooled-weight" if is_pooled else "weight"
            tile = tile_of(kernel, layer.source, layer.target)
            shares = PROGRAMS * tile.taps // 16
            self.slots.append(_Slot(tile, shares, widths.get(shares, 0)))
            widths[shares] = self.slots[-1].start + layer.size
        self.partial = {
            shares: like.new_empty(4 * shares, width, dtype=torch.float32)
            for shares, width in widths.items()
        }

    def add(
        self,
        at: int,
        source: Tensor,
        gradient: Tensor,
        *,
        winner: Tensor | None = None,
        relu_in: bool = False,
    ) -> None:
        """Compute one layer's sums from its input map and the gradient by its output."""
        tile, shares, start = self.slots[at]
        partial = self.partial[shares][:, start:]
        batch, height, width, depth = source.shape
        cells = batch * height * width // 4
        weight_gradient[(shares, 16 // tile.taps)](
            source, gradient, winner, partial, cells, partial.stride(0),
            HEIGHT=height, WIDTH=width, SOURCE=depth, TARGET=self.layers[at].target,
            UNPOOL=winner is not None, RELU_IN=relu_in, STEPS=-(-cells // (shares * tile.block)),
            BLOCK=tile.block, TAPS=tile.taps, STAGES=tile.stages, num_warps=tile.warps,
        )  # fmt: skip

    def totals(self) -> list[tuple[Tensor, Tensor]]:
        """Return each layer's gradients by weight (out, 3, 3, in) and by bias (out,)."""
        flat = {shares: partial.sum(0) for shares, partial in self.partial.items()}
        pairs = []
        for layer, slot in zip(self.layers, self.slots, strict=True):
            mine = flat[slot.shares][slot.start : slot.start + layer.size]
            weight, bias = mine.split([layer.size - layer.target, layer.target])
            pairs.append((weight.view(layer.target, 3, 3, layer.source), bias))
        return pairs
