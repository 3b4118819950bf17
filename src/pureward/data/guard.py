# SPDX-License-Identifier: Apache-2.0
"""Limits on the files of untrusted datasets, and errors that name the file."""

import json
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from pureward.data.replay.layout import claimable_bytes, readable
from pureward.errors import InputError, RoomError

FETCH = "the dataset is damaged, fetch or collect it again"

#: Characters of a JSON file; parsing takes about twenty times as much memory.
LARGEST_JSON = 1 << 24

_MOST_PIXELS = 1 << 25  # of one image; a camera of 8K has 33 million

# Errors that Minari, h5py, gymnasium, numpy, zipfile, PyAV, pyarrow and Pillow raise on damaged
# files, by class; those below by module and name, so that no package has to be installed.
_UNREADABLE = (
    OSError,
    EOFError,
    LookupError,
    ValueError,
    TypeError,
    OverflowError,
    RuntimeError,
    AssertionError,
    SyntaxError,
)
_THEIRS = (
    ("PIL.Image", "DecompressionBombError"),
    ("av.error", "FFmpegError"),
    ("pyarrow", "ArrowException"),
    ("tokenize", "TokenError"),
    ("zipfile", "BadZipFile"),
    ("zlib", "error"),
)


@contextmanager
def guarding(where: Path | str) -> Iterator[None]:
    """Raise an InputError that begins with `where` if the block fails to read a file."""
    try:
        yield
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
    except _unreadable() as error:
        # The text of FFmpeg's errors names the file once more.
        said = getattr(error, "strerror", "") if type(error).__module__ == "av.error" else error
        raise InputError(
            f"{where}: cannot be read ({str(said) or type(error).__name__}); it is empty, "
            "truncated or of another format, fetch or collect it again"
        ) from error


def _unreadable() -> tuple[type[Exception], ...]:
    loaded = [(sys.modules.get(module), name) for module, name in _THEIRS]
    return (*_UNREADABLE, *(getattr(module, name) for module, name in loaded if module))


def check_pixels(height: int, width: int) -> None:
    """Refuse an image that is empty, or too large for a camera's."""
    if height < 1 or width < 1 or height * width > _MOST_PIXELS:
        raise InputError(
            f"images must have 1 to {_MOST_PIXELS:,} pixels, got {height}×{width}; {FETCH}"
        )


def check_file(file: Path, root: Path) -> None:
    """Refuse a file that is not regular, or that is outside the folder `root` after links."""
    check_inside(file, root)
    if not stat.S_ISREG(file.stat().st_mode):
        raise InputError(f"{file} must be a regular file, and it is not; {FETCH}")


def check_inside(path: Path, root: Path) -> None:
    """Refuse a path that is outside the folder `root` after links."""
    target = path.resolve()
    if not target.is_relative_to(root.resolve()):
        raise InputError(
            f"{path} must lie in {root}, and it links to {target}; copy the file there"
        )


def check_outside(out: Path, source: str | os.PathLike[str]) -> None:
    """Refuse to write into the folder of a source."""
    if Path(source).is_dir() and out.resolve().is_relative_to(Path(source).resolve()):
        raise InputError(f"{out} must lie outside of {source}, which is only read; choose another")


def check_fits(needed: int) -> None:
    """Refuse that many bytes if less host memory is free."""
    free = claimable_bytes(torch.device("cpu"))
    if free is not None and needed > free:
        raise RoomError(
            f"its values need {readable(needed)} of memory, and {readable(free)} are free; "
            "cut the dataset down"
        )


def check_disk(folder: Path, needed: int, what: Path | str) -> None:
    """Refuse to write that many bytes if the disk of a folder, which may be new, has less free."""
    there = next(part for part in (folder, *folder.absolute().parents) if part.exists())
    free = shutil.disk_usage(there).free
    if needed > free:
        raise InputError(
            f"{what} needs up to {readable(needed)} while it is written, and {folder} has "
            f"{readable(free)} free; free some or choose another disk"
        )


def read_json(file: Path, root: Path) -> Any:
    """Read JSON of limited length from a file in the folder `root`."""
    check_file(file, root)
    with file.open(encoding="utf-8") as opened:
        text = opened.read(LARGEST_JSON + 1)
    if len(text) > LARGEST_JSON:
        raise InputError(
            f"{file} must not be longer than {readable(LARGEST_JSON)}; fetch the dataset "
            "again, or make its images smaller: their bounds are listed pixel by pixel"
        )
    return json.loads(text)
