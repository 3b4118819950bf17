# SPDX-License-Identifier: Apache-2.0
"""Atomic writing of files and folders, and reading of untrusted files.

Every file of a run is opened by `open_regular`, which refuses links, FIFOs and devices.
"""

import errno
import fcntl
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from pureward.errors import InputError, InUseError

if TYPE_CHECKING:  # torch takes seconds to import, and most files are JSON
    from torch import Tensor

#: Prefix of unfinished files and folders; `clear_leftovers` deletes those of killed processes.
PARTIAL = ".partial-"
_OLD = f"{PARTIAL}old-"
#: Size limit of JSON files, in bytes; ours have a few thousand.
JSON_BYTES = 2**22


def open_regular(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
    """Open a regular file without following links or blocking; an `opener` for `open`.

    Returns:
        A file descriptor.

    Raises:
        InputError: if it is a link, a FIFO, a device, a socket or a folder.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
    except OSError as error:
        # ELOOP: a link. ENXIO: a socket, or a FIFO without a reader.
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
    raise InputError(
        f"{os.fspath(path)} must be a regular file, and is a link, a folder or a device; "
        "put the file itself there"
    )


def read_file(path: Path, most: int = JSON_BYTES) -> bytes:
    """Return the bytes of a regular file.

    Raises:
        InputError: if it is not a regular file, or has more than `most` bytes.
    """
    with open(path, "rb", opener=open_regular) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise InputError(
                f"{path} must have at most {most:,} bytes, and has {size:,}; "
                "restore the file that pureward wrote"
            )
        return file.read(size)


def check_writable(folder: Path) -> None:
    """Refuse a folder that cannot be made or written, before the work whose result it is for."""
    whole = folder.resolve()
    place = next(path for path in (whole, *whole.parents) if os.path.exists(path))
    if not (place.is_dir() and os.access(place, os.W_OK)):
        raise InputError(
            f"{folder} must be a folder that can be written, and {place} is a file or read-only; "
            "choose another"
        )


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path, which is renamed to `path` if the block does not raise."""
    # Processes may write at once, each to its own; the last one wins. A folder, since a writer may
    # create more files beside the one it was given.
    folder = path.with_name(f"{PARTIAL}{os.getpid()}-{path.name}")
    with _claimed(folder):
        try:
            yield folder / path.name
            _publish(folder / path.name, path)
        except OSError as error:
            if error.filename is None:  # errors of write() do not name the file
                error.filename = str(path)
            raise
        finally:
            _delete(folder)


@contextmanager
def whole_folder(path: Path, *, again: bool = False) -> Iterator[Path]:
    """Yield a temporary folder, which is renamed to `path` if the block does not raise.

    Args:
        path: of the folder.
        again: whether it may exist already; then it stays until the new one is complete.
    """
    partial = path.with_name(f"{PARTIAL}{path.name}")
    with _claimed(partial):
        try:
            yield partial
            for inside in partial.rglob("*"):
                _flush(inside)
            old = path.with_name(f"{_OLD}{path.name}")
            if again and path.exists():  # a rename cannot replace a folder that is not empty
                _delete(old)
                os.replace(path, old)
            _publish(partial, path)
            _delete(old)
        except BaseException:  # after publishing, such a folder belongs to another process
            _delete(partial)
            raise


def is_claimed(path: Path) -> bool:
    """Whether another process is writing this folder."""
    return is_held(path.with_name(f"{PARTIAL}{path.name}"))


def is_held(path: Path) -> bool:
    """Whether another process holds the lock of a file or folder."""
    try:
        mine = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return not take_lock(mine, shared=True)
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(mine)


def take_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock an open file or folder; return False if another process has the lock.

    Closing the descriptor unlocks it. Raises OSError on a file system without locks.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _claimed(partial: Path) -> Iterator[None]:
    """Make an empty folder, and hold its lock."""
    partial.parent.mkdir(parents=True, exist_ok=True)
    if not partial.is_dir() or partial.is_symlink():
        partial.unlink(missing_ok=True)
    with locked_folder(partial):
        for left in partial.iterdir():
            _delete(left)
        yield


@contextmanager
def locked_folder(path: Path, wait: float = 0.0) -> Iterator[None]:
    """Make a folder if needed, and hold its lock, which excludes threads and processes.

    Args:
        path: of the folder; not a link.
        wait: seconds to wait for the lock.
    """
    path.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    until = time.monotonic() + wait
    try:
        with suppress(OSError):  # a file system without locks
            while not take_lock(descriptor):
                if time.monotonic() >= until:
                    raise InUseError(
                        f"one process at a time may write a folder, and another is writing {path}; "
                        "wait for it or choose another folder"
                    )
                time.sleep(0.01)
        yield
    finally:
        os.close(descriptor)


def delete_whole(folder: Path) -> None:
    """Delete a folder so that a kill leaves all of it, or only a partial folder to clear."""
    renamed = folder.with_name(f"{PARTIAL}deleted-{folder.name}")
    _delete(renamed)
    os.replace(folder, renamed)
    _delete(renamed)


def clear_leftovers(folder: Path) -> None:
    """Delete the partial files that killed processes left in a folder.

    Files of live processes stay. A folder that was moved aside gets its name back if the new one
    was never published.
    """
    for path in sorted(folder.glob(f"{PARTIAL}*")):
        kept = path.with_name(path.name.removeprefix(_OLD))
        if is_held(path):
            continue
        if kept != path and not path.is_symlink() and not os.path.lexists(kept):
            os.replace(path, kept)
        else:
            _delete(path)


def _delete(path: Path) -> None:
    """Delete a file, a link (not its target), or a folder with its contents."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write_tensors(
    path: Path, tensors: "Mapping[str, Tensor]", metadata: dict[str, str] | None = None
) -> None:
    """Write tensors of any device as safetensors; a full disk raises OSError."""
    from safetensors.torch import save_file  # imports torch

    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(kept, path, metadata=metadata)
    except SafetensorError as error:
        # The OSError is in the text only.
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None:
            raise OSError(f"{path} cannot be written ({error})") from error
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error


@contextmanager
def open_tensors(path: Path) -> Iterator[Any]:
    """Open a safetensors file with `safe_open` if it is a regular file."""
    os.close(open_regular(path))
    with safe_open(path, framework="pt") as file:
        yield file


def shapes_in(file: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors in an open safetensors file, from its header."""
    return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def read_object(path: Path, absent: tuple[type[OSError], ...] = (OSError,)) -> dict[str, Any]:
    """Return the JSON object in a file; {} if it is absent or damaged.

    Args:
        path: of the file.
        absent: errors that mean that the file does not exist; others are raised.
    """
    try:
        value = json.loads(read_file(path))
    except (*absent, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON; its numbers must be finite."""
    text = json.dumps(value, indent=1, allow_nan=False) + "\n"
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def _publish(partial: Path, path: Path) -> None:
    """Rename a finished file or folder, flushed to disk so that it survives a power cut."""
    _flush(partial)
    os.replace(partial, path)
    _flush(path.parent)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
