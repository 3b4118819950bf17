# SPDX-License-Identifier: Apache-2.0
"""Means and confidence intervals of evaluations, plots and tables."""

import numpy as np
from scipy.special import stdtrit


def half_width(values: np.ndarray) -> np.ndarray:
    """Return half of the 95% Student-t interval of the mean over the first axis, length ≥ 2."""
    count = len(values)
    return stdtrit(count - 1, 0.975) * values.std(axis=0, ddof=1) / np.sqrt(count)


def difference(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, float]:
    """Return Welch's 95% interval of the difference of two means, of (count ≥ 2,) values each.

    It has no width if neither varies: there is no variance to estimate it from.
    """
    means, parts = [], []
    for values in (ours, theirs):
        varies = np.ptp(values) > 0  # equal values may have a rounding error in mean and variance
        means.append(float(values.mean() if varies else values[0]))
        parts.append((float(values.var(ddof=1)) / len(values) if varies else 0.0, len(values)))
    apart = means[0] - means[1]
    square = sum(part for part, _ in parts)
    if not square:
        return apart, apart
    freedom = square**2 / sum(part**2 / (count - 1) for part, count in parts)
    half = float(stdtrit(freedom, 0.975)) * square**0.5
    return apart - half, apart + half


def interquartile_mean(values: np.ndarray) -> np.ndarray:
    """Return the mean over the first axis without the lowest and the highest quarter.

    Of n values, n // 4 are left out at each end: none of three, one of five.
    """
    cut = len(values) // 4
    return np.sort(values, axis=0)[cut : len(values) - cut].mean(axis=0)


def bootstrap(values: np.ndarray) -> tuple[float, float]:
    """Return the 95% percentile bootstrap interval of the interquartile mean of (count,) values.

    2,000 resamples by a fixed seed, so a table is the same every time.
    """
    rng = np.random.default_rng(0)
    sampled = values[rng.integers(len(values), size=(len(values), 2000))]
    low, high = np.quantile(interquartile_mean(sampled), (0.025, 0.975))
    return float(low), float(high)
