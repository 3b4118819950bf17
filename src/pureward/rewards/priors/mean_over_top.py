# SPDX-License-Identifier: Apache-2.0
"""Estimate of η from the scores Φ of variational PU learning (`risks/variational.py`)."""

import torch
from torch import Tensor

from pureward.rewards.priors.resample import Sample

TOP = 0.95  # quantile of the held-out positives' Φ that is taken as the ratio's top


def mean_over_top(positive: Sample, unlabeled: Sample) -> Tensor:
    """Return η̂ = E_u[Φ] over the top of Φ on held-out positives, (rows,) within [0, 1]."""
    ordered, order = positive.logits.sigmoid().sort()
    reached = positive.weights[:, order].cumsum(1) >= TOP - 1e-9
    top = ordered[reached.to(torch.uint8).argmax(1)]
    return ((unlabeled.weights @ unlabeled.logits.sigmoid()) / top).clamp(max=1.0)
