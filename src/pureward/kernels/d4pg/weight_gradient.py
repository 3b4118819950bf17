# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false, reportIndexIssue=false
# ruff: noqa: N803 - capitals are Triton's compile-time constants
"""Gradients by every weight and bias of both networks, in one launch.

A program computes one tile of one layer's weight; a table on the device says which. A large batch
is summed in shares, each into its own row of gradients, and `adam_step.py` adds the rows. The order
of every sum is fixed, so updates are bit-for-bit reproducible.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from pureward.kernels.d4pg.tiles import Tile

# Offsets in the table are multiples of this, so that the compiler knows the alignment.
UNIT = 16
# Numbers that a tile may read past the last row.
_PADDING = 256
# Rows per share, so that long sums run in parallel, and the largest number of shares.
_SHARE = 512
_MOST_SHARES = 8


class LayerData(NamedTuple):
    """The inputs of a layer and the gradients by its outputs."""

    inputs: Tensor | None
    """(rows, in), or None if only the sum over the gradients' rows is needed."""
    gradients: Tensor
    """(rows, out), in the same buffer as the inputs."""
    weight_at: int
    """Offset of the weight among all parameters."""
    bias_at: int
    """Offset of the bias."""


@triton.jit
def weight_gradient(
    memory,
    table,
    gradients,
    gradients_stride,
    PRECISION: tl.constexpr,
    SHARES: tl.constexpr,
    STEPS: tl.constexpr,
    UNIT: tl.constexpr,
    TILE_IN: tl.constexpr,
    TILE_OUT: tl.constexpr,
    TILE_ROWS: tl.constexpr,
):
    """Sum one tile over one share of the rows: inputsᵀ · gradients, and the bias's column sums."""
    mine = table + tl.program_id(0) * 11
    inputs = tl.load(mine) * UNIT
    inputs_stride = tl.load(mine + 1) * UNIT
    outer = tl.load(mine + 2) * UNIT
    outer_stride = tl.load(mine + 3) * UNIT
    rows = tl.load(mine + 4)
    ins = tl.load(mine + 5)
    outs = tl.load(mine + 6)
    weight_at = tl.load(mine + 7)
    bias_at = tl.load(mine + 8)
    first_in = tl.load(mine + 9) * UNIT
    first_out = tl.load(mine + 10) * UNIT
    i = first_in + tl.arange(0, TILE_IN)
    o = first_out + tl.arange(0, TILE_OUT)
    share = tl.cdiv(rows, SHARES)
    begin = tl.program_id(1) * share
    end = tl.minimum(begin + share, rows)
    total = tl.zeros((TILE_IN, TILE_OUT), tl.float32)
    by_bias = tl.zeros((TILE_OUT,), tl.float32)
    for step in range(STEPS):
        row = (begin + step * TILE_ROWS + tl.arange(0, TILE_ROWS))[:, None]
        # Columns past a layer's last are read from the gap between rows, and not stored.
        x = tl.load(memory + inputs + row * inputs_stride + i[None, :], mask=row < end, other=0.0)
        g = tl.load(memory + outer + row * outer_stride + o[None, :], mask=row < end, other=0.0)
        total = tl.dot(tl.trans(x), g, total, input_precision=PRECISION)
        by_bias += tl.sum(g, 0)
    target = gradients + tl.program_id(1) * gradients_stride
    at = weight_at + i[:, None] * outs + o[None, :]
    tl.store(target + at, total, mask=(i < ins)[:, None] & (o < outs)[None, :])
    tl.store(target + bias_at + o, by_bias, mask=(o < outs) & (first_in == 0))


def shares_of(batch: int) -> int:
    """Return the number of shares in which a batch is summed."""
    return min(_MOST_SHARES, max(1, batch // _SHARE))


def tile_table(layers: Sequence[LayerData], tile: Tile, device: torch.device) -> Tensor:
    """Return the table of `weight_gradient`, (tiles, 11) int32: a row per tile of every layer."""
    rows = []
    for inputs, gradients, weight_at, bias_at in layers:
        source = gradients if inputs is None else inputs  # read, but not stored
        ins = 0 if inputs is None else inputs.shape[1]
        places = [
            *(source.storage_offset() // UNIT, source.stride(0) // UNIT),
            *(gradients.storage_offset() // UNIT, gradients.stride(0) // UNIT),
            *(gradients.shape[0], ins, gradients.shape[1], weight_at, bias_at),
        ]
        rows += [
            [*places, first_in // UNIT, first_out // UNIT]
            for first_in in range(0, max(ins, 1), tile.depth)
            for first_out in range(0, gradients.shape[1], tile.columns)
        ]
    return torch.tensor(rows, dtype=torch.int32, device=device)


def allocate(
    shapes: dict[str, tuple[int, int]], device: torch.device
) -> tuple[dict[str, Tensor], Tensor]:
    """Return zero matrices by name, with rows at multiples of `UNIT` numbers, and their buffer."""
    starts, strides, end = {}, {}, 0
    for name, (rows, columns) in shapes.items():
        starts[name], strides[name] = end, -(-columns // UNIT) * UNIT
        end += rows * strides[name]
    memory = torch.zeros(end + _PADDING, device=device)
    matrices = {
        name: memory.as_strided(shape, (strides[name], 1), starts[name])
        for name, shape in shapes.items()
    }
    return matrices, memory
