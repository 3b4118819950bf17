# SPDX-License-Identifier: Apache-2.0
"""Adam (Kingma & Ba, 2015): one kernel per step, no host sync."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

BETAS = (0.9, 0.999)
EPSILON = 1e-8


class Adam:
    """Adam for tensors with gradients in `grad`.

    It calls the fused kernel of `torch.optim.Adam` directly. That class imports torch's compiler,
    which takes seconds, and for small networks its bookkeeping costs more than the step. Step
    counts and step sizes are on the device, for capture.
    """

    def __init__(self, weights: Mapping[str, Tensor], rates: float | Mapping[str, float]) -> None:
        """Allocate the moments.

        Args:
            weights: dense float32 tensors by name.
            rates: step size of all, or of each.
        """
        self._weights = list(weights.values())
        sizes = [weight.numel() for weight in weights.values()]
        one = next(iter(weights.values()))
        # One tensor for all weights, which a fused kernel processes at once.
        self.first, self.second = one.new_zeros(sum(sizes)), one.new_zeros(sum(sizes))
        self.steps = one.new_zeros(len(sizes))
        parts = zip(self.steps, self.first.split(sizes), self.second.split(sizes), strict=True)
        # Step count, first and second moment of each weight.
        self._state = {
            name: (steps, *(part.as_strided(weight.shape, weight.stride()) for part in moments))
            for (name, weight), (steps, *moments) in zip(weights.items(), parts, strict=True)
        }
        each = rates if isinstance(rates, Mapping) else dict.fromkeys(weights, rates)
        # The kernels read the step size as this type; a captured step reads its current value.
        kind = torch.float32 if one.is_cuda else torch.float64
        # Weights of one rate share a kernel.
        self._groups = []
        for rate in dict.fromkeys(each.values()):
            names = [name for name in weights if each[name] == rate]
            state = zip(*(self._state[name] for name in names), strict=True)
            held = torch.tensor(rate, dtype=kind, device=one.device)
            self._groups.append((held, [weights[name] for name in names], *state))

    @torch.no_grad()
    def step(self) -> None:
        """Update the weights by their gradients, in place."""
        for rate, weights, steps, first, second in self._groups:
            torch.ops.aten._foreach_add_.Scalar(steps, 1)
            torch.ops.aten._fused_adam_.tensor_lr(
                weights,
                [weight.grad for weight in weights],
                first,
                second,
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

    def set_rate(self, rate: float) -> None:
        """Change the step size of all weights, for captured steps too."""
        for held, *_ in self._groups:
            held.fill_(rate)

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield step counts and moments, by name."""
        for name, state in self._state.items():
            for kind, tensor in zip(("steps", "first_moment", "second_moment"), state, strict=True):
                yield f"{name}.{kind}", tensor

    def changed(self) -> list[Tensor]:
        """Return every tensor that a step changes: weights, step counts, moments."""
        return [*self._weights, *(tensor for _, tensor in self.tensors())]

    def counts(self) -> range:
        """Return the positions of the step counts in `changed`."""
        return range(len(self._weights), 4 * len(self._weights), 3)
