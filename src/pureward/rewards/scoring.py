# SPDX-License-Identifier: Apache-2.0
"""Scoring many frames in batches of a size the device likes."""

from collections.abc import Callable

import torch
from torch import Tensor

from pureward.errors import InputError
from pureward.rewards.network import check_stored


def in_batches(
    score: Callable[[Tensor], Tensor], frames: Tensor, batch_size: int, device: torch.device
) -> Tensor:
    """Return `score` of all frames as stored, computed batch by batch on the device."""
    check_stored(frames)
    if batch_size < 1:
        raise InputError(f"batch_size must be at least 1, got {batch_size}; 1024 suits a GPU")
    if frames.shape[0] == 0:
        return torch.empty(0, device=device)
    parts = [score(part.to(device, non_blocking=True)) for part in frames.split(batch_size)]
    return parts[0] if len(parts) == 1 else torch.cat(parts)
