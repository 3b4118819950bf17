# SPDX-License-Identifier: Apache-2.0
"""Reads LeRobot datasets of version 3 by pyarrow and PyAV; `lerobot_layout` has their layout."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pureward.data.arrays import make_episode
from pureward.data.episodes import HELD_OUT, TRAIN, Episode
from pureward.data.guard import FETCH, check_file, guarding
from pureward.data.lazy import Images, LazyEpisodes, LazyFrames, decoded_images
from pureward.data.reader import Dataset, Options
from pureward.data.readers.images import decode
from pureward.data.readers.lerobot_layout import (
    Info,
    Place,
    open_parquet,
    read_info,
    read_places,
    read_table,
    runs,
    to_array,
)
from pureward.data.readers.video import codec_of, frames_at, index_of
from pureward.errors import InputError

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
_BATCH = 64  # images in memory before they are decoded


def read(path: Path, options: Options) -> Dataset:
    """Open a dataset; rows and videos of an episode are read when they are needed."""
    with guarding(path / "meta/info.json"):
        info = read_info(path)
        keys = _image_keys(info, options)
    places = read_places(info, keys)
    splits = _splits(info, options)

    def episode(index: int) -> Episode:
        where = f"{path}, episode {index}"
        with guarding(where):
            return _episode(info, places[index], keys, where, splits[index], options)

    lossy = False
    for video, _ in places[0].videos.values():
        with guarding(video):
            check_file(video, path)
            lossy |= codec_of(video)[0]
    episodes = LazyEpisodes(splits, episode)
    images = tuple(map(_short, keys))
    return Dataset(path=path, lossy=lossy, fps=info.fps, images=images, episodes=episodes)


def _image_keys(info: Info, options: Options) -> tuple[str, ...]:
    """Columns of images; `images` may leave out "observation.images."."""
    found = [
        name
        for name, feature in info.features.items()
        if feature.get("dtype") in ("video", "image") and not _is_depth(feature)
    ]
    names = {_short(name): name for name in found}
    if len(names) < len(found):  # "top" and "observation.images.top"
        names = dict(zip(found, found, strict=True))
    if options.images is not None:
        given = tuple(name if name in names else _short(name) for name in options.images)
        options = replace(options, images=given)
    return tuple(names[name] for name in options.chosen(list(names)))


def _short(key: str) -> str:
    """The name of a column of images, as `images` may give it."""
    return key.removeprefix("observation.images.")


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


def _rows(info: Info, place: Place) -> tuple[int, dict[str, NDArray]]:
    """The columns of an episode and its first row in the file; refuse rows of another one."""
    known = place.data.stat()
    names = (*_ROW, *(name for name in _COLUMNS if name in info.features))
    columns, spans = _file(place.data, info.root, names, (known.st_size, known.st_mtime_ns))
    mine = spans.get(place.number, [])
    if len(mine) != 1 or mine[0].stop - mine[0].start != place.length:
        found = sum(span.stop - span.start for span in mine)
        raise InputError(
            f"episode {place.number} must have {place.length} rows in sequence, got {found}; "
            f"{FETCH}"
        )
    rows = {name: column[mine[0]] for name, column in columns.items()}
    _check_rate(info, rows["timestamp"])
    return mine[0].start, rows


def _check_rate(info: Info, timestamps: NDArray) -> None:
    """Refuse rows at another rate than info.json states; films of them would play at it."""
    apart = float(np.median(np.diff(timestamps.astype(np.float64)))) if len(timestamps) > 1 else 0
    if apart > 0 and not 0.5 < apart * info.fps < 2:
        raise InputError(
            f"info.json announces {info.fps:g} frames per second, and rows are {apart:g} s apart; "
            f"{FETCH}"
        )


@lru_cache(maxsize=2)
def _file(
    file: Path, root: Path, names: tuple[str, ...], known: tuple[int, int]
) -> tuple[dict[str, NDArray], dict[int, list[slice]]]:
    """The columns of a file, and the rows of each episode in it."""
    table = read_table(file, root, names)
    columns = {name: to_array(table, name) for name in names}
    spans: dict[int, list[slice]] = {}
    for number, span in runs(columns["episode_index"].reshape(len(table))):
        spans.setdefault(number, []).append(span)
    return columns, spans


def _film(info: Info, video: Path, begins: float, timestamps: NDArray) -> Images:
    """The frames of a video that are nearest to the times of an episode's rows."""
    with guarding(video):
        check_file(video, info.root)
        index = index_of(video)
        wanted = begins + timestamps.astype(np.float64)
        rows = np.searchsorted(index.borders, wanted)
        missing = np.abs(index.clock[rows] - wanted) > 0.5 / info.fps
        if not missing.any():
            missing = np.diff(rows, prepend=-1) < 1
        if not index.timed or missing.any():
            raise InputError(
                "it must have a frame at the time of every row, later than the one before, and has "
                f"none at {wanted[missing.argmax()]:.3f} s; {FETCH}"
            )
    frames = rows.tolist()
    return Images(
        count=len(frames),
        shape=index.shape,
        read=lambda chosen: frames_at(video, [frames[row] for row in chosen]),
    )


def _pictures(info: Info, place: Place, key: str, start: int) -> Images:
    """The images in the rows of an episode, PNG or JPEG."""

    def decoded(rows: Sequence[int]) -> Iterator[NDArray]:
        wanted = {start + row for row in rows}
        with guarding(place.data), open_parquet(place.data, info.root, [key]) as parquet:
            first = 0
            for number in range(parquet.num_row_groups):
                count = parquet.metadata.row_group(number).num_rows
                if not wanted.isdisjoint(range(first, first + count)):
                    yield from _decoded(parquet, number, key, first, wanted)
                first += count

    return decoded_images(place.length, decoded)


def _decoded(
    parquet: pq.ParquetFile, group: int, key: str, first: int, wanted: set[int]
) -> Iterator[NDArray]:
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
