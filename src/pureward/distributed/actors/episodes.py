# SPDX-License-Identifier: Apache-2.0
"""Whole episodes from the replies of actors, and their way into the replay, one step a row."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pureward.types import Observation, Step


@dataclass(frozen=True, kw_only=True)
class Episode:
    """A whole episode of T steps."""

    tensors: dict[str, Tensor]
    """"action", "reward" and "success", (T, …); "state" and, with cameras, "frames", (T + 1, …)."""
    tables: dict[str, Tensor] = field(default_factory=dict)
    """The memory of the tensors, for a later episode."""
    terminated: bool
    """Whether it ended in a terminal state; otherwise by time."""
    version: float = 0.0
    """Mean number of updates of the weights that chose its actions."""
    began: int = 0
    """Control steps of the learner when its first step was asked for."""
    actor: int = -1

    def __len__(self) -> int:
        return len(self.tensors["action"])


@dataclass
class OpenEpisode:
    """The steps of a world since its last episode ended."""

    tables: dict[str, Tensor] = field(default_factory=dict)
    """Rows of steps, with room for more. New memory is slow, so tables of earlier episodes serve
    again."""
    versions: int = 0
    """Sum over steps of the version of the weights."""
    began: int = 0
    steps: int = 0

    def add(self, piece: dict[str, Tensor], version: int, row: int) -> None:
        """Add steps, tensors (steps, …), that were asked for at a row."""
        self.began = self.began if self.steps else row
        stop = self.steps + len(piece["action"])
        for name, part in piece.items():
            table = self.tables.get(name)
            if table is None or len(table) <= stop:  # a row for the last observation
                self.tables[name] = part.new_empty((2 * stop + 32, *part.shape[1:]))
                if table is not None:
                    self.tables[name][: self.steps] = table[: self.steps]
            self.tables[name][self.steps : stop] = part
        self.versions += version * len(piece["action"])
        self.steps = stop

    def end(self, final: Mapping[str, Tensor], actor: int) -> Episode:
        """Return the whole episode, with its last observation."""
        for name, last in final.items():
            self.tables[name][self.steps] = last
        whole = {name: self.tables[name][: self.steps + (name in final)] for name in self.tables}
        terminated = bool(whole.pop("terminated")[-1])
        del whole["truncated"]
        return Episode(
            tensors=whole,
            tables=self.tables,
            terminated=terminated,
            version=self.versions / self.steps,
            began=self.began,
            actor=actor,
        )


class Assembly:
    """The open episodes of an actor's worlds."""

    def __init__(self, actor: int, worlds: int, free: list[dict[str, Tensor]]) -> None:
        """Begin with no steps; `free` has tables of episodes that are no longer needed."""
        self.actor, self._free = actor, free
        self.open = [OpenEpisode() for _ in range(worlds)]

    def add(self, reply: Mapping[str, Tensor], row: int) -> list[Episode]:
        """Add the steps of a reply; return the episodes that it ended.

        Args:
            reply: of `Actor.advance`.
            row: control steps of the learner when it was asked for.
        """
        version = int(reply["version"])
        rows = {name: each for name, each in reply.items() if each.dim() > 1}
        finals = {n.removeprefix("final_"): t for n, t in rows.items() if n.startswith("final_")}
        rows = {name: each for name, each in rows.items() if not name.startswith("final_")}
        ended = rows["terminated"] | rows["truncated"]
        number = ended.flatten().cumsum(0).view(ended.shape) - 1  # of its final observation
        whole = []
        for world in range(len(self.open)):
            start = 0
            for stop in [*(ended[:, world].nonzero().flatten() + 1).tolist(), len(ended)]:
                if stop > start:
                    piece = {name: each[start:stop, world] for name, each in rows.items()}
                    self.open[world].add(piece, version, row)
                if stop > start and ended[stop - 1, world]:
                    last = int(number[stop - 1, world])
                    final = {name: each[last] for name, each in finals.items()}
                    whole.append(self.open[world].end(final, self.actor))
                    self.open[world] = OpenEpisode(self._free.pop() if self._free else {})
                start = stop
        return whole

    def steps(self) -> int:
        """Steps of open episodes."""
        return sum(each.steps for each in self.open)

    def episodes(self) -> int:
        """Open episodes with at least one step."""
        return sum(each.steps > 0 for each in self.open)


@dataclass
class Column:
    """A world of the replay: it takes one whole episode after another."""

    episode: Episode | None = None
    at: int = 0

    def left(self) -> int:
        """Steps of its episode that are not taken."""
        return 0 if self.episode is None else len(self.episode) - self.at


def take_row(
    columns: Sequence[Column], device: torch.device, arrived: Observation | None = None
) -> tuple[Observation, Tensor, Step]:
    """Take the next step of every column; each must have one left.

    Args:
        columns: worlds of the replay.
        device: of the result.
        arrived: the arrival of the last row, to copy only observations that begin an episode.
    """
    now = [(c.episode, c.at) for c in columns if c.episode is not None]
    assert len(now) == len(columns), "every column has an episode"
    for column in columns:
        column.at += 1

    begun = [row for row, (_, at) in enumerate(now) if at == 0]

    def stacked(name: str, ahead: int = 0, rows: Iterable[int] = range(len(now))) -> Tensor:
        steps = [(now[row][0].tensors[name], now[row][1] + ahead) for row in rows]
        return torch.stack([table[at] for table, at in steps]).to(device)

    def before(name: str) -> Tensor:
        if arrived is None:
            return stacked(name)
        known: Tensor = getattr(arrived, name)
        rows = torch.tensor(begun, device=device)
        return known.index_copy(0, rows, stacked(name, rows=begun)) if begun else known

    cameras = "frames" in now[0][0].tensors
    obs = Observation(state=before("state"), frames=before("frames") if cameras else None)
    arrival = Observation(
        state=stacked("state", 1), frames=stacked("frames", 1) if cameras else None
    )
    last = [at + 1 == len(episode) for episode, at in now]
    ended = torch.tensor(last)
    terminal = torch.tensor([end and e.terminated for end, (e, _) in zip(last, now, strict=True)])
    step = Step(
        obs=arrival,  # no action is chosen here
        reward=stacked("reward"),
        terminated=terminal.to(device),
        truncated=(ended & ~terminal).to(device),
        success=stacked("success"),
        final_obs=arrival,
    )
    return obs, stacked("action"), step


def pack_columns(columns: Sequence[Column]) -> dict[str, Tensor]:
    """Return the rest of every column's episode, for a checkpoint."""
    begun = [(c.episode.tensors, c.at) for c in columns if c.episode is not None and c.left()]
    names = begun[0][0] if begun else ()
    ends = [c.episode is not None and c.episode.terminated for c in columns]
    return {
        "left": torch.tensor([column.left() for column in columns]),
        "terminal": torch.tensor(ends, dtype=torch.bool),
        **{f"rest/{n}": torch.cat([tensors[n][at:] for tensors, at in begun]) for n in names},
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
    parts: dict[str, list[Tensor]] = {}
    for name, (dtype, shape) in kinds.items() if played else ():
        table = saved[f"rest/{name}"]
        sizes = [steps + (name in ("state", "frames")) for steps in played]
        wanted, found = (dtype, sum(sizes), *shape), (table.dtype, *table.shape)
        if min(left) < 0 or found != wanted or not table.isfinite().all():
            raise ValueError(f"the episodes' {name} must be {wanted} and finite, got {found}")
        parts[name] = list(table.split(sizes))
    columns = []
    for steps, ends in zip(left, terminal, strict=True):
        own = {name: each.pop(0) for name, each in parts.items()} if steps else {}
        columns.append(Column(Episode(tensors=own, terminated=bool(ends)) if steps else None))
    return columns
