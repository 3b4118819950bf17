# SPDX-License-Identifier: Apache-2.0
"""SIGTERM, SIGINT (Ctrl-C) and SIGHUP end a run after its current step, with a checkpoint."""

import signal
import threading
from types import FrameType
from typing import Any


class StopSignal:
    """Records a stop signal in `requested`; a second Ctrl-C stops the process immediately."""

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "StopSignal":
        """Install the handlers; only the main thread can."""
        if threading.current_thread() is threading.main_thread():
            numbers = [signal.SIGTERM, signal.SIGINT]
            if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # set by nohup
                numbers.append(signal.SIGHUP)
            for number in numbers:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _: FrameType | None) -> None:
        self.requested = True
        # SIGTERM may come twice: to the process group, and from the parent.
        if number == signal.SIGINT:
            signal.signal(number, self._before[signal.SIGINT])
