# SPDX-License-Identifier: Apache-2.0
"""Limits on the files of untrusted datasets, and errors that name the file."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from PIL.Image import DecompressionBombError

from pureward.data.replay.layout import claimable_bytes, readable
from pureward.errors import InputError, RoomError

T = TypeVar("T")

FETCH = "the dataset is damaged, fetch or collect it again"

_LARGEST_JSON = 1 << 24  # characters; parsing takes about twenty times as much memory

# Errors that Minari, h5py, gymnasium and Pillow raise on damaged files.
_UNREADABLE = (
    OSError,
    LookupError,
    ValueError,
    TypeError,
    OverflowError,
    RuntimeError,
    AssertionError,
    DecompressionBombError,
)


def guarded(where: Path | str, read: Callable[[], T]) -> T:
    """Return `read()`; if it fails, raise an InputError that begins with `where`."""
    try:
        return read()
    except InputError as error:
        if str(error).startswith(str(where)):
            raise
        raise type(error)(f"{where}: {error}") from error
    except ImportError as error:
        raise InputError(
            f"{where}: its format needs another package ({error}); install it"
        ) from error
    except MemoryError as error:
        raise RoomError(
            f"{where}: does not fit into memory ({error}); it is damaged or too large, cut it down"
        ) from error
    except _UNREADABLE as error:
        raise InputError(
            f"{where}: cannot be read ({str(error) or type(error).__name__}); it is empty, "
            "truncated or not a Minari dataset, fetch or collect it again"
        ) from error


def check_file(file: Path, root: Path) -> None:
    """Refuse a file that is not regular, or that is outside the folder `root` after links."""
    target = file.resolve()
    if not target.is_relative_to(root.resolve()):
        raise InputError(
            f"{file} must lie in {root}, and it links to {target}; copy the file there"
        )
    if not stat.S_ISREG(file.stat().st_mode):
        raise InputError(f"{file} must be a regular file, and it is not; {FETCH}")


def check_fits(needed: int) -> None:
    """Refuse that many bytes if less host memory is free."""
    free = claimable_bytes(torch.device("cpu"))
    if free is not None and needed > free:
        raise RoomError(
            f"its values need {readable(needed)} of memory, and {readable(free)} are free; "
            "cut the dataset down"
        )


def read_json(file: Path, root: Path) -> Any:
    """Read JSON of limited length from a file in the folder `root`."""
    check_file(file, root)
    with file.open(encoding="utf-8") as opened:
        text = opened.read(_LARGEST_JSON + 1)
    if len(text) > _LARGEST_JSON:
        raise InputError(
            f"{file} must not be longer than {readable(_LARGEST_JSON)}; fetch the dataset "
            "again, or make its images smaller: their bounds are listed pixel by pixel"
        )
    return json.loads(text)
