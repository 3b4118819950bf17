# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false, reportIndexIssue=false
# ruff: noqa: N803 - capitals are Triton's compile-time constants
"""ReLU, dropout and the linear read-out of the last map, one kernel per direction.

The dropout mask is computed from a seed in both directions and never stored. Features are
stored by (pixel, channel), the read-out's weight by (channel, pixel) as in `ResidualCNN`.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024  # features per step of the forward pass
FEATURES = 16  # features per program of the backward pass
SAMPLES = 64  # samples per step of the backward pass


@triton.jit
def _kept(seed, sample, feature, FEATURES: tl.constexpr, KEEP: tl.constexpr):
    """Dropout factors: 1 / KEEP with probability KEEP, else 0."""
    return tl.where(tl.rand(tl.load(seed), sample * FEATURES + feature) < KEEP, 1 / KEEP, 0.0)


@triton.jit
def read_out_forward(
    features,
    weight,
    bias,
    seed,
    out,
    PIXELS: tl.constexpr,
    CHANNELS: tl.constexpr,
    KEEP: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The output of one sample."""
    size: tl.constexpr = PIXELS * CHANNELS
    sample = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, size, BLOCK):
        feature = start + tl.arange(0, BLOCK)
        here = feature < size
        x = tl.load(features + sample * size + feature, mask=here, other=0.0).to(tl.float32)
        at = feature % CHANNELS * PIXELS + feature // CHANNELS
        w = tl.load(weight + at, mask=here, other=0.0)
        if KEEP < 1:
            w *= _kept(seed, sample, feature, size, KEEP)
        total += tl.maximum(x, 0.0) * w
    tl.store(out + sample, tl.sum(total, 0) + tl.load(bias))


@triton.jit
def read_out_backward(
    features,
    weight,
    seed,
    outer,
    by_features,
    by_weight,
    by_bias,
    PIXELS: tl.constexpr,
    CHANNELS: tl.constexpr,
    KEEP: tl.constexpr,
    BATCH: tl.constexpr,
    FEATURES: tl.constexpr,
    SAMPLES: tl.constexpr,
):
    """Gradients by some features of every sample, by their weights, and by the bias."""
    size: tl.constexpr = PIXELS * CHANNELS
    feature = tl.program_id(0) * FEATURES + tl.arange(0, FEATURES)
    at_weight = feature % CHANNELS * PIXELS + feature // CHANNELS
    w = tl.load(weight + at_weight)[None, :]
    total = tl.zeros((SAMPLES, FEATURES), tl.float32)
    whole = tl.zeros((SAMPLES,), tl.float32)
    for start in range(0, BATCH, SAMPLES):
        sample = start + tl.arange(0, SAMPLES)
        here = (sample < BATCH)[:, None]
        g = tl.load(outer + sample, mask=sample < BATCH, other=0.0)
        whole += g
        at = sample[:, None] * size + feature[None, :]
        x = tl.load(features + at, mask=here, other=0.0).to(tl.float32)
        kept = g[:, None]
        if KEEP < 1:
            kept *= _kept(seed, sample[:, None], feature[None, :], size, KEEP)
        by_x = tl.where(x > 0, kept * w, 0.0)
        tl.store(by_features + at, by_x.to(by_features.dtype.element_ty), mask=here)
        total += kept * tl.maximum(x, 0.0)
    tl.store(by_weight + at_weight, tl.sum(total, 0))
    if tl.program_id(0) == 0:
        tl.store(by_bias, tl.sum(whole, 0))


class _ReadOut(torch.autograd.Function):
    """The read-out, differentiable by the map and its parameters."""

    @staticmethod
    def forward(ctx, features: Tensor, weight: Tensor, bias: Tensor, seed: Tensor, keep: float):
        batch, height, width, channels = features.shape
        out = torch.empty(batch, dtype=torch.float32, device=features.device)
        read_out_forward[(batch,)](
            features, weight, bias, seed, out,
            PIXELS=height * width, CHANNELS=channels, KEEP=keep, BLOCK=BLOCK,
        )  # fmt: skip
        ctx.save_for_backward(features, weight, seed)
        ctx.keep = keep
        return out

    @staticmethod
    def backward(ctx, *outer: Tensor):
        features, weight, seed = ctx.saved_tensors
        batch, height, width, channels = features.shape
        by_features, by_weight = torch.empty_like(features), torch.empty_like(weight)
        by_bias = torch.empty(1, dtype=torch.float32, device=features.device)
        read_out_backward[(height * width * channels // FEATURES,)](
            features, weight, seed, outer[0].contiguous(), by_features, by_weight, by_bias,
            PIXELS=height * width, CHANNELS=channels, KEEP=ctx.keep, BATCH=batch,
            FEATURES=FEATURES, SAMPLES=SAMPLES,
        )  # fmt: skip
        return by_features, by_weight, by_bias, None, None


def read_out(last: Tensor, head: torch.nn.Linear, seed: Tensor | None, dropout: float) -> Tensor:
    """Return one float32 number per sample, (batch,), from the last map.

    Args:
        last: (batch, height, width, channels) before its ReLU, channels a multiple of 16.
        head: one output, float32.
        seed: (1,) int64 on the device, of the dropout mask; may be None without dropout.
        dropout: share of the features dropped, 0 in evaluation.
    """
    unread = last if seed is None else seed  # never read without dropout
    return _ReadOut.apply(last, head.weight, head.bias, unread, 1 - dropout)  # type: ignore[return-value]
