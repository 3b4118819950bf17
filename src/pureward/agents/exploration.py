# SPDX-License-Identifier: Apache-2.0
"""Gaussian exploration noise with a σ per world, optionally correlated in time.

If actions are velocities, independent noise averages out; correlated noise moves farther.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pureward.errors import InputError
from pureward.settings import check_settings


@dataclass(frozen=True, kw_only=True)
class ExplorationConfig:
    """Settings of the noise that is added to actions."""

    low: float = 0.3
    """Smallest σ; each world has its own between this and `high`."""
    high: float = 0.3
    """Largest σ; equal to `low` for one σ (Acme's D4PG: 0.3)."""
    correlation: float = 0.0
    """Correlation of the noise of consecutive steps, in [0, 1); 0.8 lasts about five steps."""

    def __post_init__(self) -> None:
        check_settings(self)
        if not 0 <= self.low <= self.high:
            raise InputError(
                f"exploration needs 0 ≤ low ≤ high, got low={self.low} and high={self.high}; "
                "use one number for both or order them"
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
        """Sample the σ of each world from the generator, on its device."""
        share = torch.rand(worlds, 1, generator=generator, device=generator.device)
        self.scale = config.low + (config.high - config.low) * share
        self._correlation = config.correlation
        self.noise = torch.zeros(worlds, action_size, device=generator.device)
        """Noise of the last step in units of σ, (worlds, action size); part of checkpoints."""
        if config.correlation:
            self.noise.normal_(generator=generator)

    def sample(self, generator: torch.Generator) -> Tensor:
        """Return noise (worlds, action size) for one step."""
        new = torch.randn(self.noise.shape, generator=generator, device=self.noise.device)
        # The variance is 1 at every step for any correlation.
        self.noise.mul_(self._correlation).add_(new, alpha=math.sqrt(1.0 - self._correlation**2))
        return self.scale * self.noise

    def random_actions(self) -> Tensor:
        """Return uniform actions in [−1, 1], with the same correlation in time as the noise."""
        return 2.0 * torch.special.ndtr(self.noise) - 1.0
