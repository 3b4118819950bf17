# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false, reportIndexIssue=false
# ruff: noqa: N803 - capitals are Triton's compile-time constants
"""The critic's last layer and its categorical loss (`categorical.py`), in one kernel."""

import triton
import triton.language as tl


@triton.jit
def probabilities(logits, known):
    """Softmax of rows and its logarithm, over the columns that are atoms."""
    away = logits - tl.max(tl.where(known, logits, float("-inf")), 1)[:, None]
    power = tl.where(known, tl.exp(away), 0.0)
    whole = tl.sum(power, 1)[:, None]
    return power / whole, away - tl.log(whole)


@triton.jit
def projected(p, stored, here, first, step, ATOMS: tl.constexpr, WIDTH: tl.constexpr):
    """Projection of moved atoms onto the support: atom j is at first + step · j gaps.

    p has the probabilities, `stored` points to the same, one pointer a row. An atom of the support
    gathers only the moved atoms next to it.
    """
    atom = tl.arange(0, WIDTH)[None, :]
    at = first + step * atom
    below = tl.sum(tl.where((atom < ATOMS) & (at <= 0), p, 0.0), 1)[:, None]
    above = tl.sum(tl.where((atom < ATOMS) & (at >= ATOMS - 1), p, 0.0), 1)[:, None]
    total = tl.where(atom == 0, below, 0.0) + tl.where(atom == ATOMS - 1, above, 0.0)
    within = (first > 0) & (first < ATOMS - 1)
    apart = tl.abs(first - atom)
    total += tl.where((step == 0) & within & (apart < 1), 1 - apart, 0.0)  # a terminal state
    stride = tl.where(step > 0, step, 1.0)
    nearest = tl.maximum(tl.floor((atom - 1 - first) / stride), 0.0)
    for j in range(tl.minimum(2.0 / tl.min(stride) + 3, ATOMS).to(tl.int32)):
        at = first + step * (nearest + j)
        inside = (step > 0) & (nearest + j < ATOMS) & (at > 0) & (at < ATOMS - 1)
        source = tl.where(inside, nearest + j, 0.0).to(tl.int32)
        mass = tl.load(stored + source, mask=here & inside, other=0.0)
        apart = tl.abs(at - atom)
        total += tl.where(apart < 1, mass * (1 - apart), 0.0)
    return tl.where(first == first, total, first)  # NaN stays NaN


@triton.jit
def critic_loss(
    hidden,
    hidden_stride,
    weight,
    bias,
    to_target,
    reward,
    discount,
    gradient,
    gradient_stride,
    metrics,
    batch,
    low,
    gap,
    IN: tl.constexpr,
    ATOMS: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """Gradients by the logits and sums of the metrics, for ROWS samples.

    hidden has three parts: for actions taken, for actions of the actor, and for next states with
    the target networks.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    here = row < batch
    atom = tl.arange(0, WIDTH)
    known = (atom < ATOMS)[None, :]
    taken = tl.zeros((ROWS, WIDTH), tl.float32)
    proposed = tl.zeros((ROWS, WIDTH), tl.float32)
    future = tl.zeros((ROWS, WIDTH), tl.float32)
    part = batch * hidden_stride
    for start in range(0, IN, DEPTH):
        k = start + tl.arange(0, DEPTH)
        mask = here[:, None] & (k < IN)[None, :]
        at = hidden + row[:, None] * hidden_stride + k[None, :]
        of_weight = weight + k[:, None] * ATOMS + atom[None, :]
        inside = (k < IN)[:, None] & known
        online = tl.load(of_weight, mask=inside, other=0.0)
        target = tl.load(of_weight + to_target, mask=inside, other=0.0)
        a = tl.load(at, mask=mask, other=0.0)
        taken = tl.dot(a, online, taken, input_precision=PRECISION)
        a = tl.load(at + part, mask=mask, other=0.0)
        proposed = tl.dot(a, online, proposed, input_precision=PRECISION)
        a = tl.load(at + 2 * part, mask=mask, other=0.0)
        future = tl.dot(a, target, future, input_precision=PRECISION)
    online = tl.load(bias + atom, mask=atom < ATOMS, other=0.0)[None, :]
    target = tl.load(bias + to_target + atom, mask=atom < ATOMS, other=0.0)[None, :]
    p, log_p = probabilities(taken + online, known)
    q, _ = probabilities(proposed + online, known)
    z, _ = probabilities(future + target, known)

    count = tl.load(discount + row, mask=here, other=0.0)
    first = (tl.load(reward + row, mask=here, other=0.0) + (count - 1) * low) / gap
    at = gradient + row[:, None] * gradient_stride + atom[None, :]
    stored = here[:, None] & known
    tl.store(at, z, mask=stored)  # until the gradient is known
    tl.debug_barrier()
    of_row = (gradient + row * gradient_stride)[:, None]
    goal = projected(z, of_row, here[:, None], first[:, None], count[:, None], ATOMS, WIDTH)
    tl.debug_barrier()
    values = low + gap * atom.to(tl.float32)[None, :]
    value = tl.sum(q * values, 1)

    tl.store(at, (p - goal) / batch, mask=stored)
    tl.store(at + batch * gradient_stride, q * (value[:, None] - values) / batch, mask=stored)
    loss = tl.sum(tl.where(known, -goal * log_p, 0.0), 1)
    top = tl.sum(tl.where(atom[None, :] == ATOMS - 1, goal, 0.0), 1)
    sums = metrics + tl.program_id(0)
    programs = tl.num_programs(0)
    tl.store(sums, tl.sum(tl.where(here, loss, 0.0), 0) / batch)
    tl.store(sums + programs, tl.sum(tl.where(here, value, 0.0), 0) / batch)
    tl.store(sums + 2 * programs, tl.sum(tl.where(here, top, 0.0), 0) / batch)
