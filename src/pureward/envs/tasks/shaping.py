# SPDX-License-Identifier: Apache-2.0
"""Smooth rewards in [0, 1] from distances and speeds."""

import math

import torch
from torch import Tensor


def gaussian(distance: Tensor, margin: float, at_margin: float = 0.1) -> Tensor:
    """One at distance 0 and below, falling as a Gaussian to `at_margin` at the margin."""
    scale = math.sqrt(-2.0 * math.log(at_margin)) / margin
    return torch.exp(-0.5 * (distance.clamp(min=0.0) * scale) ** 2)


def linear(distance: Tensor, margin: float, at_margin: float = 0.0) -> Tensor:
    """One at distance 0 and below, falling on a line through `at_margin` at the margin, to 0."""
    slope = (1.0 - at_margin) / margin
    return (1.0 - distance.clamp(min=0.0) * slope).clamp(min=0.0)
