# SPDX-License-Identifier: Apache-2.0
"""Runs grouped to the lines of a plot, and the mean over runs with its interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pureward.diagnostics.history import History
from pureward.interval import half_width
from pureward.runs.config import RunConfig
from pureward.runs.config_file import DATA, MAY_CHANGE, flat, to_json

# Settings in which runs of one line may differ: seed, place, duration, and logging.
_IGNORED = (MAY_CHANGE - DATA) | {
    *("seed", "probe_frames", "evaluate_episodes", "keep_checkpoints", "save_replay"),
    *("log_every", "evaluate_every", "probe_every", "checkpoint_every", "snapshot_every"),
}
_DEFAULTS = flat(to_json(RunConfig()))
_NAMED = 3  # settings in a label; more would fill the plot
_GRID = 200  # points of a mean over runs that measured at different times


@dataclass(frozen=True, kw_only=True)
class Line:
    """Runs of one task that differ only in their seed."""

    label: str
    task: str
    runs: list[History]

    @property
    def method(self) -> str:
        """The method of its runs."""
        return self.runs[0].method

    def series(self, kind: str, name: str, by: str = "step") -> list[np.ndarray]:
        """A metric over time of each run that has measured it."""
        return [one for run in self.runs if len(one := run.series(kind, name, by))]


def lines(runs: Sequence[History]) -> list[Line]:
    """Return runs grouped by method and settings; labels name the settings that differ."""
    groups: dict[str, list[History]] = {}
    for run in runs:
        groups.setdefault(repr((run.method, sorted(_settings(run).items()))), []).append(run)
    firsts = [own[0] for own in groups.values()]
    return [Line(label=_label(own, firsts), task=own[0].task, runs=own) for own in groups.values()]


def mean_band(series: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return times, mean and half of the 95% interval of series (count, 2), where all are known.

    A single series has no interval.
    """
    if len(series) == 1:
        return series[0][:, 0], series[0][:, 1], None
    first, last = max(one[0, 0] for one in series), min(one[-1, 0] for one in series)
    known = np.unique(np.concatenate([one[:, 0] for one in series]))
    known = known[(known >= first) & (known <= last)]
    at = known if len(known) <= _GRID else np.linspace(first, last, _GRID)
    values = np.stack([np.interp(at, one[:, 0], one[:, 1]) for one in series])
    return at, values.mean(axis=0), half_width(values)


def _settings(run: History) -> dict[str, Any]:
    """The settings that decide a run's line; those newer than the run have their default."""
    known = _DEFAULTS | flat(run.config)
    known |= {name: Path(str(known[name])).name for name in DATA}  # datasets may be moved
    rounded = {k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in known.items()}
    return {name: value for name, value in rounded.items() if name not in _IGNORED}


def _label(own: Sequence[History], firsts: Sequence[History]) -> str:
    """Method, settings that other lines of the same task and method do not share, and seeds."""
    task, method, settings = own[0].task, own[0].method, _settings(own[0])
    others = [_settings(run) for run in firsts if (run.task, run.method) == (task, method)]
    names = [name for name in settings if any(o.get(name) != settings[name] for o in others)]
    shown = {name: '""' if settings[name] == "" else settings[name] for name in names[:_NAMED]}
    more = f" and {len(names) - _NAMED} more settings" if len(names) > _NAMED else ""
    seeds = f" ({len(own)} seeds)" if len(own) > 1 else ""
    return method + "".join(f", {name} {value}" for name, value in shown.items()) + more + seeds
