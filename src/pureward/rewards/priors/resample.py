# SPDX-License-Identifier: Apache-2.0
"""Scores weighed by trajectory: one row of weights for each resample of a bootstrap.

Frames of one trajectory are near copies of each other, so an interval that resampled frames
would be far too narrow. Every resample draws a weight from the exponential distribution for
each trajectory (Rubin's Bayesian bootstrap), which needs no count of them on the host: an
estimator that works on weighted means takes all resamples in one pass.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from pureward.errors import InputError
from pureward.types import checked_tensor


class Sample(NamedTuple):
    """Scores of frames of one kind, and how much each counts in every resample."""

    logits: Tensor
    """(n,) float64, high for a success."""
    weights: Tensor
    """(rows, n) float64, each row of sum 1; in the first all frames count alike."""
    episodes: Tensor
    """0-d, how many trajectories the frames are of."""


def resampled(
    name: str, logits: Tensor, episodes: Tensor, resamples: int, generator: torch.Generator
) -> Sample:
    """Return scores with weights for `resamples` resamples of their trajectories.

    Args:
        name: what they are of, for the sentence about what is wrong with them.
        logits: (n,) scores.
        episodes: (n,) int64, the trajectory of each; any labels.
        resamples: rows of weights after the first.
        generator: on the logits' device.
    """
    checked_tensor(logits, f"{name} logits must be a tensor")
    checked_tensor(episodes, f"episodes of {name} logits must be a tensor")
    if logits.dim() != 1 or len(logits) == 0 or logits.shape != episodes.shape:
        raise InputError(
            f"an estimate needs {name} logits and their episodes, both of shape (n,) with n ≥ 1, "
            f"got {tuple(logits.shape)} and {tuple(episodes.shape)}; score some frames"
        )
    if episodes.is_floating_point() or episodes.is_complex():
        raise InputError(
            f"episodes of {name} logits must be whole numbers, got "
            f"{str(episodes.dtype).removeprefix('torch.')}; cast them to int64"
        )
    trajectory = numbered(episodes)
    by_trajectory = torch.empty(
        (resamples, len(logits)), dtype=torch.float64, device=logits.device
    ).exponential_(generator=generator)
    alike = torch.ones((1, len(logits)), dtype=torch.float64, device=logits.device)
    weights = torch.cat([alike, by_trajectory[:, trajectory]])
    return Sample(logits.double(), weights / weights.sum(1, keepdim=True), trajectory.max() + 1)


def numbered(episodes: Tensor) -> Tensor:
    """Return labels as numbers from 0 in their order, without asking the device how many."""
    in_order, order = episodes.sort()
    is_new = torch.zeros_like(in_order)
    is_new[1:] = in_order[1:] != in_order[:-1]
    return torch.empty_like(order).scatter_(0, order, is_new.cumsum(0))


def interval(rows: Tensor, share: float = 0.95) -> tuple[Tensor, Tensor]:
    """Return the ends of an interval about the first of the estimates, which are within [0, 1].

    The middle share of the resampled estimates is where they lie about their own truth, the first
    estimate. They may err as that one does, or the other way round: a resampled minimum, for one,
    is low by chance where the minimum itself was, and no share above 1 can be drawn if the truth
    is 1. So the interval holds them and their mirror image about the first estimate.
    """
    tail = (1 - share) / 2
    low, high = torch.quantile(rows[1:], rows.new_tensor([tail, 1 - tail]))
    mirrored_low, mirrored_high = 2 * rows[0] - high, 2 * rows[0] - low
    low, high = torch.minimum(low, mirrored_low), torch.maximum(high, mirrored_high)
    return low.clamp(min=0), high.clamp(max=1)


def auc(positive: Tensor, unlabeled: Tensor) -> Tensor:
    """Return the chance that a positive scores above an unlabeled; a tie counts one half."""
    ranked = unlabeled.sort().values
    below = torch.searchsorted(ranked, positive, side="left")
    not_above = torch.searchsorted(ranked, positive, side="right")
    return (below + not_above).double().mean() / (2 * len(unlabeled))
