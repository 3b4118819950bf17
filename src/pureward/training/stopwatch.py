# SPDX-License-Identifier: Apache-2.0
"""How long a run has trained, not counting the time in which it looked at itself."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Stopwatch:
    """Runs from the start; device work belongs to the time in which it was asked for."""

    def __init__(self, device: torch.device):
        self._device = device
        self._banked = 0.0
        self._began: float | None = time.monotonic()  # None while it is paused

    def read(self) -> float:
        """Seconds so far; waits for the device."""
        return self._banked if self._began is None else self._banked + self._now() - self._began

    def set(self, seconds: float) -> None:
        """Go on from a reading of an earlier process."""
        self._banked, self._began = seconds, self._now()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the block's time out."""
        self._banked, self._began = self.read(), None
        try:
            yield
        finally:
            self._began = self._now()

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.monotonic()
