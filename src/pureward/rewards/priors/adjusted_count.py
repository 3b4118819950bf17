# SPDX-License-Identifier: Apache-2.0
"""Estimate of η from the mean scores of positives, unlabeled frames and known failures."""

from torch import Tensor

from pureward.rewards.priors.resample import Sample


def adjusted_count(positive: Sample, unlabeled: Sample, failures: Sample) -> Tensor:
    """Return η̂ = (E_u D − E_n D)/(E_p D − E_n D) of every resample, (rows,) within [0, 1].

    U is a mixture of successes and failures, hence so is the mean of any score on it. Needs no
    frame to be surely a success, but failures like the agent's and successes in its domain.
    """
    p, u, n = (_mean_success(sample) for sample in (positive, unlabeled, failures))
    # A discriminator that sees no difference leaves η open; the AUC tells, and nothing is taken.
    return ((u - n) / (p - n).clamp(min=1e-6)).clamp(0.0, 1.0)


def _mean_success(sample: Sample) -> Tensor:
    return sample.weights @ sample.logits.sigmoid()
