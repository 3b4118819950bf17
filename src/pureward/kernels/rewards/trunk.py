# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false, reportIndexIssue=false
"""The convolutional part of Table 3's network on the fused kernels, forward and backward."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pureward.errors import InputError
from pureward.kernels.rewards.convolution import convolve
from pureward.kernels.rewards.spread import Layer, padded_depth, spread_layers
from pureward.kernels.rewards.tiles import tile_of
from pureward.kernels.rewards.weights import WeightSums
from pureward.rewards.network import NetworkConfig, ResidualCNN

# Matrix units take depths of 16 and 32, so maps have 8, 16, 32 or 64 channels.
WIDTHS = (8, 16, 32, 64)


class Saved(NamedTuple):
    """Maps for the backward pass: of a pooling convolution, or of a residual block."""

    source: Tensor
    other: Tensor
    """The place of the largest pixel of each cell, or the block's hidden map."""


def supports(config: NetworkConfig) -> bool:
    """Return whether the kernels support a network's channels and sides."""
    depth = padded_depth(config.frame_channels)
    widths = depth in WIDTHS and all(c in WIDTHS[1:] for c in config.stage_channels)
    side = 2 * 2 ** len(config.stage_channels)  # cells of 2×2 pixels must cover the last map too
    return widths and config.height % side == config.width % side == 0


def run_stages(
    x: Tensor, layers: Sequence[Layer], blocks: int, keep: bool
) -> tuple[Tensor, list[Saved]]:
    """Run all stages on (batch, height, width, channels); return the last map and saved maps."""
    if x.shape[:3].numel() * WIDTHS[-1] >= 2**31:
        raise InputError(
            f"the fused kernels use 32-bit offsets, too few for {x.shape[0]} frames at once; "
            "lower the batch size"
        )
    saved: list[Saved] = []
    per_stage = 1 + 2 * blocks
    for at in range(0, len(layers), per_stage):
        entry, *inner = layers[at : at + per_stage]
        before = x
        x, winner = pooled(x, entry, keep)
        if winner is not None:
            saved.append(Saved(before, winner))
        for first, second in zip(inner[::2], inner[1::2], strict=True):
            hidden = convolved(x, first, relu_in=True, relu_out=True)
            before = x
            x = convolved(hidden, second, added=x)
            if keep:
                saved.append(Saved(before, hidden))
    return x, saved


def gradients(
    g: Tensor, layers: Sequence[Layer], saved: list[Saved], blocks: int
) -> list[tuple[Tensor, Tensor]]:
    """Return each layer's gradients by weight (out, 3, 3, in) and bias, from the last map's."""
    per_stage = 1 + 2 * blocks
    sums = WeightSums(layers, [at % per_stage == 0 for at in range(len(layers))], g)
    at, maps = len(layers), list(saved)
    while at:
        for _ in range(blocks):
            block = maps.pop()
            sums.add(at - 1, block.other, g)
            hidden = input_gradient(g, layers[at - 1], gate=block.other)
            sums.add(at - 2, block.source, hidden, relu_in=True)
            g = input_gradient(hidden, layers[at - 2], gate=block.source, added=g)
            at -= 2
        entry = maps.pop()
        at -= 1
        sums.add(at, entry.source, g, winner=entry.other)
        if at:
            g = input_gradient(g, layers[at], winner=entry.other)
    return sums.totals()


def convolved(
    source: Tensor,
    layer: Layer,
    *,
    added: Tensor | None = None,
    relu_in: bool = False,
    relu_out: bool = False,
) -> Tensor:
    """Return the convolution of a map, with ReLU before or after it and a residual."""
    target = source.new_empty(*source.shape[:3], layer.target)
    _launch(
        "convolve", source, layer.forward, target, target.shape[1:3],
        bias=layer.bias, added=added, relu_in=relu_in, relu_out=relu_out,
    )  # fmt: skip
    return target


def pooled(source: Tensor, layer: Layer, keep: bool) -> tuple[Tensor, Tensor | None]:
    """Return the max-pooled convolution of a map and, to keep, the place of each maximum."""
    batch, height, width, _ = source.shape
    target = source.new_empty(batch, height // 2, width // 2, layer.target)
    won = torch.empty_like(target, dtype=torch.uint8) if keep else None
    _launch("pool", source, layer.forward, target, (height, width), bias=layer.bias, won=won)
    return target, won


def input_gradient(
    gradient: Tensor,
    layer: Layer,
    *,
    winner: Tensor | None = None,
    gate: Tensor | None = None,
    added: Tensor | None = None,
) -> Tensor:
    """Return the gradient by a layer's input, with the ReLU's mask and the residual's gradient."""
    batch, height, width, _ = gradient.shape
    if winner is not None:
        height, width = 2 * height, 2 * width
    target = gradient.new_empty(batch, height, width, layer.source)
    _launch(
        "transpose" if winner is None else "unpool", gradient, layer.backward, target,
        (height, width), winner=winner, gate=gate, added=added,
    )  # fmt: skip
    return target


def _launch(
    kernel: str,
    source: Tensor,
    weight: Tensor | None,
    target: Tensor,
    sides: Sequence[int],
    *,
    winner: Tensor | None = None,
    bias: Tensor | None = None,
    gate: Tensor | None = None,
    added: Tensor | None = None,
    won: Tensor | None = None,
    relu_in: bool = False,
    relu_out: bool = False,
) -> None:
    cells = source.shape[0] * sides[0] * sides[1] // 4
    depth, outward = source.shape[3], target.shape[3]
    tile = tile_of(kernel, depth, outward, cells)
    convolve[(-(-cells // tile.block),)](
        source, winner, weight, bias, added, gate, target, won, cells,
        HEIGHT=sides[0], WIDTH=sides[1], SOURCE=depth, TARGET=outward,
        UNPOOL=winner is not None, RELU_IN=relu_in, BIAS=bias is not None,
        GATE=gate is not None, ADD=added is not None, RELU_OUT=relu_out,
        POOL=kernel == "pool", PLACE=won is not None,
        BLOCK=tile.block, TAPS=tile.taps, STAGES=tile.stages, num_warps=tile.warps,
    )  # fmt: skip


class _Trunk(torch.autograd.Function):
    """Frames (batch, height, width, channels) to the last map, differentiable by the weights."""

    @staticmethod
    def forward(ctx, frames: Tensor, blocks: int, count: int, *parameters: Tensor):
        weights, biases = parameters[:count], parameters[count:]
        layers = spread_layers(weights, biases, frames.dtype, backward=True)
        x, saved = run_stages(frames, layers, blocks, keep=True)
        # save_for_backward takes only inputs and outputs.
        ctx.kept = (layers, saved, blocks)
        ctx.images = weights[0].shape[1] // 3
        return x

    @staticmethod
    def backward(ctx, *outer: Tensor):
        layers, saved, blocks = ctx.kept
        pairs = gradients(outer[0].contiguous(), layers, saved, blocks)
        by_weight = [weight for weight, _ in pairs]
        # Drop the padding channels of the first layer.
        by_weight[0] = by_weight[0].unflatten(3, (-1, 4))[..., : ctx.images, :3].flatten(3)
        channels_first = (weight.permute(0, 3, 1, 2) for weight in by_weight)
        return None, None, None, *channels_first, *(bias for _, bias in pairs)


def last_map(network: ResidualCNN, frames: Tensor) -> Tensor:
    """Return the network's last map (batch, height, width, channels), before its final ReLU.

    Args:
        network: channels-last, of channels that `supports` accepts.
        frames: (batch, height, width, padded channels) bfloat16 in [0, 1].
    """
    convolutions = [m for m in network.modules() if isinstance(m, torch.nn.Conv2d)]
    weights = [c.weight for c in convolutions]
    biases = [c.bias for c in convolutions if c.bias is not None]
    blocks = network.config.stage_blocks
    if not torch.is_grad_enabled():
        layers = spread_layers(weights, biases, frames.dtype, backward=False)
        return run_stages(frames, layers, blocks, keep=False)[0]
    return _Trunk.apply(frames, blocks, len(weights), *weights, *biases)  # type: ignore[return-value]
