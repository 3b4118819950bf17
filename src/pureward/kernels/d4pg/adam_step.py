# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false, reportIndexIssue=false
# ruff: noqa: N803 - capitals are Triton's compile-time constants
"""The first and last kernel of an update: inputs and counters; Adam and the target networks."""

import triton
import triton.language as tl


@triton.jit
def prepare(
    state,
    action,
    next_state,
    shift,
    scale,
    inputs,
    stride,
    updates,
    steps,
    batch,
    STATE: tl.constexpr,
    ACTION: tl.constexpr,
    NORMALISE: tl.constexpr,
    FARTHEST: tl.constexpr,
    STATE_WIDTH: tl.constexpr,
    ACTION_WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Write the critic's inputs of ROWS samples, except the actors' actions; count the update.

    Three parts: state and action taken; state and the actor's action; next state and the target
    actor's action.
    """
    if tl.program_id(0) == 0:
        tl.store(updates, tl.load(updates) + 1)
        tl.store(steps, tl.load(steps) + 1)
        tl.store(steps + 1, tl.load(steps + 1) + 1)
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    here = row < batch
    s = tl.arange(0, STATE_WIDTH)[None, :]
    now = tl.load(state + row * STATE + s, mask=here & (s < STATE), other=0.0)
    then = tl.load(next_state + row * STATE + s, mask=here & (s < STATE), other=0.0)
    if NORMALISE:
        away = tl.load(shift + s, mask=s < STATE, other=0.0)
        factor = tl.load(scale + s, mask=s < STATE, other=0.0)
        now = (now - away) * factor
        then = (then - away) * factor
        now = tl.where(now > FARTHEST, FARTHEST, tl.where(now < -FARTHEST, -FARTHEST, now))
        then = tl.where(then > FARTHEST, FARTHEST, tl.where(then < -FARTHEST, -FARTHEST, then))
    at = inputs + row * stride + s
    tl.store(at, now, mask=here & (s < STATE))
    tl.store(at + batch * stride, now, mask=here & (s < STATE))
    tl.store(at + 2 * batch * stride, then, mask=here & (s < STATE))
    a = tl.arange(0, ACTION_WIDTH)[None, :]
    taken = tl.load(action + row * ACTION + a, mask=here & (a < ACTION), other=0.0)
    tl.store(inputs + row * stride + STATE + a, taken, mask=here & (a < ACTION))


@triton.jit
def adam_step(
    weights,
    to_target,
    gradients,
    gradients_stride,
    first,
    second,
    steps,
    updates,
    partial,
    metrics,
    size,
    actor_size,
    actor_rate,
    critic_rate,
    BETA_1: tl.constexpr,
    BETA_2: tl.constexpr,
    LOG_BETA_1: tl.constexpr,
    LOG_BETA_2: tl.constexpr,
    EPSILON: tl.constexpr,
    POLYAK: tl.constexpr,
    PERIOD: tl.constexpr,
    SHARES: tl.constexpr,
    METRICS: tl.constexpr,
    COUNT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Adam on BLOCK weights, then their targets; the first program also sums the metrics."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = i < size
    g = tl.zeros((BLOCK,), tl.float32)
    for share in range(SHARES):
        g += tl.load(gradients + share * gradients_stride + i, mask=here, other=0.0)
    m = tl.load(first + i, mask=here, other=0.0)
    v = tl.load(second + i, mask=here, other=0.0)
    m += (1 - BETA_1) * (g - m)
    v = BETA_2 * v + (1 - BETA_2) * g * g
    tl.store(first + i, m, mask=here)
    tl.store(second + i, v, mask=here)
    # Float64, since 1 − β₂ᵗ is about 0.001 at the first steps.
    step = tl.load(steps).to(tl.float64)
    unbias_1 = (1 - tl.exp(step * LOG_BETA_1)).to(tl.float32)
    unbias_2 = (1 - tl.exp(step * LOG_BETA_2)).to(tl.float32)
    rate = tl.where(i < actor_size, actor_rate, critic_rate)
    w = tl.load(weights + i, mask=here, other=0.0)
    w -= rate / unbias_1 * m / (tl.sqrt(v) / tl.sqrt(unbias_2) + EPSILON)
    tl.store(weights + i, w, mask=here)
    target = tl.load(weights + to_target + i, mask=here, other=0.0)
    if POLYAK > 0:
        target += POLYAK * (w - target)
    else:
        target = tl.where(tl.load(updates) % PERIOD == 0, w, target)
    tl.store(weights + to_target + i, target, mask=here)
    if tl.program_id(0) == 0:
        for metric in range(METRICS):
            total = tl.zeros((BLOCK,), tl.float32)
            for start in range(0, COUNT, BLOCK):
                c = start + tl.arange(0, BLOCK)
                total += tl.load(partial + metric * COUNT + c, mask=c < COUNT, other=0.0)
            tl.store(metrics + metric, tl.sum(total, 0))
