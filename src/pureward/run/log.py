# SPDX-License-Identifier: Apache-2.0
"""Metrics: one JSON object a line, mirrored to TensorBoard."""

import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from pureward.run.board import Board


class MetricsLog:
    """Appends to metrics.jsonl; a resumed run first cuts off what its checkpoint has not seen."""

    def __init__(self, path: Path, events: Path, *, offset: int = 0, step: int = 0):
        self._file = path.open("ab")
        # A file that was cut since would be filled up with zeros.
        self._file.truncate(min(offset, self._file.tell()))
        if self._file.seek(0, os.SEEK_END) < offset:
            self._file.write(b"\n")  # what is left may end within a line
        self._board = Board(events, step=step)

    def __enter__(self) -> "MetricsLog":
        """Nothing to open; the file is."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file and the board."""
        self._file.close()
        self._board.close()

    def write(self, kind: str, step: int, values: dict[str, float]) -> None:
        """Append one line: its kind ("train", "eval", "probe", "fit"), the env step, values."""
        line = json.dumps({"kind": kind, "step": step, **values})
        try:
            self._file.write(line.encode() + b"\n")
            self._file.flush()
            self._board.write(kind, step, values)
        except OSError as error:  # which does not know the name of the file
            raise OSError(error.errno, error.strerror, self._file.name) from error

    def offset(self) -> int:
        """Bytes so far, safely on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()


def read_metrics(path: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """The lines of a metrics file; one that a kill cut short, or that is damaged, is left out."""
    rows = []
    for line in path.read_text(errors="replace").splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        told = _told(row)
        if told and kind in (None, told["kind"]):
            rows.append(told)
    return rows


def _told(row: Any) -> dict[str, Any]:
    """The kind, the step and the numbers of a line; nothing, if it has no kind or no step."""
    if not isinstance(row, dict) or not isinstance(row.get("kind"), str):
        return {}
    numbers = {name: value for name, value in row.items() if isinstance(value, int | float)}
    return {"kind": row["kind"], **numbers} if "step" in numbers else {}
