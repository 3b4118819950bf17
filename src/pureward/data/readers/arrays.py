# SPDX-License-Identifier: Apache-2.0
"""Reads .npy and .npz files of images, rows at a time and never as pickles."""

import math
import os
import zipfile
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from pureward.data.arrays import COLUMNS, check_several, make_episode
from pureward.data.episodes import Episode
from pureward.data.guard import FETCH, check_file, check_fits, guarding
from pureward.data.lazy import Images, LazyEpisodes, LazyFrames, per_block
from pureward.data.reader import Dataset, Options, check_image
from pureward.data.readers.recognise import is_array, list_episodes
from pureward.errors import InputError

_NUMBERS = (*COLUMNS, "state")  # what is read beside images
_EXPANSION = 1100  # deflate, the filter of .npz, reaches 1,032 at most


@dataclass(frozen=True, kw_only=True)
class Column:
    """An array in a file."""

    shape: tuple[int, ...]
    dtype: np.dtype
    rows: Callable[[tuple[int, ...], int, int], Iterator[NDArray]]
    """Called with the shape of a row, a start and a stop; yields these rows in blocks."""

    def all(self) -> NDArray:
        """Read all of it; refuse if it does not fit into memory."""
        check_fits(math.prod(self.shape) * self.dtype.itemsize)
        if not self.shape:
            raise InputError("a column must have a row per step, got a single number; drop it")
        blocks = list(self.rows(self.shape[1:], 0, self.shape[0]))
        return np.concatenate(blocks) if blocks else np.empty(self.shape, self.dtype)


def read(path: Path, options: Options) -> Dataset:
    """Open a file, or all files of a folder; a file has one episode, or several of one length."""
    files = list_episodes(path, is_array)
    places: list[tuple[Path, int | None, str]] = []
    for file, split in files:
        with guarding(file):
            columns = _columns(file, path)
            images = _images(columns, options)
            _check_names(columns, images)
            shape = images[0].shape
        numbers = range(shape[0]) if len(shape) == 5 else (None,)  # the first axis counts episodes
        places += [(file, number, split) for number in numbers]
    splits = options.fill([split for _, _, split in places])

    def episode(index: int) -> Episode:
        file, number, _ = places[index]
        where = str(file) if number is None else f"{file}, episode {number}"
        with guarding(where):
            return _episode(where, file, path, number, splits[index], options)

    return Dataset(
        path=path,
        states_ends=False,
        images=options.images or (),
        episodes=LazyEpisodes(splits, episode),
    )


def _episode(
    where: str, file: Path, root: Path, number: int | None, split: str, options: Options
) -> Episode:
    columns = _columns(file, root)
    images = _images(columns, options)
    count = images[0].shape[0]  # of episodes, if there are several in the file
    cameras = [_camera(column, number) for column in images]
    frames = LazyFrames(cameras, where=where, size=options.size)
    numbers = {}
    for name in _NUMBERS:
        if name in columns:
            with guarding(f"{where}, {name}"):
                values = columns[name].all()
                if number is not None and len(values) != count:
                    raise InputError(
                        f"it must have {count} rows, one per episode, got {len(values)}; "
                        "repair the file"
                    )
                numbers[name] = values if number is None else values[number]
    return make_episode(frames, numbers, split=split)


def _images(columns: dict[str, Column], options: Options) -> list[Column]:
    """The columns of images: those named, "frames", or the only one with four axes or more."""
    named = options.images or (("frames",) if "frames" in columns else None)
    if named is None:
        named = tuple(name for name, column in columns.items() if len(column.shape) >= 4)
        if len(named) != 1:
            raise InputError(
                f"one array must be images, (time, height, width, 3), got {list(named)} of "
                f"{list(columns)}; name it frames, or pass images=(...), --images NAME"
            )
    found = [name for name in columns if name not in _NUMBERS]
    for name in named:
        check_image(name, found)
        if not 3 <= len(columns[name].shape) <= 5 or 0 in columns[name].shape:
            raise InputError(
                f"{name} must be images, (time, height, width, 3), got shape "
                f"{columns[name].shape}; pass images=(...), --images NAME, to choose another"
            )
        check_several(columns[name].shape)
    return [columns[name] for name in named]


def _check_names(columns: dict[str, Column], images: list[Column]) -> None:
    """Refuse numbers of an unknown name; images that were not chosen may be left."""
    axes = 4 if len(images[0].shape) == 5 else 3  # of images, at least
    for name, column in columns.items():
        if name not in _NUMBERS and column not in images and len(column.shape) < axes:
            near = get_close_matches(name.lower(), _NUMBERS, n=1)
            meant = f" (did you mean {near[0]}?)" if near else ""
            raise InputError(
                f"arrays beside the images must be named {', '.join(_NUMBERS)}, got {name!r}"
                f"{meant}, which would not be read; rename it, or drop it"
            )


def _camera(column: Column, number: int | None) -> Images:
    """The images of an episode, which may be one of several in the column."""
    shape = column.shape if number is None else column.shape[1:]
    begin = (number or 0) * shape[0]

    def read(rows: Sequence[int]) -> Iterator[NDArray]:
        first = rows[0]
        for block in column.rows(shape[1:], begin + first, begin + rows[-1] + 1):
            start, stop = (bisect_left(rows, row) for row in (first, first + len(block)))
            if stop - start == len(block):
                yield block
            elif stop > start:
                yield block[[row - first for row in rows[start:stop]]]
            first += len(block)

    return Images(count=shape[0], shape=shape[1:], read=read)


def _columns(file: Path, root: Path) -> dict[str, Column]:
    """The arrays in a file, by name; an .npy file has one, named frames."""
    check_file(file, root)
    if file.suffix.lower() == ".npy":
        with file.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            return {"frames": _column(stream, size, partial(file.open, "rb"))}
    found = {}
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            if not info.filename.endswith(".npy"):
                continue
            if info.file_size > max(1 << 16, _EXPANSION * info.compress_size):
                raise InputError(
                    f"{info.filename} declares {info.file_size:,} bytes, more than {_EXPANSION:,} "
                    f"times the {info.compress_size:,} that are stored; {FETCH}"
                )
            name = info.filename.removesuffix(".npy")
            with guarding(f"{file}, {name}"), archive.open(info) as stream:
                opened = partial(_open_member, file, info.filename)
                found[name] = _column(stream, info.file_size, opened)
    return found


def _open_member(file: Path, name: str) -> IO[bytes]:
    return zipfile.ZipFile(file).open(name)  # closed with the last reference to it


def _column(stream: IO[bytes], stored: int, opened: Callable[[], Any]) -> Column:
    """The array in a stream of `stored` bytes; `opened` opens it again."""
    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise InputError(f"its .npy version must be 1.0 or 2.0, got {version}; save it again")
    header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = header(stream)
    if dtype.hasobject or dtype.fields is not None or dtype.itemsize == 0:
        raise InputError(
            f"arrays must be of numbers, got {dtype}, which would need pickle; save each episode "
            "as an array of its own, in a file of its own"
        )
    if fortran and len(shape) > 1:
        raise InputError("arrays must be in C order; save np.ascontiguousarray of it")
    start, size = stream.tell(), math.prod(shape) * dtype.itemsize
    if any(side < 0 for side in shape) or start + size != stored:
        raise InputError(
            f"an array of shape {shape} needs {start + size:,} bytes, and {stored:,} are stored; "
            f"{FETCH}"
        )

    def rows(row: tuple[int, ...], first: int, stop: int) -> Iterator[NDArray]:
        with opened() as again:
            again.seek(start + first * math.prod(row) * dtype.itemsize)
            while first < stop:
                block = np.empty((min(per_block(row, dtype.itemsize), stop - first), *row), dtype)
                room = block.reshape(-1).view(np.uint8)
                first += len(block)
                if again.readinto(room) != room.nbytes:
                    raise InputError(f"it ends before row {first}; {FETCH}")
                yield block

    return Column(shape=shape, dtype=dtype, rows=rows)
