# SPDX-License-Identifier: Apache-2.0
"""Categorical distributions over evenly spaced returns: the equations of the critic."""

import torch
from torch import Tensor


class Support:
    """Evenly spaced atoms from `low` to `high` (Table 4: 51 from 0 to 100)."""

    def __init__(
        self, low: float, high: float, count: int, device: torch.device | str = "cpu"
    ) -> None:
        self.low, self.high = low, high
        self.gap = (high - low) / (count - 1)
        """Distance between neighbouring atoms."""
        self.atoms = torch.linspace(low, high, count, device=device)
        """Their values, float32 (atoms,)."""


def project(probabilities: Tensor, reward: Tensor, discount: Tensor, support: Support) -> Tensor:
    """Project reward + discount · Z onto the atoms (Bellemare et al., 2017; used by D4PG).

    The mass of each moved atom is split between its two neighbours in proportion to proximity.
    Mass outside the support goes to the nearest end.

    Args:
        probabilities: (batch, atoms), of Z.
        reward: (batch,), summed over the n steps.
        discount: (batch,), of the bootstrap; 0 after a terminal step.
        support: the atoms.

    Returns:
        Probabilities (batch, atoms).
    """
    top = len(support.atoms) - 1
    # Moved atoms, in gaps from the lowest.
    moved = (reward[:, None] - support.low + discount[:, None] * support.atoms) / support.gap
    moved = moved.clamp(0, top)
    # Clamped again as integers: a NaN reward makes its row NaN and does not index out of bounds.
    below = moved.long().clamp(0, top - 1)
    to_above = probabilities * (moved - below)
    projected = torch.zeros_like(probabilities)
    projected.scatter_add_(1, below, probabilities - to_above)
    return projected.scatter_add_(1, below + 1, to_above)


def cross_entropy(target: Tensor, log_probabilities: Tensor) -> Tensor:
    """Mean cross entropy of a distribution (batch, atoms) against target probabilities."""
    return -(target * log_probabilities).sum(dim=-1).mean()


def cross_entropy_gradient(target: Tensor, probabilities: Tensor) -> Tensor:
    """Gradient of the mean cross entropy with respect to the logits, (batch, atoms)."""
    return (probabilities - target) / len(target)


def expected_value(probabilities: Tensor, support: Support) -> Tensor:
    """Mean of each distribution (batch, atoms); returns (batch,)."""
    return probabilities @ support.atoms


def expected_value_gradient(probabilities: Tensor, value: Tensor, support: Support) -> Tensor:
    """Gradient of the mean expected value with respect to the logits, (batch, atoms)."""
    return probabilities * (support.atoms - value[:, None]) / len(value)
