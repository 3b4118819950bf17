# SPDX-License-Identifier: Apache-2.0
"""The run directory: the unit of everything, held by one process at a time."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pureward.errors import InputError, InUseError
from pureward.files import is_held, read_object, take_lock, write_json


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
        self.lock = path / "lock"
        self._lock: int | None = None
        self._place: os.stat_result | None = None

    def __enter__(self) -> "RunDirectory":
        """Take the directory, or say who has it."""
        self.path.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.lock, os.O_RDWR | os.O_CREAT)
        try:
            free = take_lock(lock)
        except OSError as error:
            os.close(lock)
            raise InputError(
                f"one process at a time may use a run directory, and {self.path} cannot be locked "
                f"({error}); choose one on a file system with locks"
            ) from error
        if not free:
            holder = os.read(lock, 32).decode() or "unknown"
            os.close(lock)
            raise InUseError(
                f"one process at a time may use a run directory, and {self.path} is in use "
                f"(process {holder}); wait for it or choose another directory"
            )
        os.ftruncate(lock, 0)
        os.write(lock, str(os.getpid()).encode())
        self._lock = lock
        self._place = os.stat(self.path)
        return self

    def __exit__(self, *_: object) -> None:
        """Let go; the kernel does the same when the process is killed."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def in_use(self) -> bool:
        """Whether another process has it."""
        return is_held(self.lock)

    def check_place(self) -> None:
        """Refuse to write on where the folder that was taken is no longer.

        Half of the run would be in one folder and half in another that is made anew.
        """
        if self._place is None or _is_at(self._place, self.path):
            return
        raise FileNotFoundError(
            f"a run directory must stay where it is while the run goes on, and {self.path} was "
            "moved or deleted; bring it back and go on from its last checkpoint (--resume)"
        )

    def write_status(self, state: str, **facts: Any) -> None:
        """Say how the run stands: running, finished, interrupted or failed."""
        self.check_place()
        write_json(self.status, {"state": state, **facts})

    def read_status(self) -> dict[str, Any]:
        """How the run stands; empty before its first word, and where that cannot be read."""
        return read_object(self.status, absent=(FileNotFoundError, NotADirectoryError))


def _is_at(place: os.stat_result, path: Path) -> bool:
    try:
        return os.path.samestat(place, os.stat(path))
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
    """What is kept in a folder, oldest first."""
    return sorted(path for path in folder.glob(f"step-*{ending}") if step_of(path) is not None)


def steps_made(status: Mapping[str, Any]) -> int:
    """How many env steps a run has made, by its status; 0 where that does not tell."""
    steps = status.get("env_steps")
    return steps if isinstance(steps, int) else 0
