# SPDX-License-Identifier: Apache-2.0
"""Small frames that a small network can classify."""

import pytest
import torch

from pureward.rewards.network import NetworkConfig
from pureward.rewards.view import View


@pytest.fixture
def small_network() -> NetworkConfig:
    """Two stages of few channels on whole 32×32 frames: the same code, a tenth of the time."""
    return NetworkConfig(
        height=32, width=32, stage_channels=(8, 8), stage_blocks=1, view=View.off()
    )


@pytest.fixture
def scenes():
    """Draw frames with a bright square at a height, (count, 3, 32, 32) uint8, and that height."""

    def draw(count: int, seed: int, rows: tuple[int, int] = (0, 24)):
        rng = torch.Generator().manual_seed(seed)
        frames = torch.randint(0, 60, (count, 3, 32, 32), dtype=torch.uint8, generator=rng)
        top = torch.randint(*rows, (count,), generator=rng)
        left = torch.randint(0, 24, (count,), generator=rng)
        for frame, y, x in zip(frames, top.tolist(), left.tolist(), strict=True):
            frame[:, y : y + 8, x : x + 8] += 180
        return frames, top.float() / 24

    return draw
