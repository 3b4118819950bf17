# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false, reportIndexIssue=false
"""The convolutional part of Table 3's network on the fused kernels, forward and backward."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pureward.errors import InputError
from pureward.reward.fused.convolution import convolve, convolve_and_pool, weight_gradient
from pureward.reward.fused.distortion import image_slots
from pureward.reward.fused.tiles import SHARES, tile_of
from pureward.reward.network import NetworkConfig, ResidualCNN

# Matrix units take depths of 16 and 32, so maps have 8, 16, 32 or 64 channels.
WIDTHS = (8, 16, 32, 64)


class Layer(NamedTuple):
    """One convolution: reduced-precision weight (out, 3, 3, in), float32 bias."""

    weight: Tensor
    bias: Tensor

    @property
    def source(self) -> int:
        """Channels in."""
        return self.weight.shape[3]

    @property
    def target(self) -> int:
        """Channels out."""
        return self.weight.shape[0]


class Saved(NamedTuple):
    """Maps a backward pass needs: of a pooling convolution, or of a residual block."""

    source: Tensor
    other: Tensor
    """Which pixel of each four won the pool, or the block's hidden map."""


def supports(config: NetworkConfig) -> bool:
    """Tell whether the kernels cover a network's channels."""
    depth = 4 * image_slots(config.frame_channels // 3)
    return depth in WIDTHS and all(c in WIDTHS[1:] for c in config.stage_channels)


def layers_of(network: ResidualCNN, dtype: torch.dtype = torch.bfloat16) -> list[Layer]:
    """Return the convolutions in order of use, cast and in kernel layout."""
    convolutions = [m for m in network.stages.modules() if isinstance(m, torch.nn.Conv2d)]
    return prepared([c.weight for c in convolutions], [c.bias for c in convolutions], dtype)


def prepared(
    weights: Sequence[Tensor], biases: Sequence[Tensor | None], dtype: torch.dtype
) -> list[Layer]:
    """Cast weights to (out, 3, 3, in); the first gets zeros for the channels frames lack."""
    first, rest = weights[0].detach(), [weight.detach() for weight in weights[1:]]
    images = first.shape[1] // 3
    entry = first.new_zeros(first.shape[0], 3, 3, image_slots(images), 4, dtype=dtype)
    entry[..., :images, :3] = first.permute(0, 2, 3, 1).unflatten(3, (images, 3))
    entry = entry.flatten(3)
    layout = torch.channels_last
    cast = [torch.empty_like(weight, dtype=dtype, memory_format=layout) for weight in rest]
    torch._foreach_copy_(cast, rest)  # pyright: ignore[reportPrivateImportUsage]
    ordered = [entry, *(weight.permute(0, 2, 3, 1) for weight in cast)]
    return [Layer(w, b.detach()) for w, b in zip(ordered, biases, strict=True) if b is not None]


def embedded(
    x: Tensor, layers: Sequence[Layer], blocks: int, keep: bool
) -> tuple[Tensor, list[Saved]]:
    """Run all stages on (batch, height, width, channels); return the last map and what to keep."""
    if x.shape[:3].numel() * WIDTHS[-1] >= 2**31:
        raise InputError(
            f"the fused kernels count in 32 bits, got {x.shape[0]} frames at once; "
            "lower the batch size"
        )
    saved: list[Saved] = []
    per_stage = 1 + 2 * blocks
    for at in range(0, len(layers), per_stage):
        entry, *inner = layers[at : at + per_stage]
        before = x
        x, winner = _pooled(x, entry)
        if keep:
            saved.append(Saved(before, winner))
        for first, second in zip(inner[::2], inner[1::2], strict=True):
            hidden = _convolved(x, first, relu_in=True, relu_out=True)
            before = x
            x = _convolved(hidden, second, added=x)
            if keep:
                saved.append(Saved(before, hidden))
    return x, saved


def gradients(
    g: Tensor, layers: Sequence[Layer], saved: list[Saved], blocks: int
) -> list[tuple[Tensor, Tensor]]:
    """Return each layer's gradients, by weight (out, 3, 3, in) and bias, from the map's."""
    sizes = [layer.weight.numel() + layer.target for layer in layers]
    offsets = [sum(sizes[:i]) for i in range(len(sizes))]
    partial = g.new_empty(SHARES, sum(sizes), dtype=torch.float32)

    def sum_share(at: int, source: Tensor, gradient: Tensor, **how) -> None:
        _weight_gradient(source, gradient, layers[at], partial[:, offsets[at] :], **how)

    at, maps = len(layers), list(saved)
    while at:
        for _ in range(blocks):
            block = maps.pop()
            sum_share(at - 1, block.other, g)
            hidden = _convolved(g, layers[at - 1], transposed=True, gate=block.other)
            sum_share(at - 2, block.source, hidden, relu_in=True)
            g = _convolved(hidden, layers[at - 2], transposed=True, gate=block.source, added=g)
            at -= 2
        entry = maps.pop()
        at -= 1
        sum_share(at, entry.source, g, winner=entry.other)
        if at:
            g = _convolved(g, layers[at], transposed=True, winner=entry.other)
    flat = partial.sum(0)
    return [
        _split(flat[o : o + s], layer) for o, s, layer in zip(offsets, sizes, layers, strict=True)
    ]


def _split(flat: Tensor, layer: Layer) -> tuple[Tensor, Tensor]:
    return flat[: layer.weight.numel()].view(layer.weight.shape), flat[layer.weight.numel() :]


def _convolved(
    source: Tensor,
    layer: Layer,
    *,
    transposed: bool = False,
    winner: Tensor | None = None,
    gate: Tensor | None = None,
    added: Tensor | None = None,
    relu_in: bool = False,
    relu_out: bool = False,
) -> Tensor:
    batch, height, width, depth = source.shape
    if winner is not None:
        height, width = 2 * height, 2 * width
    outward = layer.source if transposed else layer.target
    target = source.new_empty(batch, height, width, outward)
    pixels = batch * height * width
    kernel = "unpool" if winner is not None else "transpose" if transposed else "convolve"
    tile = tile_of(kernel, depth, outward)
    convolve[(-(-pixels // tile.block),)](
        source, winner, layer.weight, layer.bias, added, gate, target, pixels,
        HEIGHT=height, WIDTH=width, SOURCE=depth, TARGET=outward,
        TRANSPOSED=transposed, UNPOOL=winner is not None, RELU_IN=relu_in,
        BIAS=not transposed, ADD=added is not None, GATE=gate is not None, RELU_OUT=relu_out,
        BLOCK=tile.block, TAPS=tile.taps, STAGES=tile.stages, num_warps=tile.warps,
    )  # fmt: skip
    return target


def _pooled(source: Tensor, layer: Layer) -> tuple[Tensor, Tensor]:
    batch, height, width, depth = source.shape
    target = source.new_empty(batch, height // 2, width // 2, layer.target)
    winner = torch.empty_like(target, dtype=torch.uint8)
    pixels = target.numel() // layer.target
    tile = tile_of("pool", depth, layer.target)
    convolve_and_pool[(-(-pixels // tile.block),)](
        source, layer.weight, layer.bias, target, winner, pixels,
        HEIGHT=height, WIDTH=width, SOURCE=depth, TARGET=layer.target,
        BLOCK=tile.block, TAPS=tile.taps, STAGES=tile.stages, num_warps=tile.warps,
    )  # fmt: skip
    return target, winner


def _weight_gradient(
    source: Tensor,
    gradient: Tensor,
    layer: Layer,
    partial: Tensor,
    *,
    winner: Tensor | None = None,
    relu_in: bool = False,
) -> None:
    batch, height, width, depth = source.shape
    pixels = batch * height * width
    tile = tile_of("weight" if winner is None else "pooled-weight", depth, layer.target)
    steps = -(-pixels // (SHARES * tile.block))
    weight_gradient[(SHARES, 3)](
        source, gradient, winner, partial, pixels, partial.stride(0),
        HEIGHT=height, WIDTH=width, SOURCE=depth, TARGET=layer.target,
        UNPOOL=winner is not None, RELU_IN=relu_in, STEPS=steps,
        BLOCK=tile.block, STAGES=tile.stages, num_warps=tile.warps,
    )  # fmt: skip


class _Trunk(torch.autograd.Function):
    """Frames (batch, height, width, channels) to the last map, differentiable by the weights."""

    @staticmethod
    def forward(ctx, frames: Tensor, blocks: int, count: int, *parameters: Tensor):
        weights, biases = parameters[:count], parameters[count:]
        layers = prepared(weights, biases, frames.dtype)
        x, saved = embedded(frames, layers, blocks, keep=True)
        # Neither input nor output, so kept by hand rather than by save_for_backward.
        ctx.kept = (layers, saved, blocks)
        ctx.depth = weights[0].shape[1]
        return x

    @staticmethod
    def backward(ctx, *outer: Tensor):
        layers, saved, blocks = ctx.kept
        pairs = gradients(outer[0].contiguous(), layers, saved, blocks)
        by_weight = [weight.permute(0, 3, 1, 2) for weight, _ in pairs]
        # Of the first layer, only the channels that frames have.
        by_weight[0] = by_weight[0].unflatten(1, (-1, 4))[:, : ctx.depth // 3, :3].flatten(1, 2)
        return None, None, None, *by_weight, *(bias for _, bias in pairs)


def last_map(network: ResidualCNN, frames: Tensor) -> Tensor:
    """Return the network's last map (batch, height, width, channels), before its final ReLU.

    Args:
        network: channels-last, of channels that `supports` accepts.
        frames: (batch, height, width, padded channels) bfloat16 in [0, 1].
    """
    if not torch.is_grad_enabled():
        layers = layers_of(network, frames.dtype)
        return embedded(frames, layers, network.config.stage_blocks, keep=False)[0]
    convolutions = [m for m in network.stages.modules() if isinstance(m, torch.nn.Conv2d)]
    weights = [c.weight for c in convolutions]
    biases = [c.bias for c in convolutions]
    return _Trunk.apply(frames, network.config.stage_blocks, len(weights), *weights, *biases)  # type: ignore[return-value]
