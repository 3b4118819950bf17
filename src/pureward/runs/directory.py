# SPDX-License-Identifier: Apache-2.0
"""The run directory: the unit of everything, held by one process at a time."""

import os
import shutil
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
    """Names the files of a run and keeps a second process out of them."""

    def __init__(self, path: Path):
        self.path = path
        self.config = path / "config.json"
        self.status = path / "status.json"
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
        """Take the directory, or say who has it; delete what a killed process left half-written."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.check_links()
        with ExitStack() as held:
            folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            held.callback(os.close, folder)
            lock = open_regular(self.lock, os.O_RDWR | os.O_CREAT)
            held.callback(os.close, lock)
            kept_by_folder = self._take(folder, lock)
            os.ftruncate(lock, 0)
            os.write(lock, str(os.getpid()).encode())
            self._place = os.fstat(folder)
            self._lock = None if kept_by_folder else os.fstat(lock)
            for place in (self.path, self.checkpoints, self.snapshots, self.videos, self.reward):
                clear_leftovers(place)
            self._held = held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Let go; the kernel does the same when the process is killed."""
        self._held.close()
        self._place = self._lock = None

    def in_use(self) -> bool:
        """Whether another process has it."""
        return is_held(self.path) or is_held(self.lock)

    def _take(self, folder: int, lock: int) -> bool:
        """Lock the folder itself, which no deleted file undoes, and the file besides.

        NFS locks nothing that is not open for writing, and a folder cannot be: there the file
        must do. Returns whether the folder is locked.
        """
        try:
            free = take_lock(lock)
        except OSError as error:
            raise InputError(
                f"one process at a time may use a run directory, and {self.path} cannot be locked "
                f"({error}); choose one on a file system with locks"
            ) from error
        try:
            free = locked = take_lock(folder) and free
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
        """Refuse links in the place of the run's files and folders: they may lead anywhere."""
        for path in vars(self).values():
            if isinstance(path, Path) and path != self.path and path.is_symlink():
                raise InputError(
                    f"a run directory holds its files and folders itself, and {path} is a link; "
                    "put there what it points to, or delete it"
                )

    def check_place(self) -> None:
        """Refuse to write on if the folder or its lock was moved, deleted or replaced.

        Half of the run would be in one folder and half in another, or two processes in one.
        """
        self.check_links()
        for taken, path in ((self._place, self.path), (self._lock, self.lock)):
            if taken is not None and not is_at(taken, path):
                raise FileNotFoundError(
                    f"a run directory must stay where it is while the run goes on, and {path} was "
                    "moved or deleted; bring it back and go on from its last checkpoint (--resume)"
                )

    def forget(self) -> None:
        """Delete the settings and checkpoints of a run that has not begun to learn.

        They would keep a corrected one from beginning here.
        """
        self.config.unlink(missing_ok=True)
        for path in kept_steps(self.checkpoints):
            shutil.rmtree(path)

    def write_status(self, state: str, **facts: Any) -> None:
        """Say how the run stands: running, finished, interrupted or failed."""
        self.check_place()
        write_json(self.status, {"state": state, **facts})

    def read_status(self) -> dict[str, Any]:
        """How the run stands; empty before its first word, and where that cannot be read."""
        return read_object(self.status, absent=(FileNotFoundError, NotADirectoryError))


def is_at(opened: os.stat_result, path: Path) -> bool:
    """Whether a path still leads to what was opened there."""
    try:
        return os.path.samestat(opened, os.stat(path))
    except OSError:
        return False


def step_name(step: int) -> str:
    """What is kept of a step is called like this, in the order of steps."""
    return f"step-{step:012d}"


def step_of(path: Path) -> int | None:
    """The step that something was kept at; None for what is called otherwise.

    A copy that somebody made, "step-640 (1)", is none of the run's.
    """
    prefix, _, number = path.stem.partition("-")
    return int(number) if prefix == "step" and number.isdecimal() else None


def kept_steps(folder: Path, ending: str = "") -> list[Path]:
    """What is kept in a folder, oldest first; links are left out."""
    found = folder.glob(f"step-*{ending}")
    return sorted(path for path in found if step_of(path) is not None and not path.is_symlink())


def steps_made(status: Mapping[str, Any]) -> int:
    """How many env steps a run has made, by its status; 0 where that does not tell."""
    steps = status.get("env_steps")
    return steps if isinstance(steps, int) else 0
