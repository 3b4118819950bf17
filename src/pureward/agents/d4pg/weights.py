# SPDX-License-Identifier: Apache-2.0
"""All parameters of several networks in one flat tensor, and their gradients in another."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

# Parameters start at multiples of 128 bytes (32 floats), for fast matrix products.
_ALIGNMENT = 32


@dataclass(frozen=True, kw_only=True)
class FlatWeights:
    """Concatenated parameters and gradients of networks."""

    values: Tensor
    """Every parameter, float32 (numbers,), with gaps of zeros for alignment."""
    gradients: Tensor
    """Their gradients, float32 (numbers,)."""
    parts: list[Tensor]
    """The part of `values` of each network; its `grad` is a part of `gradients`."""


def flattened(*networks: nn.Module) -> FlatWeights:
    """Make parameters views of one tensor, and gradients views of another.

    The optimizer and the target update then process one tensor per network.
    """
    parameters = [list(network.parameters()) for network in networks]
    sizes = [sum(_padded_size(one) for one in several) for several in parameters]
    values = torch.zeros(sum(sizes), device=parameters[0][0].device)
    gradients = torch.zeros_like(values)
    at = 0
    for parameter in (one for several in parameters for one in several):
        here = slice(at, at + parameter.numel())
        values[here] = parameter.detach().flatten()
        parameter.data = values[here].view_as(parameter)
        parameter.grad = gradients[here].view_as(parameter)
        at += _padded_size(parameter)
    parts = list(values.split(sizes))
    for part, gradient in zip(parts, gradients.split(sizes), strict=True):
        part.grad = gradient
    return FlatWeights(values=values, gradients=gradients, parts=parts)


def _padded_size(parameter: Tensor) -> int:
    return -(-parameter.numel() // _ALIGNMENT) * _ALIGNMENT
