# SPDX-License-Identifier: Apache-2.0
"""Reads LeRobot datasets of version 3 by pyarrow and PyAV.

meta/info.json names the columns, meta/episodes says which rows of which file belong to an episode,
data/ has the rows as parquet, and videos/ or the rows have the images.
"""

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pureward.data.arrays import make_episode
from pureward.data.dataset import Dataset, Options
from pureward.data.episodes import HELD_OUT, TRAIN, Episode
from pureward.data.guard import FETCH, check_file, check_fits, check_inside, guarding, read_json
from pureward.data.lazy import Images, LazyEpisodes, LazyFrames
from pureward.data.readers.images import decode
from pureward.data.readers.recognise import in_order
from pureward.data.readers.video import frames_at, index_of, is_lossy
from pureward.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Columns of a step, and the names of ours.
_COLUMNS = {
    "next.reward": "rewards",
    "next.success": "success",
    "next.done": "done",
    "action": "actions",
    "observation.state": "state",
}
_ROW = ("episode_index", "timestamp")
_HELD_OUT = ("val", "valid", "validation", "test")
_FIELD = re.compile(r"{(\w+)(?::0(\d+)d)?}")  # all that the templates of paths may use
_EXPANSION = 1100  # parquet stores equal values once; whole files are not compressed more
_SMALL = 1 << 24  # bytes of columns that are always allowed
_BATCH = 64  # images in memory before they are decoded


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

    def columns(self) -> list[str]:
        """Names of the columns that an episode is made of."""
        return [*_ROW, *(name for name in _COLUMNS if name in self.features)]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where an episode is stored."""

    number: int
    length: int
    data: Path
    videos: dict[str, tuple[Path, float]]
    """Of each camera: the video and the time in it at which the episode begins, in seconds."""


def read(path: Path, options: Options) -> Dataset:
    """Open a dataset; rows and videos of an episode are read when they are needed."""
    with guarding(path / "meta/info.json"):
        info = _info(path)
        keys = _image_keys(info, options)
    places = _places(info, keys)
    splits = _splits(info, options)

    def episode(index: int) -> Episode:
        where = f"{path}, episode {index}"
        with guarding(where):
            return _episode(info, places[index], keys, where, splits[index], options)

    lossy = False
    for video, _ in places[0].videos.values():
        with guarding(video):
            check_file(video, path)
            lossy |= is_lossy(video)
    return Dataset(path=path, lossy=lossy, episodes=LazyEpisodes(splits, episode))


def _info(root: Path) -> Info:
    told = read_json(root / "meta/info.json", root)
    version = told.get("codebase_version") if isinstance(told, dict) else None
    if not (isinstance(version, str) and version.startswith("v3.")):
        raise InputError(
            f"codebase_version must be v3.0, got {version!r}; convert the dataset with LeRobot's "
            "convert_dataset_v21_to_v30"
        )
    rules = (
        ("fps", int | float, lambda v: math.isfinite(v) and v > 0),
        ("total_episodes", int, lambda v: v > 0),
        ("total_frames", int, lambda v: v > 0),
        ("data_path", str, bool),
        ("features", dict, lambda v: all(isinstance(one, dict) for one in v.values())),
    )
    for name, kind, holds in rules:
        value = told.get(name)
        if not isinstance(value, kind) or isinstance(value, bool) or not holds(value):
            raise InputError(f"{name} must be a valid {kind}, got {value!r:.60}; {FETCH}")
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


def _image_keys(info: Info, options: Options) -> tuple[str, ...]:
    """Columns of images; `images` may leave out "observation.images."."""
    found = [
        name
        for name, feature in info.features.items()
        if feature.get("dtype") in ("video", "image") and not _is_depth(feature)
    ]
    if options.images is None:
        if len(found) != 1:
            raise InputError(
                f"there must be one image, got {found}; say which, in the order of their channels: "
                "images=(...)"
            )
        return (found[0],)
    names = {name.removeprefix("observation.images."): name for name in found}
    for name in options.images:
        if name not in found and name not in names:
            raise InputError(f"unknown image {name!r}; choose from {list(names)}")
    return tuple(name if name in found else names[name] for name in options.images)


def _is_depth(feature: dict[str, Any]) -> bool:
    info = feature.get("info")
    return isinstance(info, dict) and bool(
        info.get("is_depth_map") or info.get("video.is_depth_map")
    )


def _splits(info: Info, options: Options) -> list[str]:
    """Those of info.json, such as {"train": "0:40", "val": "40:50"}; by share if all are one."""
    splits = [TRAIN] * info.episodes
    for name, span in info.splits.items():
        match = re.fullmatch(r"(\d{1,15}):(\d{1,15})", span) if isinstance(span, str) else None
        if name in _HELD_OUT and match is not None:
            start, stop = (min(int(n), info.episodes) for n in match.groups())
            splits[start:stop] = [HELD_OUT] * max(0, stop - start)
    return splits if HELD_OUT in splits else options.splits(info.episodes)


# Where episodes are.


def _places(info: Info, keys: tuple[str, ...]) -> list[Place]:
    """Read meta/episodes; refuse what disagrees with info.json."""
    videos = [key for key in keys if info.features[key].get("dtype") == "video"]
    names = ["episode_index", "length", "data/chunk_index", "data/file_index"]
    for key in videos:
        names += [f"videos/{key}/{part}" for part in ("chunk_index", "file_index")]
        names.append(f"videos/{key}/from_timestamp")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    folder = info.root / "meta/episodes"
    with guarding(folder):
        check_inside(folder, info.root)
        chunks = sorted(folder.glob("chunk-*"), key=in_order)
        for chunk in chunks:
            check_inside(chunk, info.root)
    for file in (f for chunk in chunks for f in sorted(chunk.glob("file-*.parquet"), key=in_order)):
        with guarding(file):
            table = _table(file, info.root, names)
            for name in names:
                columns[name] += table.column(name).to_pylist()
    with guarding(folder):
        order = columns["episode_index"]
        if len(order) != info.episodes or order != list(range(info.episodes)):
            raise InputError(
                f"info.json announces {info.episodes} episodes, and {len(order)} are listed here, "
                f"or out of order; {FETCH}"
            )
        for name, values in columns.items():
            least = int(name == "length")
            if any(not isinstance(v, int | float) or not least <= v < 2**53 for v in values):
                raise InputError(f"{name} must be numbers from {least}; {FETCH}")
        if sum(columns["length"]) != info.frames:
            raise InputError(
                f"info.json announces {info.frames} frames, and the episodes have "
                f"{sum(columns['length'])}; {FETCH}"
            )
        return [_place(info, videos, i, {n: v[i] for n, v in columns.items()}) for i in order]


def _place(info: Info, videos: list[str], number: int, row: dict[str, Any]) -> Place:
    found = {}
    for key in videos:
        chunk, file = row[f"videos/{key}/chunk_index"], row[f"videos/{key}/file_index"]
        film = _path(info, info.video_path, video_key=key, chunk_index=chunk, file_index=file)
        found[key] = (film, float(row[f"videos/{key}/from_timestamp"]))
    chunk, file = row["data/chunk_index"], row["data/file_index"]
    return Place(
        number=number,
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


# Rows and images of an episode.


def _episode(
    info: Info, place: Place, keys: tuple[str, ...], where: str, split: str, options: Options
) -> Episode:
    with guarding(place.data):
        start, rows = _rows(info, place)
    cameras = [
        _film(info, *place.videos[key], rows["timestamp"])
        if key in place.videos
        else _pictures(info, place, key, start)
        for key in keys
    ]
    # The state that the last action led to is not stored.
    frames = LazyFrames(cameras, where=where, size=options.size, repeat_last=True)
    numbers = {ours: rows[name] for name, ours in _COLUMNS.items() if name in rows}
    done = numbers.pop("done", None)
    if "state" in numbers:
        numbers["state"] = np.concatenate([numbers["state"], numbers["state"][-1:]])
    ended = done is not None and bool(np.reshape(done, -1)[-1])
    return make_episode(frames, numbers, split=split, terminated=ended)


def _rows(info: Info, place: Place) -> "tuple[int, dict[str, NDArray]]":
    """The columns of an episode and its first row in the file; refuse rows of another one."""
    known = place.data.stat()
    names = tuple(info.columns())
    table = _cached(place.data, info.root, names, (known.st_size, known.st_mtime_ns))
    mine = np.flatnonzero(_array(table, "episode_index") == place.number)
    if len(mine) != place.length or mine[-1] - mine[0] + 1 != len(mine):
        raise InputError(
            f"episode {place.number} must have {place.length} rows in sequence, got {len(mine)}; "
            f"{FETCH}"
        )
    part = table.slice(int(mine[0]), len(mine))
    return int(mine[0]), {name: _array(part, name) for name in names}


@lru_cache(maxsize=2)
def _cached(file: Path, root: Path, names: tuple[str, ...], known: tuple[int, int]) -> pa.Table:
    return _table(file, root, names)


def _table(file: Path, root: Path, names: Sequence[str]) -> pa.Table:
    """Some columns of a file."""
    with _opened(file, root, names) as parquet:
        return parquet.read(columns=list(names), use_threads=False)


@contextmanager
def _opened(file: Path, root: Path, names: Sequence[str]) -> Iterator[pq.ParquetFile]:
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


def _array(table: pa.Table, name: str) -> "NDArray":
    """A column of numbers, or of lists of one length."""
    column = table.column(name).combine_chunks()
    rows = len(column)
    if rows and pa.types.is_list(column.type):
        lengths = {len(one) for one in column}
        if len(lengths) > 1:
            raise InputError(f"{name} must be lists of one length, got {sorted(lengths)}; {FETCH}")
    while pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type):
        column = column.flatten()
    if column.null_count:
        raise InputError(f"{name} must have a value in every row, and has gaps; {FETCH}")
    array = column.to_numpy(zero_copy_only=False)
    return array if len(array) == rows else array.reshape(rows, -1)


def _film(info: Info, video: Path, begins: float, timestamps: "NDArray") -> Images:
    """The frames of a video that are nearest to the times of an episode's rows."""
    with guarding(video):
        check_file(video, info.root)
        index = index_of(video)
        times = index.clock
        wanted = begins + timestamps.astype(np.float64)
        rows = np.searchsorted((times[1:] + times[:-1]) / 2, wanted)
        far = np.abs(times[rows] - wanted) > 0.5 / info.fps
        if not index.timed or far.any() or (np.diff(rows) < 1).any():
            raise InputError(
                f"it must have a frame at the time of every row, and has none at "
                f"{wanted[far.argmax()]:.3f} s; {FETCH}"
            )
    frames = rows.tolist()
    return Images(
        count=len(frames),
        shape=index.shape,
        read=lambda chosen: frames_at(video, [frames[row] for row in chosen]),
    )


def _pictures(info: Info, place: Place, key: str, start: int) -> Images:
    """The images in the rows of an episode, PNG or JPEG."""

    def read(rows: Sequence[int]) -> "Iterator[NDArray]":
        wanted = {start + row for row in rows}
        with guarding(place.data), _opened(place.data, info.root, [key]) as parquet:
            first = 0
            for number in range(parquet.num_row_groups):
                count = parquet.metadata.row_group(number).num_rows
                if not wanted.isdisjoint(range(first, first + count)):
                    yield from _decoded(parquet, number, key, first, wanted)
                first += count

    return Images(count=place.length, shape=next(read([0])).shape, read=read)


def _decoded(
    parquet: pq.ParquetFile, group: int, key: str, first: int, wanted: set[int]
) -> "Iterator[NDArray]":
    """The wanted images of a row group that begins with row `first`."""
    batches = parquet.iter_batches(_BATCH, row_groups=[group], columns=[key], use_threads=False)
    for batch in batches:
        column = batch.column(0)
        if not pa.types.is_struct(column.type) or column.type.get_field_index("bytes") < 0:
            raise InputError(f"{key} must hold images as bytes, got {column.type}; {FETCH}")
        for row, image in enumerate(column.field("bytes"), start=first):
            if row not in wanted:
                continue
            if not image.is_valid:
                raise InputError(f"{key} must hold the image of row {row} itself; {FETCH}")
            yield decode(BytesIO(image.as_py()))
        first += len(batch)
