# SPDX-License-Identifier: Apache-2.0
"""States brought to zero mean and unit spread, by what has been seen of them so far."""

import torch
from torch import Tensor, nn

# Normalised states are kept this close: one outlier must not blow up a network.
FARTHEST = 10.0
# Nor may it count for more in the spread, once so many states have told how wide that is: a block
# that flies out of the room would leave the policy blind to where all others lie.
_TRUSTED = 10_000
_SMALLEST_SPREAD = 1e-2


class Normaliser(nn.Module):
    """Running mean and spread of states, on their device; updated without a host wait."""

    mean: Tensor
    squares: Tensor
    count: Tensor
    shift: Tensor
    scale: Tensor

    def __init__(self, state_size: int) -> None:
        super().__init__()
        # Sums over millions of states are kept in doubles; what networks see is float32.
        self.register_buffer("mean", torch.zeros(state_size, dtype=torch.float64))
        self.register_buffer("squares", torch.zeros(state_size, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("shift", torch.zeros(state_size))
        self.register_buffer("scale", torch.ones(state_size))

    @torch.no_grad()
    def observe(self, state: Tensor) -> None:
        """Take account of states (batch, state size), by Chan's parallel variance."""
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
        """Return states (batch, state size) as networks like them."""
        return ((state - self.shift) * self.scale).clamp(-FARTHEST, FARTHEST)
