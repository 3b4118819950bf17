# SPDX-License-Identifier: Apache-2.0
"""Kernels that are compiled on a user's machine are used where they do what plain ones do."""

import warnings
from collections.abc import Callable


def trusted(difference: Callable[[], str], told: str) -> bool:
    """Whether they may be used; where not, a warning says why.

    Args:
        difference: says what is wrong with them, or nothing; it may fail.
        told: the warning, with {reason} in it.
    """
    try:
        reason = difference()
    except Exception as error:  # a compiler's, a driver's or a kernel's own: all mean "do not use"
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
    if reason:
        warnings.warn(told.format(reason=reason), RuntimeWarning, stacklevel=3)
    return not reason
