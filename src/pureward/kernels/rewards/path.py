# SPDX-License-Identifier: Apache-2.0
"""The network's output from stored frames on the fused kernels."""

from dataclasses import replace

import torch
from torch import Tensor

from pureward.kernels.rewards.distortion import distorted
from pureward.kernels.rewards.head import read_out
from pureward.kernels.rewards.trunk import last_map
from pureward.rewards.network import ResidualCNN
from pureward.rewards.view import View, sample_distortions


def distorted_output(
    network: ResidualCNN,
    frames: Tensor,
    view: View,
    generator: torch.Generator | None,
) -> Tensor:
    """Return one float32 number per frame, (batch,), after the distortions of a view.

    Args:
        network: in training mode, with dropout, or in evaluation mode.
        frames: (batch, channels, height, width) uint8.
        view: the distortions.
        generator: of distortions and dropout; None for torch's own.
    """
    dropout = network.config.dropout if network.training else 0.0
    for_noise = for_dropout = None
    if view.is_random or dropout > 0:
        # The kernels compute noise and dropout from a seed per call instead of reading them.
        seeds = torch.randint(2**62, (2,), device=frames.device, generator=generator)
        for_noise, for_dropout = seeds.split(1)
    silent = replace(view, noise=0.0)
    distortions = sample_distortions(
        frames.shape, silent, device=frames.device, generator=generator
    )
    packed = distorted(frames, distortions.parameters, view, for_noise)
    return read_out(last_map(network, packed), network.head, for_dropout, dropout)
