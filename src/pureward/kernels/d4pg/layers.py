# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false, reportIndexIssue=false
# ruff: noqa: N803 - capitals are Triton's compile-time constants
"""One layer of an MLP, forward and backward, with its activation.

Rows are parts of `batch` rows each. The last part of a forward pass uses the target network,
whose parameters are stored `to_target` numbers after those of the online network. Comparisons
are written so that NaN stays NaN, as in the plain networks.
"""

import triton
import triton.language as tl

from pureward.agents.d4pg import network

UNSATURATED = tl.constexpr(network.UNSATURATED)
RELU = tl.constexpr(0)
TANH = tl.constexpr(1)
NORM_TANH = tl.constexpr(2)


@triton.jit
def tanh(x):
    """Hyperbolic tangent; Triton's interpreter has none."""
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def forward(
    source,
    source_stride,
    weight,
    bias,
    gain,
    offset,
    to_target,
    out,
    out_stride,
    normed,
    normed_stride,
    scale,
    batch,
    PARTS: tl.constexpr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    KIND: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """out = activation(source · weight + bias), one tile.

    NORM_TANH needs whole rows in a tile, and stores the normed rows and their scale for `backward`.
    """
    blocks = tl.cdiv(batch, ROWS)
    part = tl.program_id(0) // blocks
    within = tl.program_id(0) % blocks * ROWS + tl.arange(0, ROWS)
    here = (within < batch)[:, None]
    row = (part * batch + within)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    wanted = column < OUT
    shift = tl.where(part == PARTS - 1, to_target, 0)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, IN, DEPTH):
        k = start + tl.arange(0, DEPTH)
        a = tl.load(
            source + row * source_stride + k[None, :], mask=here & (k < IN)[None, :], other=0.0
        )
        at = k[:, None] * OUT + column[None, :]
        b = tl.load(weight + shift + at, mask=(k < IN)[:, None] & wanted[None, :], other=0.0)
        total = tl.dot(a, b, total, input_precision=PRECISION)
    total += tl.load(bias + shift + column, mask=wanted, other=0.0)[None, :]
    stored = here & wanted[None, :]
    if KIND == RELU:
        total = tl.where(total < 0, 0.0, total)
    elif KIND == TANH:
        total = tanh(total)
    else:
        mean = tl.sum(tl.where(wanted[None, :], total, 0.0), 1) / OUT
        away = tl.where(wanted[None, :], total - mean[:, None], 0.0)
        spread = 1 / tl.sqrt(tl.sum(away * away, 1) / OUT + 1e-5)
        away *= spread[:, None]
        tl.store(normed + row * normed_stride + column[None, :], away, mask=stored)
        tl.store(scale + part * batch + within, spread, mask=within < batch)
        g = tl.load(gain + shift + column, mask=wanted, other=0.0)[None, :]
        total = tanh(away * g + tl.load(offset + shift + column, mask=wanted, other=0.0)[None, :])
    tl.store(out + row * out_stride + column[None, :], total, mask=stored)


@triton.jit
def backward(
    gradient,
    gradient_stride,
    weight,
    seen,
    seen_stride,
    normed,
    normed_stride,
    scale,
    gain,
    out,
    out_stride,
    sums,
    sums_stride,
    batch,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    KIND: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """out = (gradient · weightᵀ) · derivative of the activation with output `seen`, one tile.

    weight is (OUT, IN): `gradient` has IN columns and `out` has OUT. NORM_TANH also writes the
    gradients by gain and offset, summed over each block of rows of the first part, to `sums`.
    """
    blocks = tl.cdiv(batch, ROWS)
    part = tl.program_id(0) // blocks
    within = tl.program_id(0) % blocks * ROWS + tl.arange(0, ROWS)
    here = (within < batch)[:, None]
    row = (part * batch + within)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    wanted = column < OUT
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, IN, DEPTH):
        k = start + tl.arange(0, DEPTH)
        at = row * gradient_stride + k[None, :]
        a = tl.load(gradient + at, mask=here & (k < IN)[None, :], other=0.0)
        at = column[:, None] * IN + k[None, :]
        b = tl.load(weight + at, mask=wanted[:, None] & (k < IN)[None, :], other=0.0)
        total = tl.dot(a, tl.trans(b), total, input_precision=PRECISION)
    stored = here & wanted[None, :]
    y = tl.load(seen + row * seen_stride + column[None, :], mask=stored, other=0.0)
    if KIND == RELU:
        total = tl.where(y <= 0, 0.0, total)
    else:
        total *= 1 - y * y
    if KIND == TANH:  # of the actor's actions
        beyond = tl.where(y > 0, tl.maximum(y - UNSATURATED, 0), tl.minimum(y + UNSATURATED, 0))
        total += beyond / ((1 - UNSATURATED) * batch)
    if KIND == NORM_TANH:
        x = tl.load(normed + row * normed_stride + column[None, :], mask=stored, other=0.0)
        if part == 0:
            at_sums = sums + 2 * tl.program_id(0) * sums_stride + column
            tl.store(at_sums, tl.sum(total * x, 0), mask=wanted)
            tl.store(at_sums + sums_stride, tl.sum(total, 0), mask=wanted)
        total *= tl.load(gain + column, mask=wanted, other=0.0)[None, :]
        along = tl.sum(total * x, 1) / OUT
        mean = tl.sum(total, 1) / OUT
        spread = tl.load(scale + part * batch + within, mask=within < batch, other=0.0)
        total = spread[:, None] * (total - mean[:, None] - x * along[:, None])
    tl.store(out + row * out_stride + column[None, :], total, mask=stored)
