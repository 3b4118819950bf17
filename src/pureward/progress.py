# SPDX-License-Identifier: Apache-2.0
"""Progress bars: a bar on a terminal, a line every ten seconds in a log file."""

import sys
from time import monotonic
from typing import Any

from tqdm import tqdm

_LINE_EVERY = 10.0  # seconds


class Progress(tqdm):
    """A tqdm bar on a terminal; otherwise a line every ten seconds and one at the end."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        """Take the arguments of tqdm."""
        file = settings.get("file") or sys.stderr
        self._in_lines = not file.isatty()
        self._line_at: float | None = None
        if self._in_lines:
            settings["miniters"] = 0  # tqdm checks the time at every update
        super().__init__(*args, **settings)

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        """Show the bar; in a log, write a line if the last one is ten seconds old."""
        if not self._in_lines:
            return bool(super().display(msg, pos))
        now = monotonic()
        if self._line_at is None:  # the first call, by the constructor
            self._line_at = now
        elif now - self._line_at >= _LINE_EVERY and self.n != self.total:  # the last is `close`'s
            self._line_at = now
            self._write_line()
        return True

    def clear(self, nolock: bool = False) -> None:
        """Hide the bar on a terminal; lines in a log stay."""
        if not self._in_lines:
            super().clear(nolock)

    def close(self) -> None:
        """End the bar; in a log, with a last line."""
        if self._in_lines and not getattr(self, "disable", True):
            self._write_line()
            self.sp = None  # tqdm writes nothing more
        super().close()

    def _write_line(self) -> None:
        self.fp.write(f"{self}\n")
        self.fp.flush()
