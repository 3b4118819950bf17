# SPDX-License-Identifier: Apache-2.0
"""Compiled kernels are used only if they agree with plain torch on the user's machine."""

import warnings
from collections.abc import Callable


def trusted(difference: Callable[[], str], warning: str) -> bool:
    """Return whether kernels may be used; if not, warn with the reason.

    Args:
        difference: returns what is wrong with them, or ""; it may raise.
        warning: the text, with {reason} in it.
    """
    try:
        reason = difference()
    except Exception as error:  # of the compiler, the driver or a kernel
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
    if reason:
        warnings.warn(warning.format(reason=reason), RuntimeWarning, stacklevel=3)
    return not reason
