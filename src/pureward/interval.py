# SPDX-License-Identifier: Apache-2.0
"""How sure a mean is: the one interval that evaluations, plots and tables tell."""

import numpy as np
from scipy.special import stdtrit


def half_width(values: np.ndarray) -> np.ndarray:
    """Half of the 95% interval (Student's t) of a mean over the first axis, two values or more."""
    count = len(values)
    return stdtrit(count - 1, 0.975) * values.std(axis=0, ddof=1) / np.sqrt(count)
