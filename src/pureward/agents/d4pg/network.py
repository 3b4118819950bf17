# SPDX-License-Identifier: Apache-2.0
"""Actor and critic of Table 4, with their gradients written out.

D4PG asks the critic twice about a batch: for its own loss, and for the action gradient, which
must not teach the critic. With gradients written out both are one pass forward and one back in
which only some rows teach the weights, and an update is half the work for host and device that
autograd makes of it. `tests/agent` compares them with autograd's.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

# Rows of a batch: all of them.
ALL = slice(None)


class NormTanh(nn.Module):
    """LayerNorm, then tanh: what Acme's D4PG puts after the first layer."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def traced(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the output for x (batch, size) and what `pull_back` needs to know of it."""
        y, mean, scale = torch.native_layer_norm(x, x.shape[1:], self.weight, self.bias, 1e-5)
        return y.tanh_(), (x, mean, scale, y)

    def pull_back(self, kept: tuple[Tensor, ...], gradient: Tensor, taught: slice) -> Tensor:
        """Write the parameters' gradients and return the input's; see `MLP.pull_back`."""
        x, mean, scale, y = kept
        gradient = torch.ops.aten.tanh_backward(gradient, y)
        teaching = gradient[taught]
        normed = ((x - mean) * scale)[taught]
        torch.sum(teaching * normed, dim=0, out=self.weight.grad)
        torch.sum(teaching, dim=0, out=self.bias.grad)
        wanted = [True, False, False]
        return torch.ops.aten.native_layer_norm_backward(
            gradient, x, x.shape[1:], mean, scale, self.weight, self.bias, wanted
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
            # Inputs first, unlike nn.Linear's: see `_turned`.
            self.weights.append(nn.Parameter(_uniform((fan_in, fan_out), fan_in, generator)))
            self.biases.append(nn.Parameter(_uniform((fan_out,), fan_in, generator)))
        self.norm = NormTanh(sizes[1]) if norm_first else None
        # The same parameters in a plain list: torch's own is slow to walk through.
        self._layers = list(zip(self.weights, self.biases, strict=True))

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, input) to (batch, output)."""
        return self.traced(x)[0]

    def traced(self, x: Tensor) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
        """Return the output for x (batch, input) and what `pull_back` needs to know of it."""
        kept: list[tuple[Tensor, ...]] = []
        last = len(self._layers) - 1
        for depth, (weight, bias) in enumerate(self._layers):
            kept.append((x,))
            if depth == 0 and self.norm is not None:
                x, seen = self.norm.traced(torch.addmm(bias, x, weight))
                kept.append(seen)
            else:
                x = torch.addmm(bias, x, weight) if depth == last else _relu(x, weight, bias)
        return x, kept

    def pull_back(
        self,
        kept: list[tuple[Tensor, ...]],
        gradient: Tensor,
        *,
        taught: slice = ALL,
        asked: tuple[slice, slice] | None = None,
    ) -> Tensor | None:
        """Write the parameters' gradients, where `flattened` put them, and return the input's.

        Args:
            kept: from `traced`; is used up.
            gradient: of the output, (batch, output).
            taught: rows that teach the parameters; the others only pass gradients through.
            asked: rows and columns of the input whose gradient is returned; None for none.
        """
        for depth in reversed(range(len(self._layers))):
            if depth == 0 and self.norm is not None:
                gradient = self.norm.pull_back(kept.pop(), gradient, taught)
            (x,) = kept.pop()
            weight, bias = self._layers[depth]
            teaching = gradient[taught]
            torch.mm(x[taught].t(), teaching, out=weight.grad)
            torch.sum(teaching, dim=0, out=bias.grad)
            if depth == 0:
                break
            gradient = gradient @ _turned(weight)
            if depth > 1 or self.norm is None:
                gradient = torch.ops.aten.threshold_backward(gradient, x, 0)
        if asked is None:
            return None
        rows, columns = asked
        return gradient[rows] @ _turned(self._layers[0][0][columns])


class Actor(nn.Module):
    """The policy: states to actions in [−1, 1] (Table 4)."""

    def __init__(
        self,
        state_size: int,
        action_size: int,
        layers: Sequence[int] = (300, 200),
        *,
        norm_first: bool = False,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        sizes = (state_size, *layers, action_size)
        self.body = MLP(sizes, norm_first=norm_first, generator=generator)

    def forward(self, state: Tensor) -> Tensor:
        """Return the actions (batch, action size) of states (batch, state size)."""
        return self.body(state).tanh_()

    def traced(self, state: Tensor) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
        """Return the actions of states and what `pull_back` needs to know of them."""
        proposal, kept = self.body.traced(state)
        action = proposal.tanh_()
        return action, [*kept, (action,)]

    def pull_back(self, kept: list[tuple[Tensor, ...]], gradient: Tensor) -> None:
        """Write the parameters' gradients from the actions' (batch, action size)."""
        (action,) = kept.pop()
        self.body.pull_back(kept, torch.ops.aten.tanh_backward(gradient, action))


class Critic(nn.Module):
    """Distribution of the return: states and actions to logits of the atoms (Table 4)."""

    def __init__(
        self,
        state_size: int,
        action_size: int,
        layers: Sequence[int] = (400, 300),
        *,
        atoms: int = 51,
        norm_first: bool = False,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        sizes = (state_size + action_size, *layers, atoms)
        self.body = MLP(sizes, norm_first=norm_first, generator=generator)
        self.state_size = state_size

    def forward(self, state: Tensor, action: Tensor) -> Tensor:
        """Return logits (batch, atoms) of the return's distribution."""
        return self.body(torch.cat([state, action], dim=1))

    def traced(
        self, state: Tensor, taken: Tensor, proposed: Tensor
    ) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
        """Return logits (2 · batch, atoms): of actions taken, then of actions proposed."""
        known = torch.cat([state, taken], dim=1)
        asked = torch.cat([state, proposed], dim=1)
        return self.body.traced(torch.cat([known, asked]))

    def pull_back(self, kept: list[tuple[Tensor, ...]], gradient: Tensor) -> Tensor:
        """Write the parameters' gradients from the actions taken; return the proposed ones'."""
        half = len(gradient) // 2
        asked = slice(half, None), slice(self.state_size, None)
        result = self.body.pull_back(kept, gradient, taught=slice(half), asked=asked)
        assert result is not None
        return result


def _relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """ReLU of x W + b; on CUDA one kernel, which autograd does not know."""
    if x.is_cuda and not torch.is_grad_enabled():
        return torch.ops.aten._addmm_activation.default(bias, x, weight)
    return torch.addmm(bias, x, weight).relu_()


def _turned(weight: Tensor) -> Tensor:
    """Wᵀ, copied on a CPU.

    On ARM CPUs a product with a transposed second factor of these sizes takes a tenth longer,
    and with one thread of several up to three times as long; a copy is cheap. It is why weights
    lie inputs first: forward passes, the targets' too, then need no transpose.
    """
    return weight.t().contiguous() if weight.device.type == "cpu" else weight.t()


def _uniform(shape: tuple[int, ...], fan_in: int, generator: torch.Generator) -> Tensor:
    """Draw from U(±1/√fan-in), which is what PyTorch's linear layers start from."""
    bound = 1 / math.sqrt(fan_in)
    return (2 * torch.rand(shape, generator=generator) - 1) * bound
