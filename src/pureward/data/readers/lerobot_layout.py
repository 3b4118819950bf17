# SPDX-License-Identifier: Apache-2.0
"""The layout of LeRobot datasets of version 3, and guarded reading of their parquet files.

meta/info.json names the columns, meta/episodes says which rows of which file belong to an episode,
data/ has the rows as parquet, and videos/ or the rows have the images.
"""

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pureward.data.guard import FETCH, check_file, check_fits, check_inside, guarding, read_json
from pureward.data.readers.recognise import in_order
from pureward.errors import InputError

_FIELD = re.compile(r"{(\w+)(?::0(\d+)d)?}")  # all that the templates of paths may use
_EXPANSION = 1100  # parquet stores equal values once; whole files are not compressed more
_SMALL = 1 << 24  # bytes of columns that are always allowed


@dataclass(frozen=True, kw_only=True)
class Info:
    """What meta/info.json says."""

    root: Path
    fps: float
    episodes: int
    frames: int
    data_path: str
    video_path: str
    features: dict[str, dict[str, Any]]
    splits: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where an episode is stored."""

    number: int
    length: int
    data: Path
    videos: dict[str, tuple[Path, float]]
    """Of each camera: the video and the time in it at which the episode begins, in seconds."""


def read_info(root: Path) -> Info:
    """Read meta/info.json; refuse another version, and values that are not valid."""
    told = read_json(root / "meta/info.json", root)
    version = told.get("codebase_version") if isinstance(told, dict) else None
    if not (isinstance(version, str) and version.startswith("v3.")):
        raise InputError(
            f"codebase_version must be v3.0, got {version!r}; convert the dataset with LeRobot's "
            "convert_dataset_v21_to_v30"
        )
    rules = (
        ("fps", int | float, "a number above 0", lambda v: math.isfinite(v) and v > 0),
        ("total_episodes", int, "a whole number above 0", lambda v: v > 0),
        ("total_frames", int, "a whole number above 0", lambda v: v > 0),
        ("data_path", str, "text", bool),
        ("features", dict, "objects", lambda v: all(isinstance(one, dict) for one in v.values())),
    )
    for name, kind, words, holds in rules:
        value = told.get(name)
        if not isinstance(value, kind) or isinstance(value, bool) or not holds(value):
            raise InputError(f"{name} must be {words}, got {value!r:.60}; {FETCH}")
    splits = told.get("splits")
    return Info(
        root=root,
        fps=float(told["fps"]),
        episodes=told["total_episodes"],
        frames=told["total_frames"],
        data_path=told["data_path"],
        video_path=str(told.get("video_path") or ""),
        features=told["features"],
        splits=splits if isinstance(splits, dict) else {},
    )


def read_places(info: Info, keys: tuple[str, ...]) -> list[Place]:
    """Return where episodes are, from meta/episodes; refuse what disagrees with info.json.

    Args:
        info: of the dataset.
        keys: of the images whose videos are wanted.
    """
    videos = [key for key in keys if info.features[key].get("dtype") == "video"]
    names = ["episode_index", "length", "data/chunk_index", "data/file_index"]
    for key in videos:
        names += [f"videos/{key}/{part}" for part in ("chunk_index", "file_index")]
        names.append(f"videos/{key}/from_timestamp")
    rows: list[dict[str, Any]] = []
    folder = info.root / "meta/episodes"
    with guarding(folder):
        check_inside(folder, info.root)
        chunks = sorted(folder.glob("chunk-*"), key=in_order)
        for chunk in chunks:
            check_inside(chunk, info.root)
    for file in (f for chunk in chunks for f in sorted(chunk.glob("file-*.parquet"), key=in_order)):
        with guarding(file):
            rows += read_table(file, info.root, names).to_pylist()
    with guarding(folder):
        order = [row["episode_index"] for row in rows]
        if len(order) != info.episodes or order != list(range(info.episodes)):
            raise InputError(
                f"info.json announces {info.episodes} episodes, and {len(order)} are listed here, "
                f"or out of order; {FETCH}"
            )
        for name in names:
            least, values = int(name == "length"), [row[name] for row in rows]
            if not all(isinstance(v, int | float) and least <= v < 2**53 for v in values):
                raise InputError(f"{name} must be numbers from {least}; {FETCH}")
        frames = sum(row["length"] for row in rows)
        if frames != info.frames:
            raise InputError(
                f"info.json announces {info.frames} frames, and the episodes have {frames}; {FETCH}"
            )
        return [_place(info, videos, row) for row in rows]


def _place(info: Info, videos: list[str], row: dict[str, Any]) -> Place:
    found = {}
    for key in videos:
        chunk, file = row[f"videos/{key}/chunk_index"], row[f"videos/{key}/file_index"]
        film = _path(info, info.video_path, video_key=key, chunk_index=chunk, file_index=file)
        found[key] = (film, float(row[f"videos/{key}/from_timestamp"]))
    chunk, file = row["data/chunk_index"], row["data/file_index"]
    return Place(
        number=row["episode_index"],
        length=row["length"],
        data=_path(info, info.data_path, chunk_index=chunk, file_index=file),
        videos=found,
    )


def _path(info: Info, template: str, **fields: Any) -> Path:
    """Fill a template; `str.format` would also look up attributes that a template names."""

    def filled(match: re.Match[str]) -> str:
        name, digits = match.groups()
        if name not in fields or (digits and len(digits) > 2):
            raise InputError(f"a path may use {sorted(fields)}, got {template!r}; {FETCH}")
        return str(fields[name]).zfill(int(digits or 0))

    relative = Path(_FIELD.sub(filled, template))
    if relative.is_absolute() or ".." in relative.parts or "\0" in str(relative):
        raise InputError(f"a path must stay in the dataset's folder, got {template!r}; {FETCH}")
    return info.root / relative


def read_table(file: Path, root: Path, names: Sequence[str]) -> pa.Table:
    """Return some columns of a parquet file in the folder `root`."""
    with open_parquet(file, root, names) as parquet:
        return parquet.read(columns=list(names), use_threads=False)


@contextmanager
def open_parquet(file: Path, root: Path, names: Sequence[str]) -> Iterator[pq.ParquetFile]:
    """Open a file; refuse one without some columns, or with more values than it can hold."""
    check_file(file, root)
    with pq.ParquetFile(file, memory_map=False) as parquet:
        missing = [name for name in names if name not in parquet.schema_arrow.names]
        if missing:
            raise InputError(f"it must have a column {missing[0]!r}, and has none; {FETCH}")
        groups = map(parquet.metadata.row_group, range(parquet.metadata.num_row_groups))
        columns = (group.column(i) for group in groups for i in range(group.num_columns))
        prefixes = tuple(f"{name}." for name in names)
        values = sum(c.num_values for c in columns if f"{c.path_in_schema}.".startswith(prefixes))
        if 16 * values > max(_SMALL, _EXPANSION * file.stat().st_size):
            raise InputError(
                f"its {file.stat().st_size:,} bytes cannot hold the {values:,} values that it "
                f"declares; {FETCH}"
            )
        check_fits(16 * values)
        yield parquet


def to_array(table: pa.Table, name: str) -> NDArray:
    """Return a column of numbers, or of lists of one length, (rows,) or (rows, length)."""
    column = table.column(name).combine_chunks()
    rows = len(column)
    if rows and pa.types.is_list(column.type):
        lengths = pc.unique(pc.list_value_length(column)).to_pylist()  # type: ignore
        if len(lengths) > 1:
            raise InputError(f"{name} must be lists of one length, got {lengths}; {FETCH}")
    while pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type):
        column = column.flatten()
    if column.null_count:
        raise InputError(f"{name} must have a value in every row, and has gaps; {FETCH}")
    array = column.to_numpy(zero_copy_only=False)
    return array if len(array) == rows else array.reshape(rows, -1)


def runs(numbers: NDArray) -> Iterator[tuple[Any, slice]]:
    """Yield each run of equal numbers, (rows,): the number and its rows."""
    borders = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for start, stop in pairwise(borders) if len(numbers) else ():
        yield numbers[start].item(), slice(start, stop)
