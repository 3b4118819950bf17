# SPDX-License-Identifier: Apache-2.0
"""Checks of a dataset's HDF5 file before any value is read from it.

HDF5 can name data in other files, and can declare far more data than it stores. Minari and h5py
follow both, so everything in the file is checked first, from its headers alone.
"""

import math
import re
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np

from pureward.data.guard import FETCH, check_fits
from pureward.data.replay.layout import readable
from pureward.errors import InputError

FILE = "main_data.hdf5"  # Minari's name for it

#: Declared bytes per stored byte. Deflate, the filter that everybody uses, reaches 1,032 at most.
_EXPANSION = 1100
_SMALL = 1 << 16  # declared bytes that are always allowed: other filters store constants better

_EPISODE = re.compile(r"episode_\d+")
_COLUMNS = ("observations", "actions", "rewards", "terminations", "truncations")


def check_hdf5(file: Path, episodes: int, steps: object = None) -> None:
    """Refuse an HDF5 file that reaches outside itself, or declares more than it can hold.

    Args:
        file: the dataset's.
        episodes: how many its metadata announces.
        steps: how many its metadata announces in all episodes together; None if it does not.
    """
    size = file.stat().st_size
    stored = declared = 0
    with h5py.File(file, "r") as root:
        for name, column in _datasets(root):
            _check_own(name, column)
            stored += column.id.get_storage_size()
            declared += _check_size(name, column, size)
        _check_episodes(file, root, episodes, steps)
    if stored > size:
        raise InputError(
            f"columns must not share bytes, and {readable(stored)} of them are in a file of "
            f"{readable(size)}; {FETCH}"
        )
    check_fits(declared)


def _check_episodes(file: Path, root: h5py.File, episodes: int, steps: object) -> None:
    """Refuse episodes without all columns, or other numbers of them than are announced."""
    found = 0
    for index in range(episodes):
        group = root.get(f"episode_{index}")
        if not isinstance(group, h5py.Group):
            raise InputError(
                f"{file}, episode {index}: is missing, though {episodes} are announced; {FETCH}"
            )
        missing = [name for name in _COLUMNS if name not in group]
        if missing:
            raise InputError(
                f"{file}, episode {index}: has no column {missing[0]!r}; "
                f"a dataset needs {', '.join(_COLUMNS)}"
            )
        rewards = group["rewards"]
        found += len(rewards) if isinstance(rewards, h5py.Dataset) and rewards.shape else 0
    inside = sum(_EPISODE.fullmatch(str(name)) is not None for name in root)
    if inside != episodes:
        raise InputError(f"it holds {inside} episodes, though {episodes} are announced; {FETCH}")
    if steps not in (None, found):
        raise InputError(f"it holds {found} steps, though {steps} are announced; {FETCH}")


def _datasets(root: h5py.Group) -> Iterator[tuple[str, h5py.Dataset]]:
    """All datasets in a file, by path; refuses links and objects that have two paths."""
    waiting, seen = [("", root)], {hash(root)}  # h5py's hash is of the place in the file
    while waiting:
        path, group = waiting.pop()
        for name in group:
            where = f"{path}/{name}".lstrip("/")
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise InputError(
                    f"{where} must be stored in the file itself, and it is a link to another "
                    "place; copy what it links to"
                )
            part = group[name]
            if hash(part) in seen:
                raise InputError(f"{where} must have one path only, and it has two; {FETCH}")
            seen.add(hash(part))
            if isinstance(part, h5py.Group):
                waiting.append((where, part))
            elif isinstance(part, h5py.Dataset):
                yield where, part


def _check_own(name: str, column: h5py.Dataset) -> None:
    """Refuse values that lie in other files."""
    for is_elsewhere, kind in (
        (column.external is not None, "external storage"),
        (column.is_virtual, "a virtual dataset"),
    ):
        if is_elsewhere:
            raise InputError(
                f"{name} must be stored in the file itself, and it is {kind}; copy its values "
                "into the file"
            )


def _check_size(name: str, column: h5py.Dataset, file_bytes: int) -> int:
    """Return the bytes of a column once read; refuse it if what is stored cannot be that much."""
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
    """Whether all of a column is in the file; HDF5 makes up values for what is not."""
    if column.chunks is None:
        return column.id.get_storage_size() > 0
    grid = (math.ceil(n / m) for n, m in zip(column.shape, column.chunks, strict=True))
    return column.id.get_num_chunks() >= math.prod(grid)


def _check_lengths(name: str, column: h5py.Dataset, file_bytes: int) -> int:
    """Return the bytes of all variable-length values; refuse more than the file has.

    HDF5 stores each without compression, but any number of elements may refer to the same bytes.
    They are read one by one, so that only one is in memory.
    """
    is_text = h5py.check_string_dtype(column.dtype) is not None
    base = np.dtype("u1") if is_text else h5py.check_vlen_dtype(column.dtype)
    if base is None or base.hasobject:
        raise InputError(f"{name} must hold numbers, images or text, got {column.dtype}; drop it")
    total = 16 * math.prod(column.shape)  # HDF5's own record of where each value is
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
