# SPDX-License-Identifier: Apache-2.0
"""From stored frames to the network's output on the fused kernels."""

from dataclasses import replace

import torch
from torch import Tensor

from pureward.reward.augment import AugmentConfig, draw
from pureward.reward.fused.distortion import distorted
from pureward.reward.fused.head import read_out
from pureward.reward.fused.trunk import last_map
from pureward.reward.network import ResidualCNN


def distorted_output(
    network: ResidualCNN,
    frames: Tensor,
    config: AugmentConfig,
    generator: torch.Generator | None,
) -> Tensor:
    """Return one float32 number per sample of distorted uint8 frames, in the network's mode."""
    dropout = network.config.dropout if network.training else 0.0
    drawn = for_noise = for_dropout = None
    if config != AugmentConfig.off() or dropout > 0:
        # Noise and dropout are made inside the kernels, from a seed each a call, rather than
        # drawn and stored.
        seeds = torch.randint(2**62, (2,), device=frames.device, generator=generator)
        for_noise, for_dropout = seeds.split(1)
    if config != AugmentConfig.off():
        silent = replace(config, noise=0.0)
        drawn = draw(frames.shape, silent, device=frames.device, generator=generator)
    packed = distorted(frames, drawn, config, for_noise)
    return read_out(last_map(network, packed), network.head, for_dropout, dropout)
