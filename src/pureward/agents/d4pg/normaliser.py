# SPDX-License-Identifier: Apache-2.0
"""Normalises states by their running mean and standard deviation."""

import torch
from torch import Tensor, nn

# Bound of normalised states, against outliers.
FARTHEST = 10.0
# After so many states, new ones are clipped before they count: a block that flies out of the scene
# would otherwise inflate the standard deviation.
_TRUSTED = 10_000
_SMALLEST_SPREAD = 1e-2


class Normaliser(nn.Module):
    """Running mean and standard deviation of states, updated without a host sync."""

    def __init__(self, state_size: int) -> None:
        super().__init__()
        # Sums over millions of states need float64.
        self.mean = nn.Buffer(torch.zeros(state_size, dtype=torch.float64))
        self.squares = nn.Buffer(torch.zeros(state_size, dtype=torch.float64))
        self.count = nn.Buffer(torch.zeros((), dtype=torch.float64))
        self.shift = nn.Buffer(torch.zeros(state_size))
        self.scale = nn.Buffer(torch.ones(state_size))

    @torch.no_grad()
    def observe(self, state: Tensor) -> None:
        """Add states (batch, state size), by Chan's parallel variance."""
        number = len(state)
        reach = torch.where(self.count >= _TRUSTED, FARTHEST / self.scale, torch.inf)
        state = state.clamp(self.shift - reach, self.shift + reach).double()
        mean = state.mean(dim=0)
        total = self.count + number
        away = mean - self.mean
        self.squares += (state - mean).square().sum(dim=0)
        self.squares += away.square() * (self.count * number / total)
        self.mean += away * (number / total)
        self.count.copy_(total)
        self.shift.copy_(self.mean)
        spread = (self.squares / total).sqrt().clamp(min=_SMALLEST_SPREAD)
        self.scale.copy_(1 / spread)

    def forward(self, state: Tensor) -> Tensor:
        """Return normalised states (batch, state size)."""
        return ((state - self.shift) * self.scale).clamp(-FARTHEST, FARTHEST)
