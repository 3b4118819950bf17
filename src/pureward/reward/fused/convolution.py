# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false, reportIndexIssue=false
# ruff: noqa: N803 - capitals are Triton's compile-time constants
"""3×3 convolutions of few channels as implicit matrix products, with all that surrounds them.

With 16 or 32 channels a convolution moves more bytes than it computes on, and a library
call leaves ReLU, pooling, residual and gradient mask to passes of their own. Here each
is done on the tile while it is in registers. Maps are (batch, height, width, channels)
bfloat16; sums are float32; weights are (out, 3, 3, in), the memory order of a
channels-last `nn.Conv2d`.
"""

import triton
import triton.language as tl


@triton.jit
def _unpooled(
    gradient,
    winner,
    image,
    row,
    column,
    channel,
    inside,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    """Gradient before a 2×2 max-pool: that of the pooled pixel where this one was largest."""
    line = (image * (HEIGHT // 2) + row // 2) * (WIDTH // 2)
    at = (line[:, None] + column // 2) * CHANNELS + channel[None, :]
    place = (row % 2)[:, None] * 2 + column % 2
    value = tl.load(gradient + at, mask=inside, other=0.0)
    largest = tl.load(winner + at, mask=inside, other=255)
    return tl.where(largest == place, value, 0.0)


@triton.jit
def _convolved(
    source,
    winner,
    weight,
    image,
    row,
    column,
    wanted,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    SOURCE: tl.constexpr,
    TARGET: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    UNPOOL: tl.constexpr,
    RELU_IN: tl.constexpr,
    BLOCK: tl.constexpr,
    TAPS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Sums of a 3×3 convolution at given pixels, (BLOCK, TARGET) float32.

    TAPS 1 multiplies tap by tap. TAPS 4 takes a kernel row at once: its three pixels are
    contiguous, and a fourth, met by zero weights, makes the depth a power of two.
    """
    k = tl.arange(0, TAPS * SOURCE)
    n = tl.arange(0, TARGET)
    channel = k % SOURCE
    total = tl.zeros((BLOCK, TARGET), tl.float32)
    for step in tl.range(0, 9 if TAPS == 1 else 3, num_stages=STAGES):
        down = step // 3 if TAPS == 1 else step
        right = step % 3 if TAPS == 1 else 0
        tap = right + k // SOURCE
        y = row + down - 1
        x = column[:, None] + tap[None, :] - 1
        inside = (wanted & (y >= 0) & (y < HEIGHT))[:, None] & (x >= 0) & (x < WIDTH)
        inside = inside & (tap < 3)[None, :]
        if UNPOOL:
            a = _unpooled(source, winner, image, y, x, channel, inside, HEIGHT, WIDTH, SOURCE)
        else:
            at = (image * HEIGHT + y) * WIDTH + column + right - 1
            a = tl.load(source + at[:, None] * SOURCE + k[None, :], mask=inside, other=0.0)
        if RELU_IN:
            a = tl.where(a > 0, a, 0.0)
        if TRANSPOSED:
            at = (channel * 9 + 8 - down * 3 - tap)[:, None] * TARGET + n[None, :]
        else:
            at = n[None, :] * (9 * SOURCE) + (down * 3 + right) * SOURCE + k[:, None]
        b = tl.load(weight + at, mask=(tap < 3)[:, None], other=0.0)
        total = tl.dot(a, b, total)
    return total


@triton.jit
def convolve(
    source,
    winner,
    weight,
    bias,
    added,
    gate,
    target,
    pixels,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    SOURCE: tl.constexpr,
    TARGET: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    UNPOOL: tl.constexpr,
    RELU_IN: tl.constexpr,
    BIAS: tl.constexpr,
    ADD: tl.constexpr,
    GATE: tl.constexpr,
    RELU_OUT: tl.constexpr,
    BLOCK: tl.constexpr,
    TAPS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """One tile of a 3×3 convolution, or of its gradient by the input when TRANSPOSED.

    target = [gate > 0] · (source ⊛ weight + bias) + added, each part by its flag. UNPOOL
    reads the source through the max-pool that followed it; RELU_IN clips it at zero.
    """
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = pixel % WIDTH
    row = (pixel // WIDTH) % HEIGHT
    image = pixel // (WIDTH * HEIGHT)
    n = tl.arange(0, TARGET)
    total = _convolved(
        source,
        winner,
        weight,
        image,
        row,
        column,
        pixel < pixels,
        HEIGHT,
        WIDTH,
        SOURCE,
        TARGET,
        TRANSPOSED,
        UNPOOL,
        RELU_IN,
        BLOCK,
        TAPS,
        STAGES,
    )
    at = pixel[:, None] * TARGET + n[None, :]
    here = (pixel < pixels)[:, None]
    if BIAS:
        total += tl.load(bias + n)[None, :]
    if GATE:
        total = tl.where(tl.load(gate + at, mask=here, other=0.0) > 0, total, 0.0)
    if ADD:
        total += tl.load(added + at, mask=here, other=0.0).to(tl.float32)
    if RELU_OUT:
        total = tl.maximum(total, 0.0)
    tl.store(target + at, total.to(target.dtype.element_ty), mask=here)


@triton.jit
def convolve_and_pool(
    source,
    weight,
    bias,
    target,
    winner,
    pixels,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    SOURCE: tl.constexpr,
    TARGET: tl.constexpr,
    BLOCK: tl.constexpr,
    TAPS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """One tile of a 3×3 convolution and the 2×2 max-pool after it, with the winner's place.

    HEIGHT and WIDTH are the source's; the full-size map never reaches memory.
    """
    pooled = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = (pooled % (WIDTH // 2)) * 2
    row = ((pooled // (WIDTH // 2)) % (HEIGHT // 2)) * 2
    image = pooled // ((WIDTH // 2) * (HEIGHT // 2))
    n = tl.arange(0, TARGET)
    best = tl.full((BLOCK, TARGET), -float("inf"), tl.float32)
    largest = tl.zeros((BLOCK, TARGET), tl.int32)
    for place in tl.static_range(4):
        total = _convolved(
            source,
            source,
            weight,
            image,
            row + place // 2,
            column + place % 2,
            pooled < pixels,
            HEIGHT,
            WIDTH,
            SOURCE,
            TARGET,
            False,
            False,
            False,
            BLOCK,
            TAPS,
            STAGES,
        )
        largest = tl.where(total > best, place, largest)
        best = tl.maximum(best, total)
    best += tl.load(bias + n)[None, :]
    at = pooled[:, None] * TARGET + n[None, :]
    here = (pooled < pixels)[:, None]
    tl.store(target + at, best.to(target.dtype.element_ty), mask=here)
    tl.store(winner + at, largest.to(tl.uint8), mask=here)


@triton.jit
def weight_gradient(
    source,
    gradient,
    winner,
    partial,
    pixels,
    stride,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    SOURCE: tl.constexpr,
    TARGET: tl.constexpr,
    UNPOOL: tl.constexpr,
    RELU_IN: tl.constexpr,
    STEPS: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Gradient by weight and bias over one share of the pixels, into a row of `partial`.

    A row holds (out, 3, 3, in) for the weight and then (out,) for the bias; the grid's
    second axis is the kernel's row. Its three taps share one product, since source pixels
    left, centre and right are contiguous.
    """
    down = tl.program_id(1)
    k = tl.arange(0, 4 * SOURCE)
    n = tl.arange(0, TARGET)
    total = tl.zeros((TARGET, 4 * SOURCE), tl.float32)
    by_bias = tl.zeros((TARGET,), tl.float32)
    first = tl.program_id(0) * (STEPS * BLOCK)
    for step in tl.range(0, STEPS, num_stages=STAGES):
        pixel = first + step * BLOCK + tl.arange(0, BLOCK)
        here = pixel < pixels
        column = pixel % WIDTH
        row = (pixel // WIDTH) % HEIGHT
        if UNPOOL:
            image = pixel // (WIDTH * HEIGHT)
            g = _unpooled(
                gradient,
                winner,
                image,
                row,
                column[:, None] + n[None, :] * 0,
                n,
                here[:, None],
                HEIGHT,
                WIDTH,
                TARGET,
            )
        else:
            g = tl.load(
                gradient + pixel[:, None] * TARGET + n[None, :], mask=here[:, None], other=0.0
            )
        above = row + down - 1
        here = here & (above >= 0) & (above < HEIGHT)
        beside = column[:, None] + (k // SOURCE)[None, :] - 1
        # The fourth pixel pads the product to a power of two and is not stored.
        inside = (beside >= 0) & (beside < WIDTH) & here[:, None]
        at = (pixel + (down - 1) * WIDTH - 1)[:, None] * SOURCE + k[None, :]
        a = tl.load(source + at, mask=inside, other=0.0)
        if RELU_IN:
            a = tl.where(a > 0, a, 0.0)
        total = tl.dot(tl.trans(g), a, total)
        by_bias += tl.sum(g.to(tl.float32), 0)
    out = partial + tl.program_id(0) * stride
    at = n[:, None] * (9 * SOURCE) + down * (3 * SOURCE) + k[None, :]
    tl.store(out + at, total, mask=(k < 3 * SOURCE)[None, :])
    if down == 1:
        tl.store(out + 9 * SOURCE * TARGET + n, by_bias)
