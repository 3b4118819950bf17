# SPDX-License-Identifier: Apache-2.0
"""Whole episodes from the replies of actors, and their way into the replay, one step a row."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from pureward.types import Observation, Step

#: Steps of a reply by name, arrays (rows, …): NumPy reads one row faster than torch.
Rows = dict[str, np.ndarray]
_OBSERVED = "state", "frames"  # the parts of a last observation


@dataclass(kw_only=True)
class Episode:
    """An episode of T steps, which stay in the memory of their replies."""

    replies: list[Rows] = field(default_factory=list)
    """Of its steps and, when it is whole, of its last observation: T + 1."""
    places: list[int] = field(default_factory=list)
    """The row of each in its reply. Two lists, not tuples: garbage collection would visit each."""
    terminated: bool = False
    """Whether it ended in a terminal state; otherwise by time."""
    versions: int = 0
    """Sum over steps of the version of the weights: the number of updates that made them."""
    began: int = 0
    """Control steps of the learner when its first step was asked for."""

    def __len__(self) -> int:
        return max(0, len(self.replies) - 1)

    def add(self, reply: Rows, place: int) -> None:
        """Add a step, or the last observation."""
        self.replies.append(reply)
        self.places.append(place)

    def place(self, at: int) -> tuple[Rows, int]:
        """Return where a step is."""
        return self.replies[at], self.places[at]


class Assembly:
    """The open episodes of an actor's worlds."""

    def __init__(self, worlds: int) -> None:
        """Begin with no steps."""
        self.open = [Episode() for _ in range(worlds)]

    def add(self, reply: Mapping[str, Tensor], row: int) -> list[Episode]:
        """Add the steps of a reply; return the episodes that it ended.

        Args:
            reply: of `Actor.advance`.
            row: control steps of the learner when it was asked for.
        """
        version = int(reply["version"])
        finals = {name: reply[f"final_{name}"].numpy() for name in _OBSERVED if name in reply}
        names = (*finals, "action", "reward", "success")
        steps = {name: reply[name].flatten(0, 1).numpy() for name in names}
        terminal, late = (reply[n].flatten().tolist() for n in ("terminated", "truncated"))
        whole: list[Episode] = []
        for place, terminated in enumerate(terminal):
            world = place % len(self.open)
            episode = self.open[world]
            if not episode.places:
                episode.began = row
            episode.add(steps, place)
            episode.versions += version
            if terminated or late[place]:
                episode.add(finals, len(whole))
                episode.terminated = terminated
                whole.append(episode)
                self.open[world] = Episode()
        return whole

    def steps(self) -> int:
        """Steps of open episodes."""
        return sum(len(each.places) for each in self.open)

    def episodes(self) -> int:
        """Open episodes with at least one step."""
        return sum(bool(each.places) for each in self.open)


@dataclass
class Column:
    """A world of the replay: it takes one whole episode after another."""

    episode: Episode | None = None
    at: int = 0

    def left(self) -> int:
        """Steps of its episode that are not taken."""
        return 0 if self.episode is None else len(self.episode) - self.at


def _copied(name: str, places: Iterable[tuple[Rows, int]]) -> Tensor:
    """Return a part of steps in new memory, (steps, …)."""
    return torch.from_numpy(np.array([rows[name][at] for rows, at in places]))


def take_row(
    columns: Sequence[Column], device: torch.device, arrived: Observation | None = None
) -> tuple[Observation, Tensor, Step]:
    """Take the next step of every column; each must have one left.

    Args:
        columns: worlds of the replay.
        device: of the result.
        arrived: the arrival of the last row, to copy only observations that begin an episode.
    """
    episodes = [column.episode for column in columns if column.episode is not None]
    assert len(episodes) == len(columns), "every column has an episode"
    now = [e.place(c.at) for e, c in zip(episodes, columns, strict=True)]
    begun = [row for row, column in enumerate(columns) if column.at == 0]
    for column in columns:
        column.at += 1
    after = [e.place(c.at) for e, c in zip(episodes, columns, strict=True)]

    def before(name: str) -> Tensor:
        if arrived is None:
            return _copied(name, now).to(device)
        known: Tensor = getattr(arrived, name)
        if not begun:
            return known
        first = _copied(name, [now[row] for row in begun]).to(device)
        return known.index_copy(0, torch.tensor(begun, device=device), first)

    cameras = "frames" in now[0][0]
    obs = Observation(state=before("state"), frames=before("frames") if cameras else None)
    arrival = Observation(
        state=_copied("state", after).to(device),
        frames=_copied("frames", after).to(device) if cameras else None,
    )
    ended = torch.tensor([not column.left() for column in columns])
    terminal = torch.tensor([episode.terminated for episode in episodes])
    step = Step(
        obs=arrival,  # no action is chosen here
        reward=_copied("reward", now).to(device),
        terminated=(ended & terminal).to(device),
        truncated=(ended & ~terminal).to(device),
        success=_copied("success", now).to(device),
        final_obs=arrival,
    )
    return obs, _copied("action", now).to(device), step


def pack_columns(columns: Sequence[Column]) -> dict[str, Tensor]:
    """Return the rest of every column's episode, for a checkpoint."""
    begun = [(c.episode, c.at) for c in columns if c.episode is not None and c.left()]
    ends = [c.episode is not None and c.episode.terminated for c in columns]
    parts: dict[str, Tensor] = {}
    for name in begun[0][0].replies[0] if begun else ():
        rests = [(e, range(at, len(e) + (name in _OBSERVED))) for e, at in begun]
        parts[f"rest/{name}"] = _copied(name, [e.place(at) for e, rest in rests for at in rest])
    return {
        "left": torch.tensor([column.left() for column in columns]),
        "terminal": torch.tensor(ends, dtype=torch.bool),
        **parts,
    }


def unpack_columns(
    saved: Mapping[str, Tensor], kinds: Mapping[str, tuple[torch.dtype, tuple[int, ...]]]
) -> list[Column]:
    """Return the columns of `pack_columns`; ValueError if the parts do not fit each other.

    Args:
        saved: what `pack_columns` returned.
        kinds: type and shape of a step's part, by name.
    """
    left, terminal = saved["left"].tolist(), saved["terminal"].tolist()
    played = [steps for steps in left if steps]
    parts: dict[str, list[np.ndarray]] = {}
    for name, (dtype, shape) in kinds.items() if played else ():
        table = saved[f"rest/{name}"]
        sizes = [steps + (name in _OBSERVED) for steps in played]
        wanted, found = (dtype, sum(sizes), *shape), (table.dtype, *table.shape)
        if min(left) < 0 or found != wanted or not table.isfinite().all():
            raise ValueError(f"the episodes' {name} must be {wanted} and finite, got {found}")
        parts[name] = [part.numpy() for part in table.split(sizes)]
    columns = []
    for steps, ends in zip(left, terminal, strict=True):
        own = {name: each.pop(0) for name, each in parts.items()} if steps else {}
        whole = Episode(
            replies=[own] * (steps + 1), places=list(range(steps + 1)), terminated=bool(ends)
        )
        columns.append(Column(whole if steps else None))
    return columns
