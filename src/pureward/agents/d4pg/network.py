# SPDX-License-Identifier: Apache-2.0
"""Actor and critic of Table 4, with hand-written gradients.

D4PG evaluates the critic twice per batch: for its own loss, and for the action gradient, which
must not change the critic. With hand-written gradients both share one forward and one backward
pass, and an update is half the work of autograd's. `tests/agents` compares the two.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pureward.agents.d4pg.config import D4PGConfig

# A tanh passes almost no gradient on for actions beyond this, so a policy with such actions in all
# states would keep them. The gradient at its input pulls them back, by at most 1 / batch.
UNSATURATED = 0.98
# All rows of a batch.
ALL = slice(None)
# Parameters start at multiples of 128 bytes (32 floats), for fast matrix products.
_ALIGNMENT = 32


class NormTanh(nn.Module):
    """LayerNorm, then tanh, as after the first layer of Acme's D4PG."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward_trace(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the output for x (batch, size) and the values that `backward` needs."""
        y, mean, scale = torch.native_layer_norm(x, x.shape[1:], self.weight, self.bias, 1e-5)
        return y.tanh_(), (x, mean, scale, y)

    def backward(self, kept: tuple[Tensor, ...], gradient: Tensor, rows: slice) -> Tensor:
        """Write the gradients of the parameters and return the input's; see `MLP.backward`."""
        x, mean, scale, y = kept
        gradient = torch.ops.aten.tanh_backward(gradient, y)
        chosen = gradient[rows]
        normed = ((x - mean) * scale)[rows]
        torch.sum(chosen * normed, dim=0, out=self.weight.grad)
        torch.sum(chosen, dim=0, out=self.bias.grad)
        outputs = [True, False, False]
        return torch.ops.aten.native_layer_norm_backward(
            gradient, x, x.shape[1:], mean, scale, self.weight, self.bias, outputs
        )[0]


class MLP(nn.Module):
    """Linear layers with ReLU between; optionally LayerNorm and tanh after the first."""

    def __init__(self, sizes: Sequence[int], *, norm_first: bool, generator: torch.Generator):
        """Build the layers.

        Args:
            sizes: of the input, the hidden layers and the output.
            norm_first: LayerNorm and tanh instead of the first ReLU.
            generator: of the initial weights, on the CPU.
        """
        super().__init__()
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for fan_in, fan_out in pairwise(sizes):
            # (inputs, outputs), unlike nn.Linear's: see `_transposed`.
            self.weights.append(nn.Parameter(_uniform((fan_in, fan_out), fan_in, generator)))
            self.biases.append(nn.Parameter(_uniform((fan_out,), fan_in, generator)))
        self.norm = NormTanh(sizes[1]) if norm_first else None
        # The same parameters in a plain list: iterating over a ParameterList is slow.
        self._layers = list(zip(self.weights, self.biases, strict=True))

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, input) to (batch, output)."""
        return self.forward_trace(x)[0]

    def forward_trace(self, x: Tensor) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
        """Return the output for x (batch, input) and the values that `backward` needs."""
        kept: list[tuple[Tensor, ...]] = []
        last = len(self._layers) - 1
        for depth, (weight, bias) in enumerate(self._layers):
            kept.append((x,))
            if depth == 0 and self.norm is not None:
                x, seen = self.norm.forward_trace(torch.addmm(bias, x, weight))
                kept.append(seen)
            else:
                x = torch.addmm(bias, x, weight) if depth == last else _relu(x, weight, bias)
        return x, kept

    def backward(
        self, kept: list[tuple[Tensor, ...]], gradient: Tensor, rows: slice = ALL
    ) -> Tensor:
        """Write the gradients of the parameters.

        Args:
            kept: from `forward_trace`; it is emptied.
            gradient: of the output, (batch, output).
            rows: of the batch that count for the parameters; others only pass gradients on.

        Returns:
            The gradient of the first layer's outputs before their activation, (batch, outputs).
        """
        for depth in reversed(range(len(self._layers))):
            if depth == 0 and self.norm is not None:
                gradient = self.norm.backward(kept.pop(), gradient, rows)
            (x,) = kept.pop()
            weight, bias = self._layers[depth]
            chosen = gradient[rows]
            torch.mm(x[rows].t(), chosen, out=weight.grad)
            torch.sum(chosen, dim=0, out=bias.grad)
            if depth > 0:
                gradient = gradient @ _transposed(weight)
            if depth > 1 or (depth == 1 and self.norm is None):
                gradient = torch.ops.aten.threshold_backward(gradient, x, 0)
        return gradient


class Actor(nn.Module):
    """The policy: states to actions in [−1, 1] (Table 4)."""

    def __init__(
        self, config: D4PGConfig, state_size: int, action_size: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        sizes = (state_size, *config.actor_layers, action_size)
        self.body = MLP(sizes, norm_first=config.norm_first, generator=generator)

    def forward(self, state: Tensor) -> Tensor:
        """Return the actions (batch, action size) of states (batch, state size)."""
        return self.body(state).tanh_()

    def forward_trace(self, state: Tensor) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
        """Return the actions of states and the values that `backward` needs."""
        proposal, kept = self.body.forward_trace(state)
        action = proposal.tanh_()
        return action, [*kept, (action,)]

    def backward(self, kept: list[tuple[Tensor, ...]], gradient: Tensor) -> None:
        """Write the gradients of the parameters from those of the actions (batch, action size).

        Actions beyond `UNSATURATED` are pulled back.
        """
        (action,) = kept.pop()
        inner = torch.ops.aten.tanh_backward(gradient, action)
        pull = F.softshrink(action, UNSATURATED) / ((1 - UNSATURATED) * len(action))
        self.body.backward(kept, inner + pull)


class Critic(nn.Module):
    """Distribution of the return: states and actions to logits of the atoms (Table 4)."""

    def __init__(
        self, config: D4PGConfig, state_size: int, action_size: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        sizes = (state_size + action_size, *config.critic_layers, config.atoms)
        self.body = MLP(sizes, norm_first=config.norm_first, generator=generator)
        self.state_size = state_size

    def forward(self, state: Tensor, action: Tensor) -> Tensor:
        """Return logits (batch, atoms) of the return's distribution."""
        return self.body(torch.cat([state, action], dim=1))

    def forward_trace(
        self, state: Tensor, taken: Tensor, proposed: Tensor
    ) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
        """Return logits (2 · batch, atoms): of actions taken, then of actions proposed."""
        pairs = [torch.cat([state, action], dim=1) for action in (taken, proposed)]
        return self.body.forward_trace(torch.cat(pairs))

    def backward(self, kept: list[tuple[Tensor, ...]], gradient: Tensor) -> Tensor:
        """Write the gradients from the actions taken; return those of the actions proposed."""
        half = len(gradient) // 2
        gradient = self.body.backward(kept, gradient, rows=slice(half))
        return gradient[half:] @ _transposed(self.body.weights[0][self.state_size :])


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
    """Make parameters views of one tensor, and gradients views of another, which `backward` fills.

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


def _relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """ReLU of x W + b; on CUDA one kernel, which has no autograd formula."""
    if x.is_cuda and not torch.is_grad_enabled():
        return torch.ops.aten._addmm_activation.default(bias, x, weight)
    return torch.addmm(bias, x, weight).relu_()


def _transposed(weight: Tensor) -> Tensor:
    """Wᵀ, copied on a CPU.

    On ARM CPUs a product with a transposed second factor takes 1.1 to 3 times as long as one with
    a copy. Forward passes need no transpose, since weights are stored (inputs, outputs).
    """
    return weight.t().contiguous() if weight.device.type == "cpu" else weight.t()


def _uniform(shape: tuple[int, ...], fan_in: int, generator: torch.Generator) -> Tensor:
    """Sample from U(±1/√fan-in), the initial distribution of PyTorch's linear layers."""
    bound = 1 / math.sqrt(fan_in)
    return (2 * torch.rand(shape, generator=generator) - 1) * bound
