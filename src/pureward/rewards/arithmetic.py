# SPDX-License-Identifier: Apache-2.0
"""Run a network on frames in the fastest arithmetic of the device.

float32 is the reference, and the only one on a CPU. bfloat16 uses torch's convolutions on CUDA.
"fused" is our CUDA kernels (`kernels/rewards`), also in bfloat16. "auto" uses them if they agree
with float32 on this machine. docs/results.md says how far they differ.
"""

from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import Literal, cast, get_args

import torch
from torch import Tensor

from pureward.errors import InputError
from pureward.rewards.network import (
    NETWORKS,
    FrameNetwork,
    NetworkConfig,
    ResidualCNN,
    check_stored,
)
from pureward.rewards.view import View, viewed
from pureward.types import check_current

Arithmetic = Literal["auto", "float32", "bfloat16", "fused"]


def logits(
    network: FrameNetwork,
    frames: Tensor,
    arithmetic: Arithmetic = "auto",
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return one float32 number per sample, (batch,).

    Args:
        network: in training mode it drops features.
        frames: (batch, channels, height, width) uint8.
        arithmetic: "auto" for the fastest that supports this network on this device.
        generator: for random views as in training, and for dropout; None scores the fixed view.
    """
    check_stored(frames)
    network.check_frames(frames)
    view = network.config.view if generator is not None else network.config.view.scored
    chosen = resolved(arithmetic, network.config, frames.device)
    if chosen == "fused":
        from pureward.kernels.rewards.path import distorted_output

        return distorted_output(cast(ResidualCNN, network), frames, view, generator)
    inputs = frames if view == View.off() else viewed(frames, view, generator)
    with torch.autocast("cuda", torch.bfloat16, enabled=chosen == "bfloat16"):
        features = network.embed(inputs)
    return network.read_out(features, generator)


def in_batches(
    score: Callable[[Tensor], Tensor],
    frames: Tensor,
    batch_size: int | None,
    device: torch.device,
) -> Tensor:
    """Return `score` of all uint8 frames, computed batch by batch on the device.

    By default a batch is 4,096 frames of 64×64 on CUDA and 1,024 elsewhere, fewer of larger ones.
    """
    check_stored(frames)
    if batch_size is None:
        pixels = 2**24 if device.type == "cuda" else 2**22
        batch_size = max(1, pixels // max(1, frames.shape[2] * frames.shape[3]))
    elif batch_size < 1:
        raise InputError(f"batch_size must be at least 1, got {batch_size}; leave it out")
    if frames.shape[0] == 0:
        return torch.empty(0, device=device)
    parts = [score(part.to(device, non_blocking=True)) for part in frames.split(batch_size)]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def usable_device(device: torch.device | str) -> torch.device:
    """Return the device; raise `InputError` if it cannot compute here."""
    try:
        place = torch.device(device)
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise InputError(
            f"device {str(device)!r} cannot compute here ({str(error).splitlines()[0]}); use 'cpu'"
        ) from error
    return check_current(place)


@lru_cache(maxsize=64)
def resolved(arithmetic: Arithmetic, config: NetworkConfig, device: torch.device) -> Arithmetic:
    """Return the arithmetic for a network on a device; raise `InputError` if it cannot run."""
    if arithmetic not in get_args(Arithmetic):
        raise InputError(f"unknown arithmetic {arithmetic!r}; choose from {get_args(Arithmetic)}")
    on_cuda = device.type == "cuda"
    if arithmetic == "auto":
        if not on_cuda:
            return "float32"
        return "fused" if _fused_covers(config) and _fused_agrees(config, device) else "bfloat16"
    if arithmetic != "float32" and not on_cuda:
        raise InputError(f"{arithmetic} arithmetic needs a CUDA device, got {device}; use 'auto'")
    if arithmetic == "fused" and not _fused_covers(config):
        raise InputError(
            "fused kernels need Triton, at most 48 frame channels, stages of 16, 32 or 64 channels "
            f"and even sides after the last stage, got {config.frame_channels}, "
            f"{config.stage_channels} and {config.height}×{config.width} pixels; use 'auto'"
        )
    return arithmetic


def _fused_covers(config: NetworkConfig) -> bool:
    if not NETWORKS[config.kind].fused or find_spec("triton") is None:
        return False
    from pureward.kernels.rewards.trunk import supports

    return supports(config)


def _fused_agrees(config: NetworkConfig, device: torch.device) -> bool:
    from pureward.kernels.rewards.path import distorted_output
    from pureward.kernels.rewards.risk import differentiated
    from pureward.kernels.rewards.verify import agrees

    return agrees(
        config,
        device,
        lambda network, frames: distorted_output(network, frames, config.view.scored, None),
        differentiated,
    )
