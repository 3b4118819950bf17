# SPDX-License-Identifier: Apache-2.0
"""Compiled kernels are used only if they agree with plain torch on the user's machine."""

import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import torch


def trusted(differences: Callable[[], Iterator[str]], warning: str) -> bool:
    """Return whether kernels may be used; if not, warn with the reason.

    Args:
        differences: runs the kernels and yields what is wrong with them; it may raise.
        warning: the text, with {reason} in it.
    """
    try:
        if torch.cuda.is_available():
            compile_kernels(lambda: list(differences()))
        reason = next(differences(), "")
    except Exception as error:  # of the compiler, the driver or a kernel
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
    if reason:
        warnings.warn(warning.format(reason=reason), RuntimeWarning, stacklevel=3)
    return not reason


def compile_kernels(work: Callable[[], object]) -> None:
    """Compile the Triton kernels that some work launches on all cores.

    Triton compiles a kernel when it is first launched, one after another. Here they are not
    launched, so the results of the work are arbitrary. A kernel that does not compile raises when
    it is launched.
    """
    import triton
    from triton.runtime.jit import JITFunction

    if not hasattr(triton, "AsyncCompileMode"):  # before Triton 3.5: one after another, as launched
        return
    run = JITFunction.run

    def compile_only(self: Any, *args: Any, grid: Any, warmup: bool, **settings: Any) -> Any:
        return run(self, *args, grid=grid, warmup=True, **settings)

    threads = ThreadPoolExecutor(min(16, os.cpu_count() or 1))
    compiling = triton.AsyncCompileMode(threads, ignore_errors=True)  # of this thread
    JITFunction.run = compile_only
    try:
        # Gradients are computed in this thread too. Arbitrary results may raise.
        gradients = torch.autograd.set_multithreading_enabled(False)
        with threads, compiling, gradients, suppress(Exception):
            work()
    finally:
        JITFunction.run = run
