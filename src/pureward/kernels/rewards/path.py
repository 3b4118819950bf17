# SPDX-License-Identifier: Apache-2.0
"""From stored frames to the network's output on the fused kernels."""

from dataclasses import replace

import torch
from torch import Tensor

from pureward.kernels.rewards.distortion import distorted
from pureward.kernels.rewards.head import read_out
from pureward.kernels.rewards.trunk import last_map
from pureward.rewards.network import ResidualCNN
from pureward.rewards.view import View, draw


def distorted_output(
    network: ResidualCNN,
    frames: Tensor,
    view: View,
    generator: torch.Generator | None,
) -> Tensor:
    """Return one float32 number per sample of uint8 frames in a view, in the network's mode."""
    dropout = network.config.dropout if network.training else 0.0
    for_noise = for_dropout = None
    if view.is_random or dropout > 0:
        # Noise and dropout are made inside the kernels, from a seed each a call, rather than
        # drawn and stored.
        seeds = torch.randint(2**62, (2,), device=frames.device, generator=generator)
        for_noise, for_dropout = seeds.split(1)
    silent = replace(view, noise=0.0)
    drawn = draw(frames.shape, silent, device=frames.device, generator=generator)
    packed = distorted(frames, drawn.parameters, view, for_noise)
    return read_out(last_map(network, packed), network.head, for_dropout, dropout)
