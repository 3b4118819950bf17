# SPDX-License-Identifier: Apache-2.0
"""All parameters of several networks in one flat tensor, and their gradients in another."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

# Parameters start at multiples of this many numbers, 128 bytes, as matrix products like it.
_ALIGNMENT = 32


@dataclass(frozen=True, kw_only=True)
class FlatWeights:
    """Parameters and gradients of networks, one after the other."""

    values: Tensor
    """Every parameter, float32 (numbers,), with gaps of zeros for alignment."""
    gradients: Tensor
    """Alike."""
    parts: list[Tensor]
    """The share of `values` of each network; its `grad` is that of `gradients`."""


def flattened(*networks: nn.Module) -> FlatWeights:
    """Move parameters into one tensor, of which they become views, and gradients likewise.

    Optimiser and target networks then handle one tensor.
    """
    parameters = [list(network.parameters()) for network in networks]
    sizes = [sum(_room(one) for one in several) for several in parameters]
    values = torch.zeros(sum(sizes), device=parameters[0][0].device)
    gradients = torch.zeros_like(values)
    at = 0
    for parameter in (one for several in parameters for one in several):
        here = slice(at, at + parameter.numel())
        values[here] = parameter.detach().flatten()
        parameter.data = values[here].view_as(parameter)
        parameter.grad = gradients[here].view_as(parameter)
        at += _room(parameter)
    parts = list(values.split(sizes))
    for part, gradient in zip(parts, gradients.split(sizes), strict=True):
        part.grad = gradient
    return FlatWeights(values=values, gradients=gradients, parts=parts)


def _room(parameter: Tensor) -> int:
    return -(-parameter.numel() // _ALIGNMENT) * _ALIGNMENT
