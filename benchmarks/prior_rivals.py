# SPDX-License-Identifier: Apache-2.0
"""Other estimates of the share of positives among unlabeled, for comparison with ours.

EN and the DEDPUL-style estimate see the same held-out scores as ours. pulearn's two estimators
bring their own classifier and see the same images.
"""

import numpy as np
from scipy.ndimage import median_filter
from scipy.stats import gaussian_kde
from torch import Tensor


def elkan_noto(positive: Tensor, unlabeled: Tensor) -> float:
    """From c = E_p[D] of a classifier that weighs P and U alike: D is 1/(1+α) on sure positives."""
    c = float(positive.sigmoid().mean())
    return min(1.0, (1 - c) / c)


def elkan_noto_ratio(positive: Tensor, unlabeled: Tensor) -> float:
    """E_u[D]/E_p[D]."""
    return min(1.0, float(unlabeled.sigmoid().mean() / positive.sigmoid().mean()))


def dedpul_style(positive: Tensor, unlabeled: Tensor) -> float:
    """Density ratio of the scores, then the largest share that explains it (Ivanov 2020).

    Our own short form: kernel densities of the logits with the published bandwidths, their ratio
    smoothed by running medians and made monotone where positives are, then expectation
    maximisation from a share of 1, or where that fails the share at which the error bends most.
    """
    ratio = _density_ratio(positive.double().numpy(), np.sort(unlabeled.double().numpy()))
    converged = _fixed_share(ratio)
    failures = np.arange(0.0, 1.0, 0.001)
    error = np.array([np.maximum(1 - (1 - n) * ratio, 0).mean() - n for n in failures])
    near = error[1:-1] < 0.05
    bend = 1 - failures[1:-1][near][np.argmax(np.diff(error, 2)[near])]
    if bend <= converged or ((error < 0).sum() > 1 and converged > 0.001):
        return float(converged)
    return float(bend)


def _density_ratio(positive: np.ndarray, unlabeled: np.ndarray) -> np.ndarray:
    """Density of positives over that of unlabeled at each unlabeled score, smallest first."""
    ratio = gaussian_kde(positive, 0.1)(unlabeled)
    ratio = np.minimum(ratio / np.maximum(gaussian_kde(unlabeled, 0.05)(unlabeled), 1e-12), 50)
    ratio = median_filter(ratio, 11, mode="nearest")
    high = unlabeled >= (positive.mean() + unlabeled.mean()) / 2
    ratio[high] = np.maximum.accumulate(ratio[high])
    return np.sort(median_filter(ratio, 2 * (len(unlabeled) // 20) + 1, mode="nearest"))


def _fixed_share(ratio: np.ndarray) -> float:
    share = 1.0
    for _ in range(1000):
        failure = 1 - share * ratio
        after = 1 - np.maximum(failure, 0).mean()
        if abs(after - share) < 1e-5 or failure.min() > 0:
            break
        share = after
    return share


#: Rivals on scores, by name.
ON_SCORES = {
    "EN, e1": elkan_noto,
    "EN, ratio": elkan_noto_ratio,
    "DEDPUL-style": dedpul_style,
}


def pulearn_estimates(positive: Tensor, unlabeled: Tensor) -> dict[str, float]:
    """pulearn's histogram and SCAR-EM estimators with their default classifier."""
    from pulearn.priors import (  # pyright: ignore[reportMissingImports]
        HistogramMatchPriorEstimator,
        ScarEMPriorEstimator,
    )

    images = np.concatenate([positive.numpy(), unlabeled.numpy()])
    labels = np.r_[np.ones(len(positive)), np.zeros(len(unlabeled))]
    kinds = {
        "pulearn histogram": HistogramMatchPriorEstimator,
        "pulearn SCAR-EM": ScarEMPriorEstimator,
    }
    return {
        # They estimate the share in P and U together; this is the part that is about U.
        name: float(kind().estimate(images, labels).metadata["hidden_positive_fraction"])
        for name, kind in kinds.items()
    }
