# SPDX-License-Identifier: Apache-2.0
"""The table of scores: parquet with a row per frame, written in parts so that nothing is lost.

A part has the scores of consecutive episodes. A process that is killed loses only what it has not
written as a part; the next one continues after the last part. At the end they become one file.
"""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import monotonic

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from torch import Tensor

from pureward.data.guard import check_file, check_fits, guarding
from pureward.errors import InputError
from pureward.files import clear_leftovers, whole_file

FILE = "rewards.parquet"
_PARTS = "parts"
_SAVE_EVERY = 20.0  # seconds


class Table:
    """The scores in a folder: those that were finished, or the parts of them."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        """Take the folder, and the names of the values of a frame."""
        self.file, self._parts, self._names = folder / FILE, folder / _PARTS, names

    def done(self) -> int:
        """Return how many episodes the parts have; refuse parts that do not fit together."""
        if self._parts.is_dir():
            clear_leftovers(self._parts)
        done = 0
        for part in self._found():
            episodes = np.unique(self._read(part, ["episode"]).column("episode").to_numpy())
            if not np.array_equal(episodes, np.arange(done, done + len(episodes))):
                raise InputError(
                    f"{part} must begin with episode {done}, and does not; delete {self._parts} to "
                    "begin again"
                )
            done += len(episodes)
        return done

    def write(self, scored: Iterable[tuple[int, Tensor]]) -> Iterator[tuple[int, int]]:
        """Write episodes' values, (names, frames); yields number and frames of each.

        What has been scored is also written if an error or an interrupt ends the iteration.
        """
        kept: list[tuple[int, NDArray]] = []
        saved = monotonic()
        try:
            for number, values in scored:
                kept.append((number, values.numpy()))
                if monotonic() - saved >= _SAVE_EVERY:
                    self._save(kept)
                    kept, saved = [], monotonic()
                yield number, values.shape[1]
        finally:
            self._save(kept)

    def finish(self) -> None:
        """Join the parts to one file, and delete them."""
        if not self.file.exists():
            with whole_file(self.file) as new, pq.ParquetWriter(new, self._schema) as writer:
                for part in self._found():
                    writer.write_table(self._read(part, self._schema.names))
        if self._parts.is_dir() and not self._parts.is_symlink():
            shutil.rmtree(self._parts)

    @property
    def _schema(self) -> pa.Schema:
        values = [(name, pa.float32()) for name in self._names]
        return pa.schema([("episode", pa.int64()), ("frame", pa.int64()), *values])

    def _found(self) -> list[Path]:
        return sorted(self._parts.glob("[0-9]*.parquet"))

    def _save(self, kept: list[tuple[int, NDArray]]) -> None:
        if not kept:
            return
        counts = [values.shape[1] for _, values in kept]
        columns = [
            np.repeat([number for number, _ in kept], counts),
            np.concatenate([np.arange(count) for count in counts]),
            *np.concatenate([values for _, values in kept], axis=1),
        ]
        table = pa.table([pa.array(column) for column in columns], schema=self._schema)
        with whole_file(self._parts / f"{kept[0][0]:09d}.parquet") as partial:
            pq.write_table(table, partial)

    def _read(self, file: Path, names: list[str]) -> pa.Table:
        with guarding(file):
            check_file(file, self.file.parent)
            with pq.ParquetFile(file) as parquet:
                check_fits(8 * len(names) * parquet.metadata.num_rows)
                return parquet.read(columns=names, use_threads=False)

    def load(self) -> "Scores":
        """Return the scores of a table that is finished."""
        read = self._read(self.file, self._schema.names)
        if read.schema.names != self._schema.names:
            raise InputError(
                f"{self.file} must have {self._schema.names}; delete it to begin again"
            )
        columns = {name: read.column(name).to_numpy() for name in ("episode", *self._names)}
        return Scores(columns.pop("episode"), columns)


class Scores:
    """The values of all frames, by episode."""

    def __init__(self, episodes: NDArray, columns: dict[str, NDArray]) -> None:
        """Take the episode of each frame, in order, and the values of all frames by name."""
        self.columns = columns
        count = int(episodes[-1]) + 1 if len(episodes) else 0
        self._starts = np.searchsorted(episodes, np.arange(count + 1))

    def __len__(self) -> int:
        """Return the number of episodes."""
        return len(self._starts) - 1

    def of(self, number: int) -> dict[str, NDArray]:
        """Return the values of an episode's frames, (T + 1,) each, by name."""
        span = slice(self._starts[number], self._starts[number + 1])
        return {name: values[span] for name, values in self.columns.items()}
