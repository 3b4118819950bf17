# SPDX-License-Identifier: Apache-2.0
"""Estimators of η from the discriminator's scores, with a bootstrap over trajectories.

Frames of one trajectory are near copies, so an interval from resampled frames would be too narrow.
Each resample has an exponential weight per trajectory (Rubin's Bayesian bootstrap). An estimator
uses weighted means only, so it computes all resamples in one pass.
"""

from collections.abc import Callable
from math import log, sqrt
from typing import NamedTuple

import torch
from torch import Tensor

from pureward.errors import InputError
from pureward.registry import Registry

CONFIDENCE = 0.1  # δ: the bound on the error holds with probability 1 − δ
MARGIN = 0.01  # γ: extra weight of the error in the bound


class Sample(NamedTuple):
    """Scores of frames of one kind, with their weight in each resample."""

    logits: Tensor
    """(n,) float64, high for a success."""
    weights: Tensor
    """(rows, n) float64, each row of sum 1; uniform in the first row."""
    episodes: Tensor
    """0-d, number of trajectories."""


def resample(
    name: str, logits: Tensor, episodes: Tensor, resamples: int, generator: torch.Generator
) -> Sample:
    """Return scores with weights for resamples of their trajectories.

    Args:
        name: kind of the frames, for error messages.
        logits: (n,) scores.
        episodes: (n,) integers, the trajectory of each; any labels.
        resamples: rows of weights after the first.
        generator: on the logits' device.
    """
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
    trajectory = consecutive_labels(episodes)
    sampled = torch.empty((resamples, len(logits)), dtype=torch.float64, device=logits.device)
    sampled.exponential_(generator=generator)
    weights = torch.cat([torch.ones_like(sampled[:1]), sampled[:, trajectory]])
    return Sample(logits.double(), weights / weights.sum(1, keepdim=True), trajectory.max() + 1)


def consecutive_labels(episodes: Tensor) -> Tensor:
    """Return labels renumbered from 0 in sorted order, without a host sync."""
    in_order, order = episodes.sort()
    is_new = torch.zeros_like(in_order)
    is_new[1:] = in_order[1:] != in_order[:-1]
    return torch.empty_like(order).scatter_(0, order, is_new.cumsum(0))


def interval(rows: Tensor, share: float = 0.95) -> tuple[Tensor, Tensor]:
    """Return an interval around the first estimate in `rows`, within [0, 1].

    It covers the quantiles of the resampled estimates and their mirror image around the first
    estimate: a minimum is biased low, and that of a resample even more.
    """
    tail = (1 - share) / 2
    low, high = torch.quantile(rows[1:], rows.new_tensor([tail, 1 - tail]))
    reflected_low, reflected_high = 2 * rows[0] - high, 2 * rows[0] - low
    low, high = torch.minimum(low, reflected_low), torch.maximum(high, reflected_high)
    return low.clamp(min=0), high.clamp(max=1)


def auc(positive: Tensor, unlabeled: Tensor) -> Tensor:
    """Return the probability that a positive scores above an unlabeled; a tie counts one half."""
    ranked = unlabeled.sort().values
    below = torch.searchsorted(ranked, positive, side="left")
    not_above = torch.searchsorted(ranked, positive, side="right")
    return (below + not_above).double().mean() / (2 * len(unlabeled))


def best_bin(positive: Sample, unlabeled: Sample) -> Tensor:
    """Best-bin estimate (Garg et al. 2021), α̂ = q̂_u(ĉ)/q̂_p(ĉ), of every resample.

    If some frames can only be successes, η = min over c of q_u(c)/q_p(c), q(c) = P(score ≥ c). Few
    scores pass a high threshold, where the ratio is noise. ĉ therefore minimises an upper bound,
    the ratio plus (1 + γ)/q̂_p(c)·(ε(n_u) + ε(n_p)) with ε(n) = √(ln(4/δ)/2n).

    Args:
        positive: scores of positives that the discriminator never trained on.
        unlabeled: scores of the agent's frames, with as many rows of weights.

    Returns:
        (rows,) within [0, 1].
    """
    ordered, order = torch.cat([positive.logits, unlabeled.logits]).sort(descending=True)
    no_p, no_u = torch.zeros_like(positive.weights), torch.zeros_like(unlabeled.weights)
    # q̂ at every score, (rows, scores)
    passing_p = torch.cat([positive.weights, no_u], dim=1)[:, order].cumsum(1)
    passing_u = torch.cat([no_p, unlabeled.weights], dim=1)[:, order].cumsum(1)
    counts = len(positive.logits), len(unlabeled.logits)
    error = (1 + MARGIN) * sum(sqrt(log(4 / CONFIDENCE) / (2 * count)) for count in counts)
    bound = (passing_u + error) / passing_p
    # Equal scores pass together: only the last of them is a threshold.
    tied = torch.zeros_like(ordered, dtype=torch.bool)
    tied[:-1] = ordered[1:] == ordered[:-1]
    best = bound.masked_fill(tied, float("inf")).argmin(1, keepdim=True)
    ratio = passing_u.gather(1, best) / passing_p.gather(1, best)
    return ratio.squeeze(1).clamp(max=1.0)


def adjusted_count(positive: Sample, unlabeled: Sample, failures: Sample) -> Tensor:
    """Adjusted count η̂ = (E_u D − E_n D)/(E_p D − E_n D) of every resample, (rows,) in [0, 1].

    Unlabeled frames are a mixture of successes and failures, and so is the mean of any score. It
    needs failures like the agent's, and successes from its domain.
    """
    samples = (positive, unlabeled, failures)
    p, u, n = (sample.weights @ sample.logits.sigmoid() for sample in samples)
    # If D does not separate P from N the ratio is noise; `EstimatedPrior` then ignores it (AUC).
    return ((u - n) / (p - n).clamp(min=1e-6)).clamp(0.0, 1.0)


#: Name → estimator of positives, unlabeled and, for `acc`, known failures.
ESTIMATORS: Registry[Callable[..., Tensor]] = Registry("estimator")
ESTIMATORS |= {"bbe": best_bin, "acc": adjusted_count}
