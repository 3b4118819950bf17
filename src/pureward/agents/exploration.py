# SPDX-License-Identifier: Apache-2.0
"""Gaussian exploration, each world with its own σ, from step to step independent or not.

Where actions are velocities, independent noise averages out before anything has moved far;
noise that lasts a few steps goes somewhere.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pureward.errors import InputError


@dataclass(frozen=True, kw_only=True)
class ExplorationConfig:
    """How far actions stray from the policy's."""

    low: float = 0.3
    """Smallest σ; each world draws its own between this and `high`."""
    high: float = 0.3
    """Largest σ; equal to `low` for one σ (Acme's D4PG: 0.3)."""
    correlation: float = 0.0
    """Of the noise of one step with that of the next, in [0, 1); 0.8 lasts about five steps."""

    def __post_init__(self) -> None:
        """Refuse ranges that are none."""
        if not 0 <= self.low <= self.high < math.inf:
            raise InputError(
                f"exploration needs 0 ≤ low ≤ high, both finite, got low={self.low} and "
                f"high={self.high}; use one number for both or order them"
            )
        if not 0 <= self.correlation < 1:
            raise InputError(
                f"exploration needs a correlation in [0, 1), got {self.correlation}; try 0 or 0.8"
            )


class Exploration:
    """Noise for the actions of a batch of worlds."""

    def __init__(
        self,
        config: ExplorationConfig,
        *,
        worlds: int,
        action_size: int,
        generator: torch.Generator,
    ) -> None:
        """Draw each world's σ from the generator, on the generator's device."""
        draw = torch.rand(worlds, 1, generator=generator, device=generator.device)
        self.scale = config.low + (config.high - config.low) * draw
        self.action_size = action_size
        self._kept = config.correlation
        self.noise = torch.zeros(worlds, action_size, device=generator.device)
        """That of the last step, in units of σ; a checkpoint keeps it."""
        if config.correlation:
            self.noise.normal_(generator=generator)

    def draw(self, generator: torch.Generator) -> Tensor:
        """Noise (worlds, action size) for one step."""
        new = torch.randn(self.noise.shape, generator=generator, device=self.noise.device)
        # Of unit variance at every step, whatever the correlation.
        self.noise.mul_(self._kept).add_(new, alpha=math.sqrt(1.0 - self._kept**2))
        return self.scale * self.noise
