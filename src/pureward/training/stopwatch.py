# SPDX-License-Identifier: Apache-2.0
"""Training time of a run, without evaluation, probes and writing."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Stopwatch:
    """Runs from its construction; waits for the device, so that its work is counted."""

    def __init__(self, device: torch.device, seconds: float = 0.0) -> None:
        """Continue from the seconds of an earlier process."""
        self._device = device
        self._banked = seconds
        self._began: float | None = self._now()  # None while paused

    def read(self) -> float:
        """Return the seconds so far."""
        return self._banked if self._began is None else self._banked + self._now() - self._began

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the time of the block."""
        self._banked, self._began = self.read(), None
        try:
            yield
        finally:
            self._began = self._now()

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.monotonic()
