# SPDX-License-Identifier: Apache-2.0
"""Samples windows from a ring's tables, uniformly over the steps that can start one."""

from collections.abc import Iterator
from dataclasses import fields
from importlib.util import find_spec

import torch
from torch import Tensor

from pureward.data.replay.layout import Layout
from pureward.data.replay.tables import Tables
from pureward.data.replay.windows import Windows


class Sampler:
    """Reads windows by index arithmetic; on CUDA in one kernel, if that agrees with torch."""

    def __init__(self, tables: Tables, layout: Layout, *, n_step: int, discount: float) -> None:
        """Store the tables.

        Args:
            tables: the ring's memory.
            layout: its sizes.
            n_step: largest number of steps in a window.
            discount: γ.
        """
        self.tables = tables
        self.layout = layout
        self.n_step = n_step
        self.device = tables.state.device
        self.shelf_size = layout.endings * layout.worlds
        exponents = torch.arange(n_step + 1, dtype=torch.float64)
        self.powers = (discount**exponents).to(self.device, torch.float32)
        # Cumulative sum over worlds of the steps that can be sampled.
        self.readable = torch.zeros(layout.worlds, dtype=torch.int64, device=self.device)
        self._row_state = tables.state[self.shelf_size :]
        self._ahead = torch.arange(n_step, device=self.device)
        # Whether the kernel is used; None until it has been compared with torch.
        self._fused = None if self.device.type == "cuda" and find_spec("triton") else False

    def place(self, row: Tensor, world: Tensor) -> Tensor:
        """Return the index of a row of a world among the steps."""
        return row % self.layout.rows * self.layout.worlds + world

    def chosen(self, fraction: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows and worlds of the steps that fractions select."""
        pick = (fraction * self.readable[-1]).long()
        world = torch.searchsorted(self.readable, pick, right=True)
        return self.tables.rows + pick - self.readable[world], world

    def windows(self, fraction: Tensor) -> Windows:
        """Return windows that begin at the steps that fractions select."""
        if self._fused is None and not torch.cuda.is_current_stream_capturing():
            self._fused = self._agrees(fraction)
        return self._fused_windows(fraction) if self._fused else self.plain_windows(fraction)

    def plain_windows(self, fraction: Tensor) -> Windows:
        """Return the same windows, read by torch operations."""
        tables = self.tables
        row, world = self.chosen(fraction)
        start = self.place(row, world)
        ending = tables.ending[start]
        last = tables.last[ending]
        length = (last - row + 1).clamp(max=self.n_step)
        arrival = row + length
        inside = arrival <= last  # otherwise it is on the shelf
        next_place = self.shelf_size + self.place(arrival, world)
        ahead = torch.minimum(self._ahead, length[:, None] - 1)
        steps = self.place(row[:, None] + ahead, world[:, None])
        return Windows(
            state=self._row_state[start],
            action=tables.action[start],
            task_reward=tables.reward[steps],
            mask=self._ahead < length[:, None],
            weight=self.powers[:-1],
            discount=self.powers[length] * (inside | ~tables.terminated[ending]),
            next_state=tables.state[torch.where(inside, next_place, ending)],
            steps=steps,
        )

    def _fused_windows(self, fraction: Tensor) -> Windows:
        from pureward.kernels.windows import fused_windows

        return fused_windows(self.tables, self.layout, self.powers, self.readable, fraction)

    def _agrees(self, fraction: Tensor) -> bool:
        """Whether the kernel gives the same windows as torch on this machine."""
        from pureward.kernels.verify import trusted

        def differences() -> Iterator[str]:
            right, found = self.plain_windows(fraction), self._fused_windows(fraction)
            names = [field.name for field in fields(right)]
            wrong = [n for n in names if not torch.equal(getattr(found, n), getattr(right, n))]
            if wrong:
                yield f"its {', '.join(wrong)} differ"

        return trusted(
            differences,
            f"the replay's kernel is not used on {self.device} ({{reason}}); torch is used "
            "instead, which is slower",
        )
