# SPDX-License-Identifier: Apache-2.0
"""Watches what a process touches outside a folder, and how much memory it takes."""

import ctypes
import os
import resource
import struct
import sys
import sysconfig
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pureward

# What Linux tells of a watched folder: opened, changed, made, moved, deleted.
_OPEN, _MODIFY, _CREATE, _DELETE, _MOVED = 0x20, 0x02, 0x100, 0x200, 0xC0
_PROCESSES = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect"}
_CHANGES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.symlink"}
_LIBRARIES = {sys.prefix, sys.base_prefix, *sysconfig.get_paths().values()}
_ALLOWED = (*_LIBRARIES, str(Path(pureward.__file__).parent), "/proc", "/sys", "/dev/null", "/etc")


class Watcher:
    """An audit hook that notes files outside a folder that are opened or changed by Python."""

    def __init__(self) -> None:
        """Watch nothing yet; call `begin`."""
        self.folder: str | None = None
        self.known: set[str] = set()
        self.touched: set[str] = set()
        sys.addaudithook(self)

    def begin(self, folder: Path) -> None:
        """Note from now on what lies outside the folder."""
        self.touched = set()
        self.folder = str(folder)

    def end(self, *, learn: bool = False) -> list[str]:
        """Stop; returns what was touched, or learns that it may be."""
        self.folder = None
        found, self.touched = self.touched, set()
        if learn:
            self.known |= found
        return sorted(found - self.known)

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        """Note one event."""
        if self.folder is None:
            return
        if event in _PROCESSES:
            self.touched.add(f"{event} {args[0]!r}")
        elif event == "open" or event in _CHANGES:
            path = args[0]
            if isinstance(path, str | bytes | os.PathLike):
                self._note(os.fsdecode(path))

    def _note(self, path: str) -> None:
        whole = os.path.abspath(path)
        if not _is_under(whole, (self.folder or "", *_ALLOWED)):
            self.touched.add(whole)


class Outside:
    """Asks Linux who touches the files of some folders, also from within a C library."""

    def __init__(self, folders: Iterable[Path]) -> None:
        """Watch from now on."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._file = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "inotify is needed to watch files")
        mask = _OPEN | _MODIFY | _CREATE | _DELETE | _MOVED
        for folder in folders:
            self._libc.inotify_add_watch(self._file, os.fsencode(folder), mask)

    def end(self) -> list[str]:
        """Stop; returns what happened, such as "opened secret"."""
        found = []
        try:
            data = os.read(self._file, 1 << 16)
        except BlockingIOError:
            data = b""
        finally:
            os.close(self._file)
        while data:
            _, mask, _, size = struct.unpack_from("iIII", data)
            name = data[16 : 16 + size].rstrip(b"\0").decode(errors="replace")
            found.append(f"{'opened' if mask & _OPEN else 'changed'} {name or 'the folder'}")
            data = data[16 + size :]
        return sorted(set(found))


class Memory:
    """Bounds what a process may take on top of what it has, and measures it."""

    def __init__(self, most_bytes: int) -> None:
        """Let allocations fail that go beyond twice the bound."""
        self.most = most_bytes
        limit = _told("VmData") + 2 * most_bytes  # files that are mapped to be read do not count
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))

    def begin(self) -> None:
        """Measure from now on."""
        with suppress(OSError):  # without it the peak is that of the whole process
            Path("/proc/self/clear_refs").write_text("5")
        self.before = _told("VmRSS")

    def taken(self) -> int:
        """Bytes of the peak above what was used before."""
        return max(0, _told("VmHWM") - self.before)


def _told(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def _is_under(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders if folder)
