# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false, reportIndexIssue=false
# ruff: noqa: N803 - capitals are Triton's compile-time constants
"""The windows of `sampler.py` in one CUDA kernel instead of about 30."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from pureward.data.replay.layout import Layout
from pureward.data.replay.tables import Tables
from pureward.data.replay.windows import Windows

_WINDOWS = 8  # windows per program


@triton.jit
def _world_of(pick, readable, WORLDS: tl.constexpr, HALVINGS: tl.constexpr):
    """First world whose cumulative number of readable steps exceeds `pick`, by bisection."""
    low = tl.zeros_like(pick)
    high = low + WORLDS
    for _ in range(HALVINGS):
        middle = (low + high) // 2
        open_still = low < high
        above = tl.load(readable + middle, mask=open_still, other=0) <= pick
        low = tl.where(open_still & above, middle + 1, low)
        high = tl.where(open_still & (above == 0), middle, high)
    return low


@triton.jit
def read_windows(
    fraction,
    readable,
    rows,
    ending,
    last,
    terminated,
    reward,
    action,
    state,
    powers,
    state_out,
    action_out,
    reward_out,
    mask_out,
    discount_out,
    next_out,
    steps_out,
    batch,
    RING: tl.constexpr,
    WORLDS: tl.constexpr,
    SHELF: tl.constexpr,
    N_STEP: tl.constexpr,
    STATE: tl.constexpr,
    ACTION: tl.constexpr,
    HALVINGS: tl.constexpr,
    WINDOWS: tl.constexpr,
    N_WIDTH: tl.constexpr,
    STATE_WIDTH: tl.constexpr,
    ACTION_WIDTH: tl.constexpr,
):
    """Read WINDOWS windows, as `plain_windows` does."""
    i = tl.program_id(0) * WINDOWS + tl.arange(0, WINDOWS)
    here = i < batch
    total = tl.load(readable + WORLDS - 1).to(tl.float64)
    pick = (tl.load(fraction + i, mask=here, other=0.0) * total).to(tl.int64)
    world = _world_of(pick, readable, WORLDS, HALVINGS)
    row = tl.load(rows) + pick - tl.load(readable + world)
    start = row % RING * WORLDS + world
    shelf = tl.load(ending + start)
    newest = tl.load(last + shelf)
    length = tl.minimum(newest - row + 1, N_STEP)
    arrival = row + length
    inside = arrival <= newest
    bootstraps = inside | (tl.load(terminated + shelf) == 0)
    discount = tl.where(bootstraps, tl.load(powers + length), 0.0)
    tl.store(discount_out + i, discount, mask=here)

    ahead = tl.arange(0, N_WIDTH)[None, :]
    known = here[:, None] & (ahead < N_STEP)
    step = row[:, None] + tl.minimum(ahead, length[:, None] - 1)
    place = step % RING * WORLDS + world[:, None]
    at = i[:, None] * N_STEP + ahead
    tl.store(steps_out + at, place, mask=known)
    tl.store(reward_out + at, tl.load(reward + place, mask=known, other=0.0), mask=known)
    tl.store(mask_out + at, (ahead < length[:, None]).to(tl.uint8), mask=known)

    s = tl.arange(0, STATE_WIDTH)[None, :]
    known = here[:, None] & (s < STATE)
    at = i[:, None] * STATE + s
    seen = tl.load(state + (SHELF + start)[:, None] * STATE + s, mask=known, other=0.0)
    tl.store(state_out + at, seen, mask=known)
    arrived = tl.where(inside, SHELF + arrival % RING * WORLDS + world, shelf)
    seen = tl.load(state + arrived[:, None] * STATE + s, mask=known, other=0.0)
    tl.store(next_out + at, seen, mask=known)

    a = tl.arange(0, ACTION_WIDTH)[None, :]
    known = here[:, None] & (a < ACTION)
    done = tl.load(action + start[:, None] * ACTION + a, mask=known, other=0.0)
    tl.store(action_out + i[:, None] * ACTION + a, done, mask=known)


def fused_windows(
    tables: Tables, layout: Layout, powers: Tensor, readable: Tensor, fraction: Tensor
) -> Windows:
    """Return the windows that `Sampler.plain_windows` returns for the same fractions.

    Args:
        tables: the ring's memory.
        layout: its sizes.
        powers: γ^j, float32 (n + 1,).
        readable: cumulative sum over worlds of the steps that can be sampled, int64 (worlds,).
        fraction: float64 (batch,) in [0, 1).
    """
    n_step, batch, new = len(powers) - 1, len(fraction), tables.state.new_empty
    windows = Windows(
        state=new(batch, layout.state_size),
        action=new(batch, layout.action_size),
        task_reward=new(batch, n_step),
        mask=new(batch, n_step, dtype=torch.bool),
        weight=powers[:-1],
        discount=new(batch),
        next_state=new(batch, layout.state_size),
        steps=new(batch, n_step, dtype=torch.int64),
    )
    read_windows[(triton.cdiv(batch, _WINDOWS),)](
        fraction, readable, tables.rows, tables.ending, tables.last,
        tables.terminated.view(torch.uint8), tables.reward, tables.action, tables.state,
        powers, windows.state, windows.action, windows.task_reward,
        windows.mask.view(torch.uint8), windows.discount, windows.next_state, windows.steps, batch,
        RING=layout.rows, WORLDS=layout.worlds, SHELF=layout.endings * layout.worlds,
        N_STEP=n_step, STATE=layout.state_size, ACTION=layout.action_size,
        HALVINGS=layout.worlds.bit_length(), WINDOWS=_WINDOWS,
        N_WIDTH=triton.next_power_of_2(n_step),
        STATE_WIDTH=triton.next_power_of_2(layout.state_size),
        ACTION_WIDTH=triton.next_power_of_2(layout.action_size),
    )  # fmt: skip
    return windows
