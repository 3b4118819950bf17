# SPDX-License-Identifier: Apache-2.0
"""Adam for the networks of rewards, for use in CUDA graphs."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor
from torch.optim import Optimizer


def adam(
    parameters: Iterable[Tensor],
    learning_rate: float,
    device: torch.device,
    *,
    changing: bool = False,
) -> Optimizer:
    """Return Adam with its state allocated, capturable on CUDA.

    Args:
        parameters: to train.
        learning_rate: the step size.
        device: of the parameters.
        changing: whether `set_rate` will be called.
    """
    on_cuda = device.type == "cuda"
    # A captured step reads the current value of a tensor at each replay.
    rate = torch.tensor(learning_rate, device=device) if changing and on_cuda else learning_rate
    optimizer = torch.optim.Adam(
        parameters, lr=rate, fused=on_cuda, capturable=on_cuda, foreach=not on_cuda
    )
    # A step on zero gradients allocates the moments and changes no weight; then reset the count.
    for parameter in _parameters(optimizer):
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad()
    for state in optimizer.state.values():
        state["step"].zero_()
    return optimizer


def set_rate(optimizer: Optimizer, learning_rate: float) -> None:
    """Change the step size, for captured steps too."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(learning_rate)
        else:
            group["lr"] = learning_rate


def trained_tensors(optimizer: Optimizer) -> list[Tensor]:
    """Return every tensor that a step changes: parameters, moments, step counts."""
    moments = [v for state in optimizer.state.values() for v in state.values() if v is not None]
    return [*_parameters(optimizer), *moments]


def _parameters(optimizer: Optimizer) -> Iterator[Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]
