# SPDX-License-Identifier: Apache-2.0
"""Curves of runs, as the paper draws them: a panel a task, a line a method, a band over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from scipy.special import stdtrit

from pureward.errors import InputError
from pureward.history import History
from pureward.probe import FAILURE, HELD_OUT, REPLAY, TRAIN
from pureward.reward.methods import METHODS

By = Literal["steps", "seconds"]

#: The metric that is drawn as P(success) of every source, a panel a method.
SUCCESS = "success"

# Settings in which runs of one line may differ: chance, where, and how long.
_APART = {
    *("seed", "out", "device", "videos", "demonstrations", "annotations"),
    *("env_steps", "budget_seconds", "stop_at_return"),
}
_COLOURS = dict(zip(METHODS, (f"C{n}" for n in range(len(METHODS))), strict=True))
_SOURCES = {
    TRAIN: ("trained on", "tab:blue"),
    HELD_OUT: ("held out", "tab:cyan"),
    FAILURE: ("failures", "tab:red"),
    REPLAY: ("agent (replay)", "tab:orange"),
}
_GRID = 200  # points of a mean over runs that measured at different times
_PANEL = (4.2, 3.2)  # inches


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


def curves(runs: Sequence[History], *, metric: str = "return", by: By = "steps") -> Figure:
    """Draw a metric of runs; "success" is P(success) of every source.

    Args:
        runs: of any tasks, methods and seeds.
        metric: a name in metrics.jsonl, or KIND/NAME where several kinds of line have it.
        by: what the horizontal axis counts.
    """
    if metric == SUCCESS:
        return _success_panels(runs, by)
    kind, name = _find(runs, metric)
    tasks = list(dict.fromkeys(run.task for run in runs))
    figure = Figure(figsize=(_PANEL[0] * len(tasks), _PANEL[1]), layout="constrained")
    axes = figure.subplots(1, len(tasks), squeeze=False)[0]
    for axis, task in zip(axes, tasks, strict=True):
        own = [run for run in runs if run.task == task]
        for line in lines(own):
            label = line.label + _seeds(line)
            _draw(axis, line, kind, name, by, label, _COLOURS[line.method])
        if name == "return":
            _draw_expert(axis, own)
        _dress(axis, task, by)
    axes[0].set_ylabel("true return, greedy" if (kind, name) == ("eval", "return") else metric)
    _add_legend(figure)
    return figure


def lines(runs: Sequence[History]) -> list[Line]:
    """Runs grouped to lines by method, or by all settings where a method has several."""
    groups: dict[str, list[History]] = {}
    for run in runs:
        groups.setdefault(repr((run.method, sorted(_settings(run).items()))), []).append(run)
    found = [Line(label=own[0].method, method=own[0].method, runs=own) for own in groups.values()]
    return [_told_apart(line, [o for o in found if o.method == line.method]) for line in found]


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
    count = len(courses)
    quantile = float(stdtrit(count - 1, 0.975))
    half = quantile * values.std(axis=0, ddof=1) / np.sqrt(count)
    return Band(at=at, mean=values.mean(axis=0), half_width=half)


def _success_panels(runs: Sequence[History], by: By) -> Figure:
    drawn = [line for line in lines(runs) if _course_names(line.runs, "probe", "success/")]
    if not drawn:
        raise InputError(
            "none of these runs has probed P(success); methods with a discriminator do, "
            "once they have run for a while"
        )
    figure = Figure(figsize=(_PANEL[0] * len(drawn), _PANEL[1]), layout="constrained")
    axes = figure.subplots(1, len(drawn), squeeze=False, sharey=True)[0]
    several = len({run.task for run in runs}) > 1
    for axis, line in zip(axes, drawn, strict=True):
        for source, (label, colour) in _SOURCES.items():
            _draw(axis, line, "probe", f"success/{source}", by, label, colour)
        axis.set_ylim(-0.03, 1.03)
        title = f"{line.runs[0].task}, {line.label}" if several else line.label
        _dress(axis, title + _seeds(line), by)
    axes[0].set_ylabel("P(success)")
    _add_legend(figure)
    return figure


def _draw(axis: Axes, line: Line, kind: str, name: str, by: By, label: str, colour: str) -> None:
    """One mean with its band, and thinly the runs that have measured it."""
    column = "step" if by == "steps" else "seconds"
    courses = [run.series(kind, name, column) for run in line.runs]
    courses = [course for course in courses if len(course)]
    if not courses:
        return
    one = band(courses)
    marker = "o" if len(one.at) <= 30 else ""
    axis.plot(one.at, one.mean, color=colour, label=label, marker=marker, markersize=3)
    if one.half_width is not None:
        for course in courses:
            axis.plot(course[:, 0], course[:, 1], color=colour, linewidth=0.6, alpha=0.5)
        low, high = one.mean - one.half_width, one.mean + one.half_width
        axis.fill_between(one.at, low, high, color=colour, alpha=0.2, linewidth=0)


def _seeds(line: Line) -> str:
    return f" ({len(line.runs)} seeds)" if len(line.runs) > 1 else ""


def _draw_expert(axis: Axes, runs: Sequence[History]) -> None:
    """A dashed line for each return that the runs' data was made with."""
    known = {
        (run.expert, "expert" if run.config.get("demonstrations") else "best annotated")
        for run in runs
        if run.expert is not None
    }
    for (value, label), style in zip(sorted(known), ("--", ":", "-."), strict=False):
        axis.axhline(value, color="0.3", linestyle=style, linewidth=1, label=label)


def _dress(axis: Axes, title: str, by: By) -> None:
    _fit_to_lines(axis)
    axis.set_title(title, fontsize=10)
    axis.set_xlabel("env steps" if by == "steps" else "seconds of training")
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def _fit_to_lines(axis: Axes) -> None:
    """Hold the axis to what was measured: an interval of few seeds may be far wider."""
    heights = [np.asarray(line.get_ydata(), dtype=float) for line in axis.lines]
    measured = np.concatenate(heights) if heights else np.zeros(0)
    if axis.get_autoscaley_on() and len(measured):
        margin = 0.05 * (measured.max() - measured.min()) or 1.0
        axis.set_ylim(measured.min() - margin, measured.max() + margin)


def _add_legend(figure: Figure) -> None:
    """One legend below for all panels."""
    named: dict[str, Any] = {}
    for axis in figure.axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    figure.legend(
        list(named.values()),
        list(named),
        loc="outside lower center",
        ncols=min(2 * len(figure.axes), len(named)),
        fontsize=8,
        frameon=False,
    )


def _find(runs: Sequence[History], metric: str) -> tuple[str, str]:
    """Which kind of line has a metric, evaluations before probes before training."""
    kinds = ("eval", "probe", "train")
    named, _, rest = metric.partition("/")
    wanted = [(named, rest)] if named in kinds else [(kind, metric) for kind in kinds]
    for kind, name in wanted:
        if any(len(run.series(kind, name)) for run in runs):
            return kind, name
    there = sorted({name for kind in kinds for name in _course_names(runs, kind)})
    raise InputError(
        f"none of these runs has measured {metric!r}; choose from {', '.join([SUCCESS, *there])}"
    )


def _course_names(runs: Sequence[History], kind: str, start: str = "") -> set[str]:
    rows = [row for run in runs for row in run.rows if row["kind"] == kind]
    names = {name for row in rows for name in row if name.startswith(start)}
    return names - {"kind", "step", "seconds", "updates"}


def _settings(run: History) -> dict[str, Any]:
    """A run's settings that decide its line, nested ones as `part.name`."""
    flat: dict[str, Any] = {}

    def take(values: dict[str, Any], prefix: str) -> None:
        for name, value in values.items():
            if isinstance(value, dict):
                take(value, f"{prefix}{name}.")
            elif prefix or name not in _APART:
                flat[prefix + name] = value

    take(run.config, "")
    return flat


def _told_apart(line: Line, same_method: list[Line]) -> Line:
    """The line with the settings in its label that others of its method do not share."""
    own = _settings(line.runs[0])
    others = [_settings(other.runs[0]) for other in same_method]
    differing = [name for name in own if any(other.get(name) != own[name] for other in others)]
    told = "".join(f", {name} {own[name]}" for name in differing)
    return Line(label=line.label + told, method=line.method, runs=line.runs)
