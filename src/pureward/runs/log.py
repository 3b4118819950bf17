# SPDX-License-Identifier: Apache-2.0
"""Metrics of a run: one JSON object per line, also written for TensorBoard."""

import json
import math
import os
import time
from pathlib import Path
from typing import Any

# protobuf creates these classes on import, so pyright cannot see them.
from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # pyright: ignore
from tensorboard.compat.proto.summary_pb2 import Summary  # pyright: ignore
from tensorboard.summary.writer.record_writer import RecordWriter

from pureward.errors import TrainingError
from pureward.files import open_regular, read_file
from pureward.runs.directory import is_at

_MAX_BYTES = 2**30  # of a metrics file: a million lines of a thousand bytes


class MetricsLog:
    """Appends to metrics.jsonl; a resumed run first removes the lines after its checkpoint."""

    def __init__(self, path: Path, events: Path, *, offset: int = 0, step: int = 0):
        self._path = path
        self._file = open(path, "ab", opener=open_regular)  # noqa: SIM115 - closed by `__exit__`
        # `truncate` would fill a file that is shorter than the offset with zeros.
        self._file.truncate(min(offset, self._file.tell()))
        if self._file.seek(0, os.SEEK_END) < offset:
            self._file.write(b"\n")  # the last line may be incomplete
        self._events = _EventFile(events, step)

    def __enter__(self) -> "MetricsLog":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._events.file.close()

    def write(self, kind: str, step: int, values: dict[str, float]) -> None:
        """Append one line.

        Args:
            kind: "train", "eval", "probe" or "fit".
            step: the env step.
            values: metrics by name.

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
        rounded = {name: _rounded(value) for name, value in values.items()}
        line = json.dumps({"kind": kind, "step": step, **rounded}, allow_nan=False)
        points = [Summary.Value(tag=f"{kind}/{n}", simple_value=v) for n, v in values.items()]
        try:
            self._file.write(line.encode() + b"\n")
            self._file.flush()
            self._events.write(step, summary=Summary(value=points))
        except OSError as error:  # its message does not name the file
            raise OSError(error.errno, error.strerror, str(self._path)) from error

    def offset(self) -> int:
        """Flush the file to disk and return its length in bytes."""
        self._check_place()
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def _check_place(self) -> None:
        if not is_at(os.fstat(self._file.fileno()), self._path):
            raise FileNotFoundError(
                f"the metrics file of a run must stay in place, and {self._path} was moved or "
                "deleted; bring it back, or accept the loss of its lines, and pass --resume"
            )


class _EventFile:
    """A TensorBoard event file, written without the thread of TensorBoard's own writer.

    On a full disk that thread prints a traceback, and the last events can be lost.
    """

    def __init__(self, folder: Path, step: int):
        folder.mkdir(parents=True, exist_ok=True)
        seconds, nanoseconds = divmod(time.time_ns(), 10**9)
        name = f"events.out.tfevents.{seconds}.{nanoseconds:09}.{os.getpid()}"
        self.file = (folder / name).open("xb")
        self._records = RecordWriter(self.file)
        self.write(step, file_version="brain.Event:2")  # readers expect this first record
        # TensorBoard hides this step and later ones of the earlier files.
        self.write(step + 1 if step else 0, session_log=SessionLog(status=SessionLog.START))

    def write(self, step: int, **content: Any) -> None:
        event = Event(wall_time=time.time(), step=step, **content)
        self._records.write(event.SerializeToString())
        self._records.flush()


def _rounded(value: float) -> float:
    """Return a float with seven digits, what float32 has; a whole number as it is."""
    return float(f"{value:.7g}") if isinstance(value, float) else value


def read_metrics(path: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """Return the lines of a metrics file; damaged or incomplete lines are skipped.

    Args:
        path: of the file.
        kind: return only lines of this kind.

    Returns:
        For each line "kind", "step" and its numeric values.
    """
    rows = []
    for line in read_file(path, _MAX_BYTES).split(b"\n"):
        try:
            row = json.loads(line.decode(errors="replace"))
        except (ValueError, RecursionError):
            continue
        if not isinstance(row, dict) or not isinstance(row.get("kind"), str):
            continue
        numbers = {name: value for name, value in row.items() if isinstance(value, int | float)}
        if "step" in numbers and kind in (None, row["kind"]):
            rows.append({"kind": row["kind"], **numbers})
    return rows
