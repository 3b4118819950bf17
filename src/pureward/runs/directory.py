# SPDX-License-Identifier: Apache-2.0
"""The run directory: its files, and the lock that admits one process at a time."""

import os
import shutil
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pureward.errors import InputError, InUseError
from pureward.files import (
    clear_leftovers,
    is_held,
    open_regular,
    read_object,
    take_lock,
    write_json,
)


class RunDirectory:
    """The files of a run; `with` locks them against other processes."""

    def __init__(self, path: Path):
        self.path = path
        self.config = path / "config.json"
        self.status = path / "status.json"
        self.references = path / "references.json"
        self.metrics = path / "metrics.jsonl"
        self.checkpoints = path / "checkpoints"
        self.snapshots = path / "snapshots"
        self.videos = path / "videos"
        self.events = path / "tensorboard"
        self.reward = path / "reward"
        self.probe = path / "probe"
        self.lock = path / "lock"
        self.log = path / "log.txt"
        self.work = path / "work.json"
        self._held = ExitStack()
        self._place: os.stat_result | None = None
        self._lock: os.stat_result | None = None

    def __enter__(self) -> "RunDirectory":
        """Lock the directory, and delete the partial files of killed processes."""
        self.check_links()
        self._check_own()
        self.path.mkdir(parents=True, exist_ok=True)
        with ExitStack() as held:
            folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            held.callback(os.close, folder)
            lock = open_regular(self.lock, os.O_RDWR | os.O_CREAT)
            held.callback(os.close, lock)
            folder_is_locked = self._take(folder, lock)
            os.ftruncate(lock, 0)
            os.write(lock, str(os.getpid()).encode())
            self._place = os.fstat(folder)
            self._lock = None if folder_is_locked else os.fstat(lock)
            for place in (self.path, self.checkpoints, self.snapshots, self.videos, self.reward):
                clear_leftovers(place)
            self._held = held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Unlock it; the kernel does so if the process is killed."""
        self._held.close()
        self._place = self._lock = None

    def in_use(self) -> bool:
        """Whether another process has locked it."""
        return is_held(self.path) or is_held(self.lock)

    def _take(self, folder: int, lock: int) -> bool:
        """Lock the file and the folder; return whether the folder could be locked.

        A lock on the folder survives the deletion of the file. NFS cannot lock folders: it locks
        only what is open for writing.
        """
        try:
            free = _take_soon(lock)
        except OSError as error:
            raise InputError(
                f"one process at a time may use a run directory, and {self.path} cannot be locked "
                f"({error}); choose one on a file system with locks"
            ) from error
        try:
            free = locked = _take_soon(folder) and free
        except OSError:
            locked = False
        if not free:
            holder = os.read(lock, 32).decode(errors="replace") or "unknown"
            raise InUseError(
                f"one process at a time may use a run directory, and {self.path} is in use "
                f"(process {holder}); wait for it or choose another directory"
            )
        return locked

    def check_links(self) -> None:
        """Refuse links in place of the run's files and folders: they may lead outside."""
        for path in vars(self).values():
            if isinstance(path, Path) and path != self.path and path.is_symlink():
                raise InputError(
                    f"a run directory holds its files and folders itself, and {path} is a link; "
                    "replace it with its target, or delete it"
                )

    def _check_own(self) -> None:
        """Refuse files in place of the run's if it did not write them, or lost its settings.

        A run writes its lock first, then its settings, then its status, unless it failed.
        """
        begun = self.lock.exists() and self.read_status().get("state") in (None, "failed")
        if begun or self.config.exists():
            return
        for path in (self.metrics, self.status, self.checkpoints, self.snapshots, self.reward):
            if path.exists():
                raise InputError(
                    f"{self.path} holds {path.name}, which a run would replace, without a run's "
                    "config.json; bring that back, or choose another directory"
                )

    def check_place(self) -> None:
        """Refuse to write if the folder or its lock was moved, deleted or replaced.

        Otherwise a run could be spread over two folders, or two processes could use one.
        """
        self.check_links()
        for taken, path in ((self._place, self.path), (self._lock, self.lock)):
            if taken is not None and not is_at(taken, path):
                raise FileNotFoundError(
                    f"a run directory must stay in place during the run, and {path} was "
                    "moved or deleted; bring it back and pass --resume"
                )

    def clear(self) -> None:
        """Delete settings, policies and checkpoints, so that another run can start here."""
        policies, videos = kept_steps(self.snapshots), kept_steps(self.videos)
        for path in (self.config, self.references, *policies, *videos):
            path.unlink(missing_ok=True)
        for path in kept_steps(self.checkpoints):
            shutil.rmtree(path)

    def write_status(self, state: str, **facts: Any) -> None:
        """Write the state of the run ("running", "finished", "interrupted", "failed") and facts."""
        self.check_place()
        write_json(self.status, {"state": state, **facts})

    def read_status(self) -> dict[str, Any]:
        """Return the last status; {} if the file is missing or damaged."""
        return read_object(self.status, absent=(FileNotFoundError, NotADirectoryError))


def _take_soon(descriptor: int) -> bool:
    """Take a lock, also if `in_use` of another process holds it for a moment."""
    if take_lock(descriptor):
        return True
    time.sleep(0.05)
    return take_lock(descriptor)


def is_at(opened: os.stat_result, path: Path) -> bool:
    """Whether a path still refers to the file that was opened there."""
    try:
        return os.path.samestat(opened, os.stat(path))
    except OSError:
        return False


def step_name(step: int) -> str:
    """Return the file name of a step; names sort in the order of steps."""
    return f"step-{step:012d}"


def step_of(path: Path) -> int | None:
    """Return the step in a file name; None for other names, such as the copy "step-640 (1)"."""
    prefix, _, number = path.stem.partition("-")
    return int(number) if prefix == "step" and number.isdecimal() else None


def kept_steps(folder: Path, ending: str = "") -> list[Path]:
    """Return the files of steps in a folder, oldest first, without links."""
    found = folder.glob(f"step-*{ending}")
    return sorted(path for path in found if step_of(path) is not None and not path.is_symlink())


def steps_made(status: Mapping[str, Any]) -> int:
    """Return the number of env steps in a status; 0 if it has none."""
    steps = status.get("env_steps")
    return steps if isinstance(steps, int) else 0
