# SPDX-License-Identifier: Apache-2.0
"""Metrics: one JSON object a line, mirrored to TensorBoard."""

import json
import os
from pathlib import Path
from types import TracebackType

from torch.utils.tensorboard import SummaryWriter


class MetricsLog:
    """Appends to metrics.jsonl; a resumed run first cuts off what its checkpoint has not seen."""

    def __init__(self, path: Path, events: Path, *, offset: int = 0, step: int = 0):
        self._file = path.open("ab")
        self._file.truncate(offset)
        self._file.seek(offset)
        self._board = SummaryWriter(str(events), purge_step=step)

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
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        for name, value in values.items():
            self._board.add_scalar(f"{kind}/{name}", value, step)

    def offset(self) -> int:
        """Bytes so far, safely on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()


def read_metrics(path: Path, kind: str | None = None) -> list[dict[str, float]]:
    """The lines of a metrics file; a last line that a kill cut short is left out."""
    rows = []
    for line in path.read_text().splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if kind is None or row["kind"] == kind:
            rows.append(row)
    return rows
