# SPDX-License-Identifier: Apache-2.0
"""Adam (Kingma & Ba, 2015) on flat weights: one kernel per step, no host sync."""

from collections.abc import Iterator

import torch
from torch import Tensor

BETAS = (0.9, 0.999)
EPSILON = 1e-8


class Adam:
    """Adam for flat tensors with gradients in `grad`.

    It calls the fused kernel of `torch.optim.Adam` directly: for networks of this size the
    bookkeeping of the optimizer costs more. Step counts are on the device, for capture.
    """

    def __init__(self, weights: dict[str, Tensor], rates: dict[str, float]) -> None:
        """Allocate the moments.

        Args:
            weights: flat float32 tensors by name.
            rates: step size of each.
        """
        self._weights = weights
        sizes = [flat.numel() for flat in weights.values()]
        one = next(iter(weights.values()))
        # One tensor for all weights, which a fused kernel processes at once.
        self.first, self.second = one.new_zeros(sum(sizes)), one.new_zeros(sum(sizes))
        self.steps = one.new_zeros(len(sizes))
        self._first = dict(zip(weights, self.first.split(sizes), strict=True))
        self._second = dict(zip(weights, self.second.split(sizes), strict=True))
        self._steps = dict(zip(weights, self.steps.unbind(), strict=True))
        # Weights of one rate share a kernel.
        self._groups = {
            rate: [name for name in weights if rates[name] == rate] for rate in rates.values()
        }

    def step(self) -> None:
        """Update the weights by their gradients, in place."""
        for rate, names in self._groups.items():
            steps = [self._steps[name] for name in names]
            torch.ops.aten._foreach_add_.Scalar(steps, 1)
            torch.ops.aten._fused_adam_.default(
                [self._weights[name] for name in names],
                [self._weights[name].grad for name in names],
                [self._first[name] for name in names],
                [self._second[name] for name in names],
                [],
                steps,
                lr=rate,
                beta1=BETAS[0],
                beta2=BETAS[1],
                weight_decay=0.0,
                eps=EPSILON,
                amsgrad=False,
                maximize=False,
            )

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield moments and step counts, by name."""
        for name in self._weights:
            yield f"{name}.first_moment", self._first[name]
            yield f"{name}.second_moment", self._second[name]
            yield f"{name}.steps", self._steps[name]
