# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false, reportIndexIssue=false
"""Forward and backward pass of one network and its target on the fused kernels."""

from collections.abc import Mapping

import torch
from torch import Tensor

from pureward.agents.d4pg.network import MLP
from pureward.kernels.d4pg.layers import NORM_TANH, RELU, TANH, backward, forward
from pureward.kernels.d4pg.tiles import tile_of
from pureward.kernels.d4pg.weight_gradient import LayerData


class Passes:
    """The layers of an online network and its target, with their activations and gradients."""

    def __init__(
        self, body: MLP, batch: int, *, parts: int, to_target: int, precision: str
    ) -> None:
        """Store the sizes; `use` sets the memory.

        Args:
            body: of the online network.
            batch: rows of a part.
            parts: of the forward pass; the first gives the weight gradients, the last is the
                target's.
            to_target: offset from each parameter to the target's.
            precision: of matrix products.
        """
        self.layers = list(zip(body.weights, body.biases, strict=True))
        self.norm = body.norm
        self.batch = batch
        self.parts = parts
        self.to_target = to_target
        self.precision = precision
        self.hidden: list[Tensor] = []
        self.gradients: list[Tensor] = []
        self.normed = self.sums = self.scale = None

    def shapes(self) -> dict[str, tuple[int, int]]:
        """Return the rows and columns of the matrices that it needs, by name."""
        widths = [bias.numel() for _, bias in self.layers]
        found: dict[str, tuple[int, int]] = {}
        for depth, width in enumerate(widths):
            if depth < len(widths) - 1:
                found[f"hidden.{depth}"] = (self.parts * self.batch, width)
            found[f"gradient.{depth}"] = ((self.parts - 1) * self.batch, width)
        if self.norm is not None:
            found["normed"] = found["hidden.0"]
            tile = tile_of("backward-norm", self.batch, widths[1], widths[0])
            found["sums"] = (2 * -(-self.batch // tile.rows), widths[0])
        return found

    def use(self, matrices: Mapping[str, Tensor]) -> None:
        """Set the matrices of `shapes`."""
        count = len(self.layers)
        self.hidden = [matrices[f"hidden.{depth}"] for depth in range(count - 1)]
        self.gradients = [matrices[f"gradient.{depth}"] for depth in range(count)]
        if self.norm is not None:
            self.normed, self.sums = matrices["normed"], matrices["sums"]
            self.scale = torch.zeros(len(self.normed), device=self.normed.device)

    def forward(self, source: Tensor, out: Tensor | None = None) -> None:
        """Compute `hidden` from the inputs of all parts, and `out`, if given, with a last tanh."""
        for depth, hidden in enumerate(self.hidden):
            kind = NORM_TANH if depth == 0 and self.norm is not None else RELU
            self._forward_layer(depth, source, hidden, kind.value)
            source = hidden
        if out is not None:
            self._forward_layer(len(self.hidden), source, out, TANH.value)

    def backward(self) -> None:
        """Compute all `gradients` from the last."""
        for depth in reversed(range(len(self.hidden))):
            kind = NORM_TANH if depth == 0 and self.norm is not None else RELU
            self._backward_layer(
                self.gradients[depth + 1], self.layers[depth + 1][0], self.hidden[depth],
                self.gradients[depth], kind.value, self.parts - 1,
            )  # fmt: skip

    def input_gradient(self, columns: slice, seen: Tensor, out: Tensor) -> None:
        """Write the gradient by inputs of the second part that are outputs `seen` of a tanh."""
        outer = self.gradients[0][self.batch :]
        self._backward_layer(outer, self.layers[0][0][columns], seen, out, TANH.value, 1)

    def layer_data(self, inputs: Tensor) -> list[LayerData]:
        """Return inputs and gradients of each layer, for the network's inputs of the first part."""
        sources = [inputs, *(hidden[: self.batch] for hidden in self.hidden)]
        found = [
            LayerData(x, g[: self.batch], int(weight.storage_offset()), int(bias.storage_offset()))
            for x, g, (weight, bias) in zip(sources, self.gradients, self.layers, strict=True)
        ]
        if self.norm is not None and self.sums is not None:
            for first, parameter in enumerate((self.norm.weight, self.norm.bias)):
                offset = int(parameter.storage_offset())
                found.append(LayerData(None, self.sums[first::2], 0, offset))
        return found

    def _forward_layer(self, depth: int, source: Tensor, out: Tensor, kind: int) -> None:
        weight, bias = self.layers[depth]
        ins, outs = weight.shape
        norm = self.norm if kind == NORM_TANH.value else None
        tile = tile_of("forward-norm" if norm else "forward", self.batch, ins, outs)
        blocks = self.parts * -(-self.batch // tile.rows)
        forward[(blocks, -(-outs // tile.columns))](
            source, source.stride(0), weight, bias,
            norm and norm.weight, norm and norm.bias, self.to_target, out, out.stride(0),
            self.normed, 0 if self.normed is None else self.normed.stride(0), self.scale,
            self.batch, PARTS=self.parts, IN=ins, OUT=outs, KIND=kind, PRECISION=self.precision,
            ROWS=tile.rows, COLUMNS=tile.columns, DEPTH=tile.depth,
            num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip

    def _backward_layer(
        self, gradient: Tensor, weight: Tensor, seen: Tensor, out: Tensor, kind: int, parts: int
    ) -> None:
        outs, ins = weight.shape
        norm = self.norm if kind == NORM_TANH.value else None
        tile = tile_of("backward-norm" if norm else "backward", self.batch, ins, outs)
        blocks = parts * -(-self.batch // tile.rows)
        backward[(blocks, -(-outs // tile.columns))](
            gradient, gradient.stride(0), weight, seen, seen.stride(0),
            self.normed, 0 if self.normed is None else self.normed.stride(0), self.scale,
            norm and norm.weight, out, out.stride(0),
            self.sums, 0 if self.sums is None else self.sums.stride(0), self.batch,
            IN=ins, OUT=outs, KIND=kind, PRECISION=self.precision,
            ROWS=tile.rows, COLUMNS=tile.columns, DEPTH=tile.depth,
            num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip
