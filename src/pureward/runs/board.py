# SPDX-License-Identifier: Apache-2.0
"""What TensorBoard shows, written at once and here.

Its own writer has a thread: on a full disk that prints a traceback of its own, and what the run
wrote last can be lost.
"""

import os
import time
from pathlib import Path

# protobuf makes these classes when it is imported: no checker sees them.
from tensorboard.compat.proto.event_pb2 import (
    Event,  # pyright: ignore[reportAttributeAccessIssue]
    SessionLog,  # pyright: ignore[reportAttributeAccessIssue]
)
from tensorboard.compat.proto.summary_pb2 import (
    Summary,  # pyright: ignore[reportAttributeAccessIssue]
)
from tensorboard.summary.writer.record_writer import RecordWriter

_VERSION = "brain.Event:2"  # what its readers expect of a file's first record


class Board:
    """A file of events in a folder; a resumed run's hides what earlier ones hold after its step."""

    def __init__(self, folder: Path, *, step: int = 0):
        folder.mkdir(parents=True, exist_ok=True)
        began = time.time_ns()
        name = f"events.out.tfevents.{began // 10**9}.{began % 10**9:09}.{os.getpid()}"
        self._file = (folder / name).open("xb")
        self._records = RecordWriter(self._file)
        self._write(Event(file_version=_VERSION), step)
        first = step + 1 if step else 0  # TensorBoard forgets this step and all that follow
        self._write(Event(session_log=SessionLog(status=SessionLog.START)), first)

    def write(self, kind: str, step: int, values: dict[str, float]) -> None:
        """A point of each curve KIND/NAME."""
        told = [
            Summary.Value(tag=f"{kind}/{name}", simple_value=value)
            for name, value in values.items()
        ]
        self._write(Event(summary=Summary(value=told)), step)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, event: Event, step: int) -> None:
        event.wall_time, event.step = time.time(), step
        self._records.write(event.SerializeToString())
        self._records.flush()
