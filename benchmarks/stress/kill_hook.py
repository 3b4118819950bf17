# SPDX-License-Identifier: Apache-2.0
"""Counts the writes of a run by Python's audit events, and kills the process at one of them.

Two kills leave the same files if nothing on the disk changed between them. So it is enough to
stop before every call that changes names or sizes, if the files differ from those at the call
before, and within the writes between two calls. What safetensors writes raises no event and is
seen by its growth.
"""

import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_CHANGES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.link"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


@dataclass
class Writes:
    """An audit hook that counts a run's writes and kills the process before one of them."""

    run: Path
    kill_at: int = 0
    torn: bool = False
    seen: list[tuple[str, bool, bool]] = field(default_factory=list)
    """The event and its file; whether names or sizes, and whether sizes changed since the last."""
    before: list[tuple[Path, int, int]] = field(default_factory=list)

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        """Count one event; does not return from the one to be killed at."""
        path = _written(event, args)
        if path is None or not self._is_here(path):
            return
        files = list(_files(self.run))
        sizes = {key: size for _, key, size in self.before}
        grown = any(size > sizes.get(key, 0) for _, key, size in files)
        self.seen.append((f"{event} {_place(path)}", files != self.before, grown))
        if len(self.seen) == self.kill_at:
            self.kill_at = 0  # cutting a file is an event too
            if self.torn:
                _cut(files, sizes)
            os.kill(os.getpid(), signal.SIGKILL)
        self.before = files

    def _is_here(self, path: str) -> bool:
        # A relative path is one in a folder that is open: only the run's own are written so.
        return not os.path.isabs(path) or Path(path).is_relative_to(self.run)


def _cut(files: list[tuple[Path, int, int]], sizes: dict[int, int]) -> None:
    """Undo half of what files have grown by since the event before."""
    for path, key, size in files:
        before = sizes.get(key, 0)
        if size > before:
            os.truncate(path, before + (size - before) // 2)


def _written(event: str, args: tuple[Any, ...]) -> str | None:
    """The path that an event changes, or None if it changes nothing."""
    if event == "open":
        path, _, flags = args
        writes = isinstance(flags, int) and flags & _WRITING
        return os.fsdecode(path) if writes and not isinstance(path, int) else None
    if event not in _CHANGES:
        return None
    return "descriptor" if isinstance(args[0], int) else os.fsdecode(args[0])


def _place(path: str) -> str:
    """What kind of file it is: its name without steps and process ids."""
    name = "".join(c for c in Path(path).name if not c.isdigit())
    return "tensorboard" if "tfevents" in name else name


def _files(run: Path) -> list[tuple[Path, int, int]]:
    """Path, inode and size of all files, and folders with a size of 0; a rename keeps the inode."""
    found = []
    for folder, _, names in os.walk(run):
        found.append((Path(folder), 0, 0))
        for name in names:
            path = Path(folder, name)
            told = path.lstat()
            found.append((path, told.st_ino, told.st_size))
    return sorted(found)
