# SPDX-License-Identifier: Apache-2.0
"""Checks of a dataset's HDF5 file before any value is read from it.

HDF5 files can refer to other files, and can declare far more data than they store. Minari and h5py
follow both, so the whole file is checked first, from its headers.
"""

import math
import mmap
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from pureward.data.guard import FETCH, check_fits
from pureward.data.lazy import per_block
from pureward.data.replay.layout import readable
from pureward.errors import InputError

FILE = "main_data.hdf5"  # as Minari names it

#: Largest ratio of declared to stored bytes. Deflate, the usual filter, reaches 1,032 at most.
_EXPANSION = 1100
_SMALL = 1 << 16  # declared bytes that are always allowed: other filters store constants better

_SUPERBLOCK = b"\x89HDF\r\n\x1a\n"
_HEAP = b"GCOL\x01\0\0\0"  # of version 1, the only one; eight bytes are not found by chance
_HEADER = 16  # bytes, of a heap and of each object in it

_EPISODE = re.compile(r"episode_\d+")
_COLUMNS = ("observations", "actions", "rewards", "terminations", "truncations")


def check_heaps(file: Path) -> None:
    """Refuse a file whose heaps, which hold its text, are damaged: libhdf5 would loop forever."""
    with file.open("rb") as opened:
        size = file.stat().st_size
        if not size:
            return
        with mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
            places = (0, *(512 << k for k in range(size.bit_length())))  # where it may be
            start = next((at for at in places if data[at : at + 8] == _SUPERBLOCK), -1)
            if start < 0:
                return  # h5py refuses it
            sizes = start + (13 if data[start + 8 : start + 9] < b"\x02" else 9)
            if data[sizes : sizes + 2] != b"\x08\x08":
                raise InputError(f"its addresses and lengths must have 8 bytes each; {FETCH}")
            at = data.find(_HEAP)
            while at >= 0:
                _check_heap(data, at)
                at = data.find(_HEAP, at + 1)


def _check_heap(data: mmap.mmap, at: int) -> None:
    def number(place: int, size: int) -> int:
        return int.from_bytes(data[place : place + size], "little")

    end = at + number(at + 8, 8)
    if end > len(data):
        return  # h5py refuses a file that is cut off
    place = at + _HEADER
    while place + _HEADER <= end:
        size = number(place + 8, 8)
        # The size of free space, object 0, includes its header.
        step = size if number(place, 2) == 0 else _HEADER + -(-size // 8) * 8
        if step < _HEADER:  # libhdf5 would read this object again and again
            break
        place += step
    if not end - _HEADER < place <= end:
        raise InputError(f"its text is damaged; {FETCH}")


def check_count(file: Path, episodes: int) -> None:
    """Refuse a file of Minari with another number of episodes than the metadata announces."""
    with h5py.File(file, "r") as root:
        for index in range(episodes):
            if not root.id.links.exists(f"episode_{index}".encode()):
                raise InputError(
                    f"{file}, episode {index}: is missing, though {episodes} are announced; {FETCH}"
                )
        inside = sum(_EPISODE.fullmatch(str(name)) is not None for name in root)
    if inside != episodes:
        raise InputError(f"it holds {inside} episodes, though {episodes} are announced; {FETCH}")


def check_episode(file: Path, index: int, unread: Sequence[str] = ()) -> None:
    """Refuse an episode of Minari that refers to other files, or declares more than it holds.

    Args:
        file: of the dataset.
        index: of the episode.
        unread: columns that need not fit into memory.
    """
    with h5py.File(file, "r") as root:
        group = own_member(root, f"episode_{index}")
        if not isinstance(group, h5py.Group):
            raise InputError(f"it must be a group of columns, and is not; {FETCH}")
        declared = check_group(group, file.stat().st_size)
        for name in _COLUMNS:
            if name not in group:
                raise InputError(f"has no column {name!r}; a dataset needs {', '.join(_COLUMNS)}")
        for name in unread:
            column = group.get(name)
            if not isinstance(column, h5py.Dataset):
                raise InputError(f"{name} must be an array, and is not; {FETCH}")
            declared -= column.nbytes
    check_fits(declared)


def read_splits(file: Path, episodes: int) -> list[str | None]:
    """Return the splits that `pureward collect` wrote with the episodes, None for those without."""
    with h5py.File(file, "r") as root:
        groups = (own_member(root, f"episode_{index}") for index in range(episodes))
        found = [group.attrs.get("split") if group is not None else None for group in groups]
    return [None if split is None else str(split) for split in found]


def check_group(group: h5py.Group, file_bytes: int) -> int:
    """Refuse a group that refers to other files, or declares more than it can hold.

    Args:
        group: of an open file.
        file_bytes: of that file.

    Returns:
        Bytes of all its values in memory.
    """
    stored = declared = 0
    for name, column in _datasets(group):
        if column.external is not None or column.is_virtual:
            kind = "a virtual dataset" if column.is_virtual else "external storage"
            raise InputError(
                f"{name} must be stored in the file itself, and it is {kind}; copy its values into "
                "the file"
            )
        stored += column.id.get_storage_size()
        declared += _check_size(name, column, file_bytes)
    if stored > file_bytes:
        raise InputError(
            f"columns must not share bytes, and {readable(stored)} of them are in a file of "
            f"{readable(file_bytes)}; {FETCH}"
        )
    return declared


def _datasets(root: h5py.Group) -> Iterator[tuple[str, h5py.Dataset]]:
    """Yield all datasets in a file with their path; refuse links and objects with two paths."""
    # Hashes are of the address in the file.
    waiting, seen = [(str(root.name).strip("/"), root)], {hash(root)}
    while waiting:
        path, group = waiting.pop()
        for name in group:
            where = f"{path}/{name}".lstrip("/")
            part = own_member(group, str(name), where)
            if hash(part) in seen:
                raise InputError(f"{where} must have one path only, and it has two; {FETCH}")
            seen.add(hash(part))
            if isinstance(part, h5py.Group):
                waiting.append((where, part))
            elif isinstance(part, h5py.Dataset):
                yield where, part


def rows_at_once(column: h5py.Dataset) -> int:
    """Return how many rows to read together: whole chunks, and about `BLOCK_BYTES`."""
    stored = (column.chunks or (1,))[0]
    row = math.prod(column.shape[1:]) * column.dtype.itemsize
    check_fits(stored * row)
    return math.ceil(per_block(column.shape[1:], column.dtype.itemsize) / stored) * stored


def read_rows(file: Path, column: str, rows: Sequence[int], at_once: int) -> Iterator[NDArray]:
    """Yield increasing rows of a column in blocks."""
    with h5py.File(file, "r") as root:
        for _, group in groupby(rows, key=lambda row: row // at_once):
            wanted = list(group)
            span: Any = root[column][wanted[0] : wanted[-1] + 1]  # type: ignore[index]
            whole = len(span) == len(wanted)
            yield span if whole else span[[row - wanted[0] for row in wanted]]


def own_member(group: h5py.Group, name: str, where: str = "") -> Any:
    """Return a member of a group, or None; refuse a link, which may lead to another file.

    Args:
        group: of an open file.
        name: without slashes.
        where: its path, for the error; "" for the name.
    """
    if not group.id.links.exists(name.encode(errors="surrogateescape")):
        return None  # `name in group` would follow links
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise InputError(
            f"{where or name} must be stored in the file itself, and it is a link; "
            "copy what it links to"
        )
    return group[name]


def _check_size(name: str, column: h5py.Dataset, file_bytes: int) -> int:
    """Return the size of a column in memory; refuse it if the stored bytes cannot hold that."""
    if column.shape is None:  # an HDF5 null dataspace has no values
        return 0
    item = max(column.dtype.itemsize, column.id.get_type().get_size())
    needed = math.prod(column.shape) * item
    stored = column.id.get_storage_size()
    if needed and not _is_written(column):
        raise InputError(
            f"{name} must be stored in full, and of the {readable(needed)} that it declares a part "
            f"was never written; {FETCH}"
        )
    # A chunk is decompressed whole, even if the column is smaller.
    largest = max(needed, math.prod(column.chunks or (0,)) * item)
    if largest > max(_SMALL, _EXPANSION * stored):
        raise InputError(
            f"{name} may declare at most {_EXPANSION:,} times its {readable(stored)} stored, and "
            f"it declares {readable(largest)}; {FETCH}"
        )
    return needed + (_check_lengths(name, column, file_bytes) if column.dtype.hasobject else 0)


def _is_written(column: h5py.Dataset) -> bool:
    """Whether all of a column is in the file; HDF5 fills in values for missing chunks."""
    if column.chunks is None:
        return column.id.get_storage_size() > 0
    grid = (math.ceil(n / m) for n, m in zip(column.shape, column.chunks, strict=True))
    return column.id.get_num_chunks() >= math.prod(grid)


def _check_lengths(name: str, column: h5py.Dataset, file_bytes: int) -> int:
    """Return the size of all variable-length values; refuse more bytes than the file has.

    HDF5 stores each without compression, but many elements may refer to the same bytes. They are
    read one by one, so that only one is in memory.
    """
    is_text = h5py.check_string_dtype(column.dtype) is not None
    base = np.dtype("u1") if is_text else h5py.check_vlen_dtype(column.dtype)
    if base is None or base.hasobject:
        raise InputError(f"{name} must hold numbers, images or text, got {column.dtype}; drop it")
    total = 16 * math.prod(column.shape)  # HDF5's reference to each value
    for place in np.ndindex(column.shape):
        if total > file_bytes:
            break
        total += len(column[place]) * base.itemsize
    if total > file_bytes:
        raise InputError(
            f"{name} must not be longer than the file, {readable(file_bytes)}, and its values "
            f"together are; {FETCH}"
        )
    return total
