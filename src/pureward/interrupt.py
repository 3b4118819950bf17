# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C in the command line while a module is imported, which takes seconds at its start."""

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

#: Exit code of a shell for a process that SIGINT ended.
INTERRUPTED = 130


def end_imports_at_interrupt() -> None:
    """If this process is `pureward` or `python -m pureward`, end it when an import is interrupted.

    Modules in C lose a KeyboardInterrupt or raise an ImportError in its place.
    """
    started = "".join(sys.orig_argv[-len(sys.argv) :][:1])  # the script, or the module of -m
    name = os.path.splitext(os.path.basename(started))[0]
    if name == "pureward" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            with suppress(OSError):  # of a closed stream; modules may replace sys.stderr for a time
                os.write(2, b"pureward: interrupted\n")
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt
