# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false, reportIndexIssue=false
# ruff: noqa: N803 - capitals are Triton's compile-time constants
"""3×3 convolutions of few channels, forward and backward, with ReLU, pooling and residuals.

With 16 or 32 channels a convolution is limited by memory bandwidth, and library calls need
separate passes for ReLU, pooling, residual and gradient mask. Here each is computed on the
tile while it is in registers.

A tile consists of cells of 2×2 pixels. The four pixels of a cell depend on 4×4 source pixels,
so a cell is one row of a matrix product: 16 pixels of SOURCE channels in, 4 pixels of TARGET
channels out, with an expanded weight (`spread.py`). Each source pixel is read four times
instead of nine, every depth is a power of two, and the four candidates of a 2×2 max-pool are
in one row. Maps are (batch, height, width, channels) bfloat16; sums are float32.
"""

import triton
import triton.language as tl


@triton.jit
def _corner(cell, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    """Image, row and column of the upper left pixel of cells on a map."""
    image = cell // ((HEIGHT // 2) * (WIDTH // 2))
    row = (cell // (WIDTH // 2)) % (HEIGHT // 2) * 2
    return image, row, cell % (WIDTH // 2) * 2


@triton.jit
def _source_pixels(
    source,
    winner,
    cell,
    here,
    first,
    k,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    SOURCE: tl.constexpr,
    UNPOOL: tl.constexpr,
    RELU: tl.constexpr,
):
    """Some of the 4×4 source pixels of cells, from number `first` of the sixteen on.

    `k` counts (pixel, channel). UNPOOL reads the gradient before the pool from a pooled one.
    """
    image, row, column = _corner(cell, HEIGHT, WIDTH)
    seen = first + k // SOURCE
    channel = k % SOURCE
    y = row[:, None] + (seen // 4 - 1)[None, :]
    x = column[:, None] + (seen % 4 - 1)[None, :]
    inside = here[:, None] & (y >= 0) & (y < HEIGHT) & (x >= 0) & (x < WIDTH)
    if UNPOOL:
        line = image[:, None] * (HEIGHT // 2) + y // 2
        at = (line * (WIDTH // 2) + x // 2) * SOURCE + channel[None, :]
        value = tl.load(source + at, mask=inside, other=0.0)
        largest = tl.load(winner + at, mask=inside, other=255)
        return tl.where(largest == y % 2 * 2 + x % 2, value, 0.0)
    corner = ((image * HEIGHT + row - 1) * WIDTH + column - 1) * SOURCE
    offset = (seen // 4 * WIDTH + seen % 4) * SOURCE + channel
    value = tl.load(source + corner[:, None] + offset[None, :], mask=inside, other=0.0)
    return tl.where(value > 0, value, 0.0) if RELU else value


@triton.jit
def _own_pixels(cell, n, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr):
    """Offsets of a cell's own four pixels on a map; `n` counts (place, channel)."""
    image, row, column = _corner(cell, HEIGHT, WIDTH)
    place = n // CHANNELS
    y = (image * HEIGHT + row)[:, None] + (place // 2)[None, :]
    x = column[:, None] + (place % 2)[None, :]
    return (y * WIDTH + x) * CHANNELS + (n % CHANNELS)[None, :]


@triton.jit
def convolve(
    source,
    winner,
    weight,
    bias,
    added,
    gate,
    target,
    won,
    cells,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    SOURCE: tl.constexpr,
    TARGET: tl.constexpr,
    UNPOOL: tl.constexpr,
    RELU_IN: tl.constexpr,
    BIAS: tl.constexpr,
    GATE: tl.constexpr,
    ADD: tl.constexpr,
    RELU_OUT: tl.constexpr,
    POOL: tl.constexpr,
    PLACE: tl.constexpr,
    BLOCK: tl.constexpr,
    TAPS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """One tile of a 3×3 convolution, or of its gradient by the input.

    target = [gate > 0] · (source ⊛ weight + bias) + added, each part if its flag is set. POOL
    stores the largest pixel of each cell instead of the full-size map, and PLACE its place in
    `won`. HEIGHT and WIDTH are those of the map before pooling.
    """
    cell = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = cell < cells
    k = tl.arange(0, TAPS * SOURCE)
    n = tl.arange(0, 4 * TARGET)
    total = tl.zeros((BLOCK, 4 * TARGET), tl.float32)
    for step in tl.range(0, 16 // TAPS, num_stages=STAGES):
        a = _source_pixels(
            source, winner, cell, here, step * TAPS, k, HEIGHT, WIDTH, SOURCE, UNPOOL, RELU_IN
        )
        at = (step * (TAPS * SOURCE) + k)[:, None] * (4 * TARGET) + n[None, :]
        total = tl.dot(a, tl.load(weight + at), total)
    if BIAS:
        total += tl.load(bias + n % TARGET)[None, :]
    if POOL:
        four = tl.reshape(total, (BLOCK, 4, TARGET))
        at = cell[:, None] * TARGET + tl.arange(0, TARGET)[None, :]
        if PLACE:
            largest, place = tl.max(four, 1, return_indices=True)
            tl.store(won + at, place.to(tl.uint8), mask=here[:, None])
        else:
            largest = tl.max(four, 1)
        tl.store(target + at, largest.to(target.dtype.element_ty), mask=here[:, None])
    else:
        at = _own_pixels(cell, n, HEIGHT, WIDTH, TARGET)
        if GATE:
            total = tl.where(tl.load(gate + at, mask=here[:, None], other=0.0) > 0, total, 0.0)
        if ADD:
            total += tl.load(added + at, mask=here[:, None], other=0.0).to(tl.float32)
        if RELU_OUT:
            total = tl.maximum(total, 0.0)
        tl.store(target + at, total.to(target.dtype.element_ty), mask=here[:, None])


@triton.jit
def weight_gradient(
    source,
    gradient,
    winner,
    partial,
    cells,
    stride,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    SOURCE: tl.constexpr,
    TARGET: tl.constexpr,
    UNPOOL: tl.constexpr,
    RELU_IN: tl.constexpr,
    STEPS: tl.constexpr,
    BLOCK: tl.constexpr,
    TAPS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Gradient by weight and bias over one share of the cells, into four rows of `partial`.

    A row, one for each place of a cell, holds (out, 3, 3, in) for the weight and then
    (out,) for the bias. A program computes TAPS of the 4×4 source pixels; the second axis of
    the grid selects them.
    """
    tap = tl.program_id(1) * TAPS
    k = tl.arange(0, TAPS * SOURCE)
    n = tl.arange(0, 4 * TARGET)
    if UNPOOL:
        total = tl.zeros((TAPS * SOURCE, 4 * TARGET), tl.float32)
    else:
        total = tl.zeros((4 * TARGET, TAPS * SOURCE), tl.float32)
    by_bias = tl.zeros((BLOCK, 4 * TARGET), tl.float32)
    first = tl.program_id(0) * (STEPS * BLOCK)
    for step in tl.range(0, STEPS, num_stages=STAGES):
        cell = first + step * BLOCK + tl.arange(0, BLOCK)
        here = cell < cells
        a = _source_pixels(
            source, winner, cell, here, tap, k, HEIGHT, WIDTH, SOURCE, False, RELU_IN
        )
        # Matrix units read both sides from shared memory. The side that was changed in registers
        # is written back there; that is faster for the right side.
        if UNPOOL:
            at = cell[:, None] * TARGET + tl.arange(0, TARGET)[None, :]
            value = tl.load(gradient + at, mask=here[:, None], other=0.0)[:, None, :]
            largest = tl.load(winner + at, mask=here[:, None], other=255)[:, None, :]
            routed = tl.where(largest == tl.arange(0, 4)[None, :, None], value, 0.0)
            g = tl.reshape(routed, (BLOCK, 4 * TARGET))
            total = tl.dot(tl.trans(a), g, total)
        else:
            at = _own_pixels(cell, n, HEIGHT, WIDTH, TARGET)
            g = tl.load(gradient + at, mask=here[:, None], other=0.0)
            total = tl.dot(tl.trans(g), a, total)
        by_bias += g.to(tl.float32)
    if UNPOOL:
        total = tl.trans(total)
    place, channel = n // TARGET, n % TARGET
    row = partial + (tl.program_id(0) * 4 + place) * stride
    seen = tap + k // SOURCE
    down = (seen // 4)[None, :] - (place // 2)[:, None]
    right = (seen % 4)[None, :] - (place % 2)[:, None]
    at = (channel[:, None] * 9 + down * 3 + right) * SOURCE + (k % SOURCE)[None, :]
    used = (down >= 0) & (down < 3) & (right >= 0) & (right < 3)
    tl.store(row[:, None] + at, total, mask=used)
    if tap == 0:
        tl.store(row + 9 * SOURCE * TARGET + channel, tl.sum(by_bias, 0))
