# SPDX-License-Identifier: Apache-2.0
"""The memory of a replay ring: flat tables, how they are claimed, saved and restored."""

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

    `state` and `frames` begin with the shelf: one arrival an episode, then the rows.
    """

    state: Tensor
    """float32 (shelf + steps, state size)."""
    frames: Tensor | None
    """uint8 (shelf + steps, bytes of a frame), or None."""
    action: Tensor
    """float32 (steps, action size)."""
    reward: Tensor
    """The task's reward of the arrival, float32 (steps,)."""
    ending: Tensor
    """Shelf place of the step's episode, int64 (steps,): its identity while it is kept."""
    begin: Tensor
    """First row of the shelf place's episode, int64 (shelf,)."""
    last: Tensor
    """Its newest row so far, int64 (shelf,); the one before `begin` while it has none."""
    terminated: Tensor
    """Whether it ended in a terminal state, bool (shelf,)."""
    episode: Tensor
    """Episodes each world has ended so far, int64 (worlds,)."""
    rows: Tensor
    """Rows ever recorded, int64 ()."""

    def held(self, steps: int) -> dict[str, Tensor]:
        """Views of the parts in use when that many steps are kept, by name."""
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("action", "reward", "ending"):
            parts[name] = parts[name][:steps]
        for name in ("state", "frames"):
            if parts[name] is not None:
                parts[name] = parts[name][: len(self.begin) + steps]
        return {name: part for name, part in parts.items() if part is not None}

    def write_seen(self, place: Tensor, obs: Observation) -> None:
        """Write one observation a world to places of `state` and `frames`."""
        self.state.index_copy_(0, place, obs.state.to(self.state.device))
        if self.frames is not None and obs.frames is not None:
            where = self.frames.device
            frames = obs.frames.reshape(len(place), -1).to(where)
            _words(self.frames).index_copy_(0, place.to(where), _words(frames))

    def read_frames(self, place: Tensor) -> Tensor:
        """Read frames from places of any shape: uint8 (places, bytes of a frame)."""
        if self.frames is None:
            raise InputError("this replay keeps no frames; make it with a frame_shape")
        found = _words(self.frames).index_select(0, place.flatten().to(self.frames.device))
        return found.view(torch.uint8).to(self.state.device, non_blocking=True)


def claim(layout: Layout, device: torch.device, *, frames_on_host: bool) -> Tables:
    """Claim the memory of a layout, all zeros but for the worlds' first episodes."""
    shelf = layout.endings * layout.worlds
    return Tables(
        state=torch.zeros(shelf + layout.steps, layout.state_size, device=device),
        frames=_claim_frames(layout, device, frames_on_host),
        action=torch.zeros(layout.steps, layout.action_size, device=device),
        reward=torch.zeros(layout.steps, device=device),
        ending=torch.zeros(layout.steps, dtype=torch.int64, device=device),
        begin=torch.zeros(shelf, dtype=torch.int64, device=device),
        last=torch.full((shelf,), -1, dtype=torch.int64, device=device),
        terminated=torch.zeros(shelf, dtype=torch.bool, device=device),
        episode=torch.zeros(layout.worlds, dtype=torch.int64, device=device),
        rows=torch.zeros((), dtype=torch.int64, device=device),
    )


def limits(layout: Layout, rows: int) -> dict[str, tuple[int, int]]:
    """Lowest and highest number of each table of places, after so many rows were recorded."""
    return {
        "ending": (0, layout.endings * layout.worlds - 1),
        "begin": (0, rows),
        "last": (-1, rows - 1),
        "episode": (0, rows),
    }


def damage(saved: Tensor, own: Tensor, low: int = 0, high: int = LARGEST) -> str:
    """What is wrong with a saved tensor, as the end of a sentence; nothing if it may be restored.

    Args:
        saved: to be copied to `own`.
        own: of the kind that it must have.
        low: least whole number it may hold.
        high: largest.
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
    """Check saved tables and copy them back in place; returns how many rows were ever recorded."""
    _check(saved, {"rows": tables.rows}, {})
    rows = int(saved["rows"])
    places = tables.held(min(rows, layout.rows) * layout.worlds)
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
            raise InputError(f"a saved replay's {name!r} {wrong}; go on from an older checkpoint")


def _claim_frames(layout: Layout, device: torch.device, on_host: bool) -> Tensor | None:
    if layout.frame_shape is None:
        return None
    size = (layout.endings * layout.worlds + layout.steps, layout.frame_bytes)
    if not on_host:
        return torch.zeros(size, dtype=torch.uint8, device=device)
    return torch.zeros(size, dtype=torch.uint8, pin_memory=device.type == "cuda")


def _words(frames: Tensor) -> Tensor:
    """The same bytes, eight at a time where they divide: copies move fewer, wider items."""
    return frames.view(torch.int64) if frames.shape[-1] % 8 == 0 else frames
