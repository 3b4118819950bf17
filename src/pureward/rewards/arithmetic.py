# SPDX-License-Identifier: Apache-2.0
"""Runs the network on frames in the fastest arithmetic their device has.

float32 is the reference, and all that a CPU has. bfloat16 is torch's own convolutions on CUDA.
"fused" is our kernels on CUDA (`kernels/rewards`), also in bfloat16. "auto" uses them after they
agreed with float32 on this machine. docs/results.md says how far they differ.
"""

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

Arithmetic = Literal["auto", "float32", "bfloat16", "fused"]


def logits(network: FrameNetwork, frames: Tensor, arithmetic: Arithmetic = "auto") -> Tensor:
    """Return one float32 number per sample of uint8 frames, as the network scores them."""
    return _logits(network, frames, network.config.view.scored, None, arithmetic)


def random_logits(
    network: FrameNetwork,
    frames: Tensor,
    generator: torch.Generator,
    arithmetic: Arithmetic = "auto",
) -> Tensor:
    """Return one float32 number per sample of uint8 frames, seen as in training.

    Args:
        network: in training mode it drops features, in evaluation mode not.
        frames: (batch, channels, height, width) uint8.
        generator: of the random view and of dropout.
        arithmetic: "auto" for the fastest that covers this network on this device.
    """
    return _logits(network, frames, network.config.view, generator, arithmetic)


def _logits(
    network: FrameNetwork,
    frames: Tensor,
    view: View,
    generator: torch.Generator | None,
    arithmetic: Arithmetic,
) -> Tensor:
    check_stored(frames)
    network.check_frames(frames)
    chosen = resolved(arithmetic, network.config, frames.device)
    if chosen == "fused":
        from pureward.kernels.rewards.path import distorted_output

        return distorted_output(cast(ResidualCNN, network), frames, view, generator)
    inputs = frames if view == View.off() else viewed(frames, view, generator)
    with torch.autocast("cuda", torch.bfloat16, enabled=chosen == "bfloat16"):
        features = network.embed(inputs)
    return network.read_out(features, generator)


def usable_device(device: torch.device | str) -> torch.device:
    """Return the device, if this machine has it."""
    try:
        place = torch.device(device)
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise InputError(
            f"device {str(device)!r} cannot compute here ({str(error).splitlines()[0]}); use 'cpu'"
        ) from error
    return place


@lru_cache(maxsize=64)
def resolved(arithmetic: Arithmetic, config: NetworkConfig, device: torch.device) -> Arithmetic:
    """Return what "auto" means for a network on a device; refuse what cannot run there."""
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
            f"fused kernels need Triton, at most 48 frame channels and stages of 16, 32 or 64 "
            f"channels, got {config.frame_channels} and {config.stage_channels}; use 'auto'"
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
