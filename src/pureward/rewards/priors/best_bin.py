# SPDX-License-Identifier: Apache-2.0
"""Best-bin estimate of η (Garg et al. 2021): how much rarer the surest successes are in U.

If some frames can only be successes, then above a threshold c that only they pass the unlabeled
are η times as frequent as the positives: η = min over c of q_u(c)/q_p(c), q(c) = P(score ≥ c).
"""

from math import log, sqrt

import torch
from torch import Tensor

from pureward.rewards.priors.resample import Sample

CONFIDENCE = 0.1  # δ: the bound on the error holds with probability 1 − δ
MARGIN = 0.01  # γ: how much more than the bound an estimate is charged for its error


def best_bin(positive: Sample, unlabeled: Sample) -> Tensor:
    """Return α̂ = q̂_u(ĉ)/q̂_p(ĉ) of every resample, (rows,) within [0, 1].

    Few scores pass a high threshold, so that the smallest ratio would be noise. ĉ minimises an
    upper bound instead: the ratio plus (1 + γ)/q̂_p(c)·(ε(n_u) + ε(n_p)), ε(n) = √(ln(4/δ)/2n).

    Args:
        positive: scores of positives the discriminator never trained on.
        unlabeled: scores of the agent's frames, with as many rows of weights.
    """
    scores = torch.cat([positive.logits, unlabeled.logits])
    ordered, order = scores.sort(descending=True)
    passing_p, passing_u = _passing(positive, unlabeled, order)
    error = (1 + MARGIN) * (_error(len(positive.logits)) + _error(len(unlabeled.logits)))
    bound = (passing_u + error) / passing_p
    # Of equal scores all pass or none: only the last in order tells how many.
    undecided = torch.zeros_like(ordered, dtype=torch.bool)
    undecided[:-1] = ordered[1:] == ordered[:-1]
    best = bound.masked_fill(undecided, float("inf")).argmin(1, keepdim=True)
    ratio = passing_u.gather(1, best) / passing_p.gather(1, best)
    return ratio.squeeze(1).clamp(max=1.0)


def _passing(positive: Sample, unlabeled: Sample, order: Tensor) -> tuple[Tensor, Tensor]:
    """Shares q̂ of each set at or above every score in order, (rows, scores) each."""
    p = torch.cat([positive.weights, torch.zeros_like(unlabeled.weights)], dim=1)
    u = torch.cat([torch.zeros_like(positive.weights), unlabeled.weights], dim=1)
    return p[:, order].cumsum(1), u[:, order].cumsum(1)


def _error(count: int) -> float:
    return sqrt(log(4 / CONFIDENCE) / (2 * count))
