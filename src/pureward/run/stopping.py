# SPDX-License-Identifier: Apache-2.0
"""SIGTERM and Ctrl-C end a run after its present step, with a checkpoint."""

import signal
import threading
from types import FrameType
from typing import Any


class StopSignal:
    """Notes the signal; a second Ctrl-C stops the process at once."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "StopSignal":
        """Start listening; only the main thread can."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: FrameType | None) -> None:
        self.asked = True
        # SIGTERM comes twice where a whole group is told to end: from outside, and from the parent.
        if number == signal.SIGINT:
            signal.signal(number, self._before[signal.SIGINT])
