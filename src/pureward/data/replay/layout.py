# SPDX-License-Identifier: Apache-2.0
"""The size of a replay ring: rows, bytes, and what fits the free memory."""

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from pureward.errors import RoomError

# Share of the free memory that a ring may take; the rest is for networks.
_CLAIM = 0.9

HOST = "host memory"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Sizes of a `[time, world]` ring with a shelf: the last states of ended episodes."""

    rows: int
    """Control steps stored of every world."""
    worlds: int
    """Worlds that step together."""
    horizon: int
    """Length of an episode; sets the size of the shelf."""
    state_size: int
    """Numbers in a state."""
    action_size: int
    """Numbers in an action."""
    frame_shape: tuple[int, int, int] | None = None
    """Channels, height and width of a frame, or None to store no frames."""

    @property
    def steps(self) -> int:
        """Steps stored of all worlds together."""
        return self.rows * self.worlds

    @property
    def endings(self) -> int:
        """Shelf slots of a world: one for each episode within the rows, and one just begun."""
        return math.ceil(self.rows / self.horizon) + 2

    @property
    def tables(self) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
        """Shape and type of every field of `Tables`."""
        steps, shelf = self.steps, self.endings * self.worlds
        tables = {
            "state": ((shelf + steps, self.state_size), torch.float32),
            "action": ((steps, self.action_size), torch.float32),
            "reward": ((steps,), torch.float32),
            "ending": ((steps,), torch.int64),
            "begin": ((shelf,), torch.int64),
            "last": ((shelf,), torch.int64),
            "terminated": ((shelf,), torch.bool),
            "episode": ((self.worlds,), torch.int64),
            "rows": ((), torch.int64),
        }
        if self.frame_shape is not None:
            tables["frames"] = ((shelf + steps, math.prod(self.frame_shape)), torch.uint8)
        return tables

    @property
    def bytes(self) -> int:
        """Bytes of the whole ring."""
        return sum(math.prod(shape) * dtype.itemsize for shape, dtype in self.tables.values())

    def largest(self, free_bytes: int) -> int:
        """Return the steps of the largest such ring in that many bytes; 0 if none fits."""
        rows = range(1, min(self.rows, free_bytes) + 1)  # a row has more than a byte
        return self.worlds * bisect_right(
            rows, free_bytes, key=lambda count: replace(self, rows=count).bytes
        )

    def check_fits(self, free_bytes: int, where: str) -> None:
        """Refuse a ring larger than the free memory, and name a capacity that fits."""
        if self.bytes <= free_bytes:
            return
        largest = self.largest(free_bytes)
        remedy = f"capacity={largest} fits" if largest else "use fewer worlds"
        if self.frame_shape is not None and where != HOST:
            remedy += ", or store the frames in host memory with storage='host'"
        raise RoomError(
            f"a replay of {self.steps:,} steps needs {readable(self.bytes)} and {where} has "
            f"{readable(free_bytes)} to spare; {remedy}"
        )


def claimable_bytes(device: torch.device) -> int | None:
    """Return the bytes that a ring may take on a device now, or None if that is unknown."""
    if device.type == "cuda":
        free = torch.cuda.mem_get_info(device)[0]
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(_CLAIM * (free + cached))
    known = [free for free in (_machine_free(), _group_free()) if free is not None]
    return int(_CLAIM * min(known)) if known else None


def readable(count: int) -> str:
    """Return a number of bytes as text, such as "1.60 GB"."""
    for size, unit in ((1e9, "GB"), (1e6, "MB")):
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count / 1e3:.2f} kB"


def _machine_free(path: Path = Path("/proc/meminfo")) -> int | None:
    """Bytes available without swapping."""
    kilobytes = _number(path, "MemAvailable:")
    return None if kilobytes is None else 1024 * kilobytes


def _group_free(folder: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes left to this container, if it has a limit."""
    limit, used = folder / "memory.max", folder / "memory.current"
    if not (limit.exists() and used.exists()):
        return None
    ceiling = limit.read_text().strip()
    if ceiling == "max":
        return None
    # Usage includes page cache that can be reclaimed.
    cache = _number(folder / "memory.stat", "inactive_file ") or 0
    return max(0, int(ceiling) - int(used.read_text()) + cache)


def _number(path: Path, name: str) -> int | None:
    """The number in the line of a file that begins with a name, or None."""
    lines = path.read_text().splitlines() if path.exists() else []
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), None)
