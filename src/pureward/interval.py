# SPDX-License-Identifier: Apache-2.0
"""The confidence interval of evaluations, plots and tables."""

import numpy as np
from scipy.special import stdtrit


def half_width(values: np.ndarray) -> np.ndarray:
    """Return half of the 95% Student-t interval of the mean over the first axis, length ≥ 2."""
    count = len(values)
    return stdtrit(count - 1, 0.975) * values.std(axis=0, ddof=1) / np.sqrt(count)
