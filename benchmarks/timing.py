# SPDX-License-Identifier: Apache-2.0
"""What several benchmarks share: the time of a call, and the commit that is measured."""

import subprocess
import time
from collections.abc import Callable
from statistics import median

import torch


def synchronize(device: torch.device | str) -> None:
    """Wait until the GPU has done its work."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()


def milliseconds(
    call: Callable[[], object], device: torch.device | str, repeats: int, rounds: int = 5
) -> float:
    """Median over rounds of the time of a call, from several without a wait between them."""
    call()
    times = []
    for _ in range(rounds):
        synchronize(device)
        began = time.perf_counter()
        for _ in range(repeats):
            call()
        synchronize(device)
        times.append((time.perf_counter() - began) / repeats * 1e3)
    return median(times)


def commit() -> str:
    """Return the short hash of the checkout; "" without git."""
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip()
