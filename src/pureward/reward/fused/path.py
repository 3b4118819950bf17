# SPDX-License-Identifier: Apache-2.0
"""From stored frames to the network's features on the fused kernels."""

from dataclasses import replace

import torch
from torch import Tensor

from pureward.reward.augment import AugmentConfig, draw
from pureward.reward.fused.distortion import distorted
from pureward.reward.fused.trunk import last_map
from pureward.reward.network import ResidualCNN


def distorted_features(
    network: ResidualCNN,
    frames: Tensor,
    config: AugmentConfig,
    generator: torch.Generator | None,
) -> Tensor:
    """Return the flattened features of distorted uint8 frames, in the order of `embed`."""
    drawn = seed = None
    if config != AugmentConfig.off():
        # Noise is made inside the kernel, from one seed a call, rather than drawn and stored.
        silent = replace(config, noise=0.0)
        drawn = draw(frames.shape, silent, device=frames.device, generator=generator)
        seed = torch.randint(2**62, (1,), device=frames.device, generator=generator)
    packed = distorted(frames, drawn, config, seed)
    features = last_map(network, packed).relu()
    return features.permute(0, 3, 1, 2).flatten(1)
