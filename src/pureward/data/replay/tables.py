# SPDX-License-Identifier: Apache-2.0
"""The memory of a replay ring: flat tables that are allocated, saved and restored."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from pureward.data.replay.layout import Layout
from pureward.errors import LARGEST, InputError
from pureward.types import Observation


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Flat tables over (row, world) or (shelf slot, world), world fastest.

    `state` and `frames` begin with the shelf, one arrival per episode; the rows follow.
    """

    state: Tensor
    """float32 (shelf + steps, state size)."""
    frames: Tensor | None = None
    """uint8 (shelf + steps, bytes of a frame), or None."""
    action: Tensor
    """float32 (steps, action size)."""
    reward: Tensor
    """The task's reward of the arrival, float32 (steps,)."""
    ending: Tensor
    """Shelf slot of the step's episode, int64 (steps,); unique among stored episodes."""
    begin: Tensor
    """First row of the slot's episode, int64 (shelf,)."""
    last: Tensor
    """Its newest row so far, int64 (shelf,); `begin` − 1 before its first row."""
    terminated: Tensor
    """Whether it ended in a terminal state, bool (shelf,)."""
    episode: Tensor
    """Number of episodes that each world has ended, int64 (worlds,)."""
    rows: Tensor
    """Number of rows ever written, int64 ()."""

    def in_use(self, steps: int) -> dict[str, Tensor]:
        """Return views of the parts that so many stored steps use, by name."""
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("action", "reward", "ending"):
            parts[name] = parts[name][:steps]
        for name in ("state", "frames"):
            if parts[name] is not None:
                parts[name] = parts[name][: len(self.begin) + steps]
        return {name: part for name, part in parts.items() if part is not None}

    def write_observation(self, place: Tensor, obs: Observation) -> None:
        """Write one observation per world to indices of `state` and `frames`."""
        self.state.index_copy_(0, place, obs.state.to(self.state.device))
        if self.frames is not None and obs.frames is not None:
            where = self.frames.device
            frames = obs.frames.reshape(len(place), -1).to(where)
            _words(self.frames).index_copy_(0, place.to(where), _words(frames))

    def read_frames(self, place: Tensor) -> Tensor:
        """Return the frames at indices of any shape: uint8 (indices, bytes of a frame)."""
        if self.frames is None:
            raise InputError("this replay stores no frames; make it with a frame_shape")
        found = _words(self.frames).index_select(0, place.flatten().to(self.frames.device))
        return found.view(torch.uint8).to(self.state.device, non_blocking=True)


def allocate(layout: Layout, device: torch.device, *, frames_on_host: bool) -> Tables:
    """Return empty tables: zeros, except that `last` is −1."""
    made = {}
    for name, (shape, dtype) in layout.tables.items():
        on_host = name == "frames" and frames_on_host
        where = torch.device("cpu") if on_host else device
        pinned = on_host and device.type == "cuda"
        made[name] = torch.zeros(shape, dtype=dtype, device=where, pin_memory=pinned)
    made["last"].fill_(-1)
    return Tables(**made)


def limits(layout: Layout, rows: int) -> dict[str, tuple[int, int]]:
    """Return the lowest and highest value of each integer table after so many rows."""
    return {
        "ending": (0, layout.endings * layout.worlds - 1),
        "begin": (0, rows),
        "last": (-1, rows - 1),
        "episode": (0, rows),
    }


def damage(saved: Tensor, own: Tensor, low: int = 0, high: int = LARGEST) -> str:
    """Return what is wrong with a saved tensor, as the end of a sentence; "" if it is valid.

    Args:
        saved: to be copied to `own`.
        own: of the dtype that it must have.
        low: smallest integer it may hold.
        high: largest integer it may hold.
    """
    both_float = saved.is_floating_point() and own.is_floating_point()
    if not both_float and saved.dtype != own.dtype:
        return f"must be {own.dtype}, is {saved.dtype}"
    if both_float:
        return "" if saved.isfinite().all() else "holds NaN or infinity"
    if saved.dtype != torch.int64 or not saved.numel():
        return ""
    least, most = (int(value) for value in saved.aminmax())
    if low <= least and most <= high:
        return ""
    return f"must lie in [{low}, {high}], has {least if least < low else most}"


def restore(tables: Tables, layout: Layout, saved: Mapping[str, Tensor]) -> int:
    """Check saved tables and copy them in place; return the number of rows ever written."""
    _check(saved, {"rows": tables.rows}, {})
    rows = int(saved["rows"])
    places = tables.in_use(min(rows, layout.rows) * layout.worlds)
    _check(saved, places, limits(layout, rows))
    for name, place in places.items():
        place.copy_(saved[name])
    return rows


def _check(
    saved: Mapping[str, Tensor],
    places: Mapping[str, Tensor],
    allowed: Mapping[str, tuple[int, int]],
) -> None:
    for name, place in places.items():
        found = tuple(saved[name].shape) if name in saved else None
        if found != tuple(place.shape):
            raise InputError(
                f"a saved replay's {name!r} must have shape {tuple(place.shape)}, got {found}; "
                "use the capacity, worlds, task and cameras it was saved with"
            )
        wrong = damage(saved[name], place, *allowed.get(name, ()))
        if wrong:
            raise InputError(f"a saved replay's {name!r} {wrong}; resume from an older checkpoint")


def _words(frames: Tensor) -> Tensor:
    """The same bytes as int64 if their number allows it: copies are faster."""
    return frames.view(torch.int64) if frames.shape[-1] % 8 == 0 else frames
