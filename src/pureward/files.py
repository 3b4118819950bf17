# SPDX-License-Identifier: Apache-2.0
"""Files and folders that appear whole or not at all, whatever interrupts their writing."""

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from pureward.errors import InUseError

#: Names of unfinished work begin like this; whoever finds one may delete it.
PARTIAL = ".partial-"


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary name beside the path, which becomes the path if the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Two processes may write it at once, each its own; the last one's stays.
    partial = path.with_name(f"{PARTIAL}{os.getpid()}-{path.name}")
    try:
        yield partial
        _publish(partial, path)
    except OSError as error:
        if error.filename is None:  # a write does not know the name of its file
            error.filename = str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)


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
        shutil.rmtree(partial, ignore_errors=True)
        raise
    finally:
        os.close(claim)


def is_claimed(path: Path) -> bool:
    """Whether another process is writing this folder."""
    return is_held(path.with_name(f"{PARTIAL}{path.name}"))


def is_held(path: Path) -> bool:
    """Whether another process holds the lock of a file or folder."""
    try:
        mine = os.open(path, os.O_RDONLY)
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
    partial.mkdir(exist_ok=True)
    claim = os.open(partial, os.O_RDONLY)
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
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    return claim


@contextmanager
def _makes_way(path: Path) -> Iterator[None]:
    """Moves a folder aside, since nothing can replace one that is not empty, then deletes it."""
    old = path.with_name(f"{PARTIAL}old-{path.name}")
    shutil.rmtree(old, ignore_errors=True)
    if path.exists():
        os.replace(path, old)
    yield
    shutil.rmtree(old, ignore_errors=True)


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None
) -> None:
    """Write tensors of any device as safetensors; a full disk is an OSError, as elsewhere."""
    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(kept, path, metadata=metadata)
    except SafetensorError as error:
        raise _refused_by_system(path, str(error)) from error


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
        value = json.loads(path.read_text())
    except (*absent, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON."""
    with whole_file(path) as partial:
        partial.write_text(json.dumps(value, indent=1) + "\n")


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
