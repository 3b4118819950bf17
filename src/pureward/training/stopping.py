# SPDX-License-Identifier: Apache-2.0
"""SIGTERM, Ctrl-C and a terminal that is closed end a run after its step, with a checkpoint."""

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
            heard = [signal.SIGTERM, signal.SIGINT]
            if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # which is what nohup sets
                heard.append(signal.SIGHUP)
            for number in heard:
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
