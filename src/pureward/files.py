# SPDX-License-Identifier: Apache-2.0
"""Files and folders that appear whole or not at all, and reading that trusts no file.

Every file of a run is opened by `open_regular`: a link, a FIFO or a device in its place is refused.
"""

import errno
import fcntl
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from pureward.errors import InputError, InUseError

#: Names of unfinished work begin like this; `clear_leftovers` deletes what a killed process left.
PARTIAL = ".partial-"
_OLD = f"{PARTIAL}old-"
#: Largest JSON file that is read, in bytes; ours have a few thousand.
JSON_BYTES = 2**22


def open_regular(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
    """Open a regular file without following a link or waiting; an `opener` for `open`.

    Returns:
        A descriptor.

    Raises:
        InputError: if a link, a FIFO, a device, a socket or a folder is in its place.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        # ELOOP: a link. ENXIO: a socket, or a FIFO that nobody reads.
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
        raise _not_regular(path) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_regular(path)
    return descriptor


def _not_regular(path: str | os.PathLike[str]) -> InputError:
    return InputError(
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


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary name on the path's disk, which becomes the path if the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Two processes may write it at once, each its own; the last one's stays. In a folder, since a
    # writer may put files of its own beside the one it was given.
    folder = path.with_name(f"{PARTIAL}{os.getpid()}-{path.name}")
    claim = _claim(folder)
    try:
        yield folder / path.name
        _publish(folder / path.name, path)
    except OSError as error:
        if error.filename is None:  # a write does not know the name of its file
            error.filename = str(path)
        raise
    finally:
        _delete(folder)
        os.close(claim)


@contextmanager
def whole_folder(path: Path, *, again: bool = False) -> Iterator[Path]:
    """A temporary folder beside the path, which becomes the path if the block ends well.

    Args:
        path: of the folder.
        again: whether it may be there already, and then stays until the new one is written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{PARTIAL}{path.name}")
    claim = _claim(partial)
    try:
        yield partial
        for file in partial.iterdir():
            _flush(file)
        _flush(partial)
        with _makes_way(path) if again else nullcontext():
            _publish(partial, path)
    except BaseException:  # once published, a folder of that name is another process's
        _delete(partial)
        raise
    finally:
        os.close(claim)


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
    """Whether no other process has the lock of an open file or folder, which is ours then.

    The kernel lets go of it with the descriptor. A file system without locks is an OSError.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _claim(partial: Path) -> int:
    """Make a folder of this process alone, empty of what one that was killed has left in it.

    Returns a descriptor to close in the end; the kernel closes it for a process that is killed.
    """
    if not partial.is_dir() or partial.is_symlink():
        partial.unlink(missing_ok=True)
    partial.mkdir(exist_ok=True)
    claim = os.open(partial, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        free = take_lock(claim)
    except OSError:  # a file system without locks
        free = True
    if not free:
        os.close(claim)
        raise InUseError(
            f"one process at a time may write a folder, and another is writing {partial}; "
            "wait for it or choose another folder"
        )
    for left in partial.iterdir():
        _delete(left)
    return claim


@contextmanager
def _makes_way(path: Path) -> Iterator[None]:
    """Moves a folder aside, since nothing can replace one that is not empty, then deletes it."""
    old = path.with_name(f"{_OLD}{path.name}")
    _delete(old)
    if path.exists():
        os.replace(path, old)
    yield
    _delete(old)


def delete_whole(folder: Path) -> None:
    """Delete a folder so that a kill leaves all of it, or only unfinished work by its name."""
    going = folder.with_name(f"{PARTIAL}deleted-{folder.name}")
    _delete(going)
    os.replace(folder, going)
    _delete(going)


def clear_leftovers(folder: Path) -> None:
    """Delete the unfinished work that killed processes left in a folder.

    What a live process is writing stays. A folder that was moved aside for a new one that never
    came gets its name back.
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
    """Delete a file, a link itself, or a folder with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None
) -> None:
    """Write tensors of any device as safetensors; a full disk is an OSError, as elsewhere."""
    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(kept, path, metadata=metadata)
    except SafetensorError as error:
        raise _refused_by_system(path, str(error)) from error


@contextmanager
def open_tensors(path: Path) -> Iterator[Any]:
    """A safetensors file to read from, as `safe_open` gives it, if it is a regular file."""
    os.close(open_regular(path))
    with safe_open(path, framework="pt") as file:
        yield file


def shapes_in(file: Any) -> dict[str, tuple[int, ...]]:
    """Shapes of the tensors in an open safetensors file, from its header alone."""
    return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def _refused_by_system(path: Path, told: str) -> OSError:
    """The error of the system that safetensors tells in words."""
    number = re.search(r"\(os error (\d+)\)", told)
    if number is None:
        return OSError(f"{path} cannot be written ({told})")
    code = int(number[1])
    return OSError(code, os.strerror(code), str(path))


def read_object(path: Path, absent: tuple[type[OSError], ...] = (OSError,)) -> dict[str, Any]:
    """The JSON object in a file; empty where it is absent or damaged.

    Args:
        path: of the file.
        absent: errors of the system that mean that nobody wrote it; others are raised.
    """
    try:
        value = json.loads(read_file(path))
    except (*absent, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, whose numbers must be finite."""
    text = json.dumps(value, indent=1, allow_nan=False) + "\n"
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def _publish(partial: Path, path: Path) -> None:
    """Give finished work its name, so that it is found after a power cut too."""
    _flush(partial)
    os.replace(partial, path)
    _flush(path.parent)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
