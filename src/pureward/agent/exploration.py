# SPDX-License-Identifier: Apache-2.0
"""Gaussian exploration, each world with its own σ."""

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

    def __post_init__(self) -> None:
        """Refuse ranges that are none."""
        if not 0 <= self.low <= self.high:
            raise InputError(
                f"exploration needs 0 ≤ low ≤ high, got low={self.low} and high={self.high}; "
                "use one number for both or order them"
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

    def draw(self, generator: torch.Generator) -> Tensor:
        """Noise (worlds, action size) for one step."""
        size = (len(self.scale), self.action_size)
        return self.scale * torch.randn(size, generator=generator, device=self.scale.device)
