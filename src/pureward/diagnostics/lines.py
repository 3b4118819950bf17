# SPDX-License-Identifier: Apache-2.0
"""Runs grouped to lines, and the mean of their courses with its interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pureward.diagnostics.history import History
from pureward.interval import half_width
from pureward.runs.config import RunConfig
from pureward.runs.config_file import DATA, MAY_CHANGE, flat, to_json

# Settings in which runs of one line may differ: chance, where, how long, and how often one looks.
_APART = (MAY_CHANGE - DATA) | {
    *("seed", "probe_frames", "evaluate_episodes"),
    *("log_every", "evaluate_every", "probe_every", "checkpoint_every", "snapshot_every"),
    *("keep_checkpoints", "save_replay"),
}
_NAMED = 3  # settings in a label; more would fill the picture
_GRID = 200  # points of a mean over runs that measured at different times


@dataclass(frozen=True, kw_only=True)
class Band:
    """The mean of several courses with its 95% interval."""

    at: np.ndarray
    mean: np.ndarray
    half_width: np.ndarray | None
    """None of a single course, which says nothing of its spread."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """Runs that differ in nothing but chance."""

    label: str
    method: str
    runs: list[History]


def lines(runs: Sequence[History]) -> list[Line]:
    """Runs grouped to lines by method, or by all settings where a method has several."""
    groups: dict[str, list[History]] = {}
    for run in runs:
        groups.setdefault(repr((run.method, sorted(_settings(run).items()))), []).append(run)
    found = [Line(label=own[0].method, method=own[0].method, runs=own) for own in groups.values()]
    return [_told_apart(line, [o for o in found if _alike(o, line)]) for line in found]


def band(courses: Sequence[np.ndarray]) -> Band:
    """Mean and 95% interval (Student's t) of courses (count, 2), where all of them are known."""
    if len(courses) == 1:
        return Band(at=courses[0][:, 0], mean=courses[0][:, 1], half_width=None)
    first = max(course[0, 0] for course in courses)
    last = min(course[-1, 0] for course in courses)
    known = np.unique(np.concatenate([course[:, 0] for course in courses]))
    known = known[(known >= first) & (known <= last)]
    at = known if len(known) <= _GRID else np.linspace(first, last, _GRID)
    values = np.stack([np.interp(at, course[:, 0], course[:, 1]) for course in courses])
    return Band(at=at, mean=values.mean(axis=0), half_width=half_width(values))


def _settings(run: History) -> dict[str, Any]:
    """A run's settings that decide its line; those that are newer than the run by default."""
    known = _defaults() | flat(run.config)
    known |= {name: Path(str(known[name])).name for name in DATA}  # wherever it was moved to
    return {name: _rounded(value) for name, value in known.items() if name not in _APART}


@cache
def _defaults() -> dict[str, Any]:
    return flat(to_json(RunConfig()))


def _rounded(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _told(value: Any) -> str:
    """A setting's value, visible where it is empty, as on the command line."""
    return '""' if value == "" else str(value)


def _alike(one: Line, other: Line) -> bool:
    """Whether their labels must differ; lines of two tasks are in panels of their own."""
    return one.method == other.method and one.runs[0].task == other.runs[0].task


def _told_apart(line: Line, alike: list[Line]) -> Line:
    """The line with the settings in its label that others of its method do not share."""
    own = _settings(line.runs[0])
    others = [_settings(other.runs[0]) for other in alike]
    differing = [name for name in own if any(other.get(name) != own[name] for other in others)]
    told = "".join(f", {name} {_told(own[name])}" for name in differing[:_NAMED])
    if len(differing) > _NAMED:
        told += f" and {len(differing) - _NAMED} more settings"
    return Line(label=line.label + told, method=line.method, runs=line.runs)
