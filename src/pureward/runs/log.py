# SPDX-License-Identifier: Apache-2.0
"""Metrics: one JSON object a line, mirrored to TensorBoard."""

import json
import math
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from pureward.errors import InputError, TrainingError
from pureward.files import open_regular
from pureward.runs.board import Board
from pureward.runs.directory import is_at

#: Largest metrics file that is read, in bytes: a million lines of a thousand.
_MOST = 2**30


class MetricsLog:
    """Appends to metrics.jsonl; a resumed run first cuts off what its checkpoint has not seen."""

    def __init__(self, path: Path, events: Path, *, offset: int = 0, step: int = 0):
        self._path = path
        self._file = open(path, "ab", opener=open_regular)  # noqa: SIM115 - closed by `__exit__`
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
        """Append one line: its kind ("train", "eval", "probe", "fit"), the env step, values.

        Raises:
            TrainingError: if a value is NaN or infinite.
            FileNotFoundError: if the file was moved or deleted.
        """
        for name, value in values.items():
            if not math.isfinite(value):
                raise TrainingError(
                    f"{name} is {value} ({kind}, step {step:,}); the last good checkpoint is kept: "
                    "lower the learning rates or check the rewards of the data"
                )
        self._check_place()
        line = json.dumps({"kind": kind, "step": step, **values}, allow_nan=False)
        try:
            self._file.write(line.encode() + b"\n")
            self._file.flush()
            self._board.write(kind, step, values)
        except OSError as error:  # which does not know the name of the file
            raise OSError(error.errno, error.strerror, str(self._path)) from error

    def offset(self) -> int:
        """Bytes so far, safely on the disk."""
        self._check_place()
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def _check_place(self) -> None:
        if not is_at(os.fstat(self._file.fileno()), self._path):
            raise FileNotFoundError(
                f"a run appends to the metrics it began, and {self._path} was moved or deleted; "
                "bring it back, or do without its lines, and go on from the last checkpoint "
                "(--resume)"
            )


def read_metrics(path: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """The lines of a metrics file; one that a kill cut short, or that is damaged, is left out."""
    rows = []
    with open(path, "rb", opener=open_regular) as file:
        size = os.fstat(file.fileno()).st_size
        if size > _MOST:
            raise InputError(
                f"{path} must have at most {_MOST:,} bytes, and has {size:,}; "
                "restore the file that the run wrote, or log less often"
            )
        for line in file:
            try:
                row = json.loads(line.decode(errors="replace"))
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
