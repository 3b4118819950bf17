# SPDX-License-Identifier: Apache-2.0
"""Curves of runs, as the paper draws them: a panel a task, a line a method, a band over seeds."""

import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from itertools import cycle
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from pureward.diagnostics.eta import has_eta, true_course
from pureward.diagnostics.history import History
from pureward.diagnostics.lines import Line, band, lines
from pureward.diagnostics.probe import FAILURE, HELD_OUT, REPLAY, SOLVED, TRAIN
from pureward.errors import InputError
from pureward.rewards.methods import METHODS

By = Literal["steps", "seconds"]

#: Metrics with a panel a method: P(success) of every source; η used, estimated and true.
SUCCESS, PRIOR = "success", "prior"

_COLOURS = dict(zip(METHODS, (f"C{n}" for n in range(len(METHODS))), strict=True))
_SOURCES = {
    TRAIN: ("trained on", "tab:blue"),
    HELD_OUT: ("held out", "tab:cyan"),
    FAILURE: ("failures", "tab:red"),
    REPLAY: ("agent (replay)", "tab:orange"),
    SOLVED: ("agent's successes", "tab:green"),
}
_USED, _ESTIMATED, _TRUE = "tab:blue", "tab:orange", "black"
_PANEL = (4.2, 3.2)  # inches
_STYLES = ("-", "--", ":", "-.")  # of lines of one method, which share its colour
_ENOUGH = 3  # seeds from which on the interval of a share is narrower than all shares there are
_LONG = 32  # letters of a label that leave no room for another beside it
_LETTERS_AN_INCH = 11  # of titles; of the smaller legend, with its handles
_ROWS, _ROW_INCHES = 3, 0.16  # of a legend that a picture has room for, and of each further one


def curves(runs: Sequence[History], *, metric: str = "return", by: By = "steps") -> Figure:
    """Draw a metric of runs; "success" is P(success) of every source, "prior" all of η.

    Args:
        runs: of any tasks, methods and seeds.
        metric: a name in metrics.jsonl, or KIND/NAME where several kinds of line have it.
        by: what the horizontal axis counts.
    """
    if metric == SUCCESS:
        return _success_panels(runs, by)
    if metric == PRIOR:
        return _prior_panels(runs, by)
    kind, name = _find(runs, metric)
    tasks = list(dict.fromkeys(run.task for run in runs))
    figure = Figure(figsize=(_PANEL[0] * len(tasks), _PANEL[1]), layout="constrained")
    axes = figure.subplots(1, len(tasks), squeeze=False)[0]
    for axis, task in zip(axes, tasks, strict=True):
        draw_lines(axis, [run for run in runs if run.task == task], (kind, name), task, by)
    axes[0].set_ylabel("true return, greedy" if (kind, name) == ("eval", "return") else metric)
    add_legend(figure)
    return figure


def draw_lines(
    axis: Axes,
    runs: Sequence[History],
    metric: tuple[str, str] = ("eval", "return"),
    title: str = "",
    by: By = "steps",
) -> None:
    """Draw a panel: a line for each method, or each of its settings, and the expert's return.

    Args:
        axis: to draw on.
        runs: of one task.
        metric: kind of line in metrics.jsonl, and name.
        title: above the panel.
        by: what the horizontal axis counts.
    """
    kind, name = metric
    styles = {method: iter(cycle(_STYLES)) for method in _COLOURS}
    for line in lines(runs):
        label, style = line.label + _seeds(line), next(styles[line.method])
        _draw(axis, _known(line, kind, name, by), label, _COLOURS[line.method], style=style)
    if name == "return":
        draw_expert(axis, runs)
    _dress(axis, title, by)


def add_legend(figure: Figure) -> None:
    """Add one legend below for all panels."""
    named: dict[str, Any] = {}
    for axis in figure.axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    if not named:
        return
    columns = 1 if max(map(len, named)) > _LONG else min(2 * len(figure.axes), len(named))
    labels = [_wrapped(label, figure.get_figwidth()) for label in named]
    rows = sum(label.count("\n") for label in labels) + math.ceil(len(labels) / columns)
    if rows > _ROWS:  # they would push the panels off the picture
        figure.set_figheight(figure.get_figheight() + _ROW_INCHES * (rows - _ROWS))
    figure.legend(
        list(named.values()),
        labels,
        loc="outside lower center",
        ncols=columns,
        fontsize=8,
        frameon=False,
    )


def _wrapped(text: str, inches: float) -> str:
    """Text in lines that are no wider than so much of a picture."""
    return textwrap.fill(text, max(20, int(_LETTERS_AN_INCH * inches)))


def _success_panels(runs: Sequence[History], by: By) -> Figure:
    drawn = [
        line
        for line in lines(runs)
        if any(_known(line, "probe", f"success/{source}", by) for source in _SOURCES)
    ]
    if not drawn:
        raise InputError(
            "none of these runs has probed P(success); methods with a discriminator do, "
            "once they have run for a while"
        )
    figure, axes = _panels(drawn, by)
    for axis, line in zip(axes, drawn, strict=True):
        for source, (label, colour) in _SOURCES.items():
            courses = _known(line, "probe", f"success/{source}", by)
            banded = len(courses) >= _ENOUGH
            _draw(axis, courses, label, colour, banded=banded, limits=(0.0, 1.0))
    axes[0].set_ylabel("P(success)")
    add_legend(figure)
    return figure


def _prior_panels(runs: Sequence[History], by: By) -> Figure:
    drawn = [
        line
        for line in lines(runs)
        if has_eta(line.method) and any(len(run.series("train", "prior")) for run in line.runs)
    ]
    if not drawn:
        raise InputError(
            "none of these runs has a class prior; pugail, nn-pugail, purl and nn-purl do, "
            "once they have run for a while"
        )
    figure, axes = _panels(drawn, by)
    for axis, line in zip(axes, drawn, strict=True):
        estimates = _known(line, "train", "prior/value", by)
        truth = _measured([true_course(run, _column(by)) for run in line.runs])
        # Bands are the estimates' own here: one over seeds as well could not be told from them.
        _draw(axis, _known(line, "train", "prior", by), "η used", _USED, banded=False)
        _draw(axis, estimates, "η̂ and its interval", _ESTIMATED, banded=False)
        _draw(axis, truth, "η by the simulator", _TRUE, style="--", banded=False)
        for run in line.runs:
            _draw_interval(axis, run, by)
    axes[0].set_ylabel("η")
    add_legend(figure)
    return figure


def _panels(drawn: Sequence[Line], by: By) -> tuple[Figure, Sequence[Axes]]:
    """A panel for each line, all of them over shares from 0 to 1."""
    figure = Figure(figsize=(_PANEL[0] * len(drawn), _PANEL[1]), layout="constrained")
    axes = figure.subplots(1, len(drawn), squeeze=False, sharey=True)[0]
    several = len({line.runs[0].task for line in drawn}) > 1
    for axis, line in zip(axes, drawn, strict=True):
        axis.set_ylim(-0.03, 1.03)
        title = f"{line.runs[0].task}, {line.label}" if several else line.label
        _dress(axis, title + _seeds(line), by)
    return figure, axes


def _draw_interval(axis: Axes, run: History, by: By) -> None:
    """The 95% interval of every estimate of a run."""
    low, high = (run.series("train", f"prior/{end}", _column(by)) for end in ("low", "high"))
    if len(low) and len(low) == len(high):
        axis.fill_between(
            low[:, 0], low[:, 1], high[:, 1], color=_ESTIMATED, alpha=0.2, linewidth=0
        )


def _column(by: By) -> str:
    return "step" if by == "steps" else "seconds"


def _known(line: Line, kind: str, name: str, by: By) -> list[np.ndarray]:
    """Courses of the runs that have measured it."""
    return _measured([run.series(kind, name, _column(by)) for run in line.runs])


def _measured(courses: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [course for course in courses if len(course)]


def _draw(
    axis: Axes,
    courses: Sequence[np.ndarray],
    label: str,
    colour: str,
    *,
    style: str = "-",
    banded: bool = True,
    limits: tuple[float, float] = (-np.inf, np.inf),
) -> None:
    """One mean with its band, within limits, and thinly the runs that have measured it."""
    if not courses:
        return
    one = band(courses)
    marker = "o" if len(one.at) <= 30 else ""
    axis.plot(one.at, one.mean, style, color=colour, label=label, marker=marker, markersize=3)
    if one.half_width is None:
        return
    for course in courses:
        axis.plot(course[:, 0], course[:, 1], color=colour, linewidth=0.6, alpha=0.5)
    if banded:
        ends = (one.mean - one.half_width, one.mean + one.half_width)
        low, high = (np.clip(end, *limits) for end in ends)
        axis.fill_between(one.at, low, high, color=colour, alpha=0.1, linewidth=0)


def _seeds(line: Line) -> str:
    return f" ({len(line.runs)} seeds)" if len(line.runs) > 1 else ""


def draw_expert(axis: Axes, runs: Sequence[History]) -> None:
    """Draw a dashed line for each return that the runs are held against."""
    known = {(run.expert, run.expert_label) for run in runs if run.expert is not None}
    named = Counter(label for _, label in known)
    for (value, label), style in zip(sorted(known), cycle(("--", ":", "-.")), strict=False):
        told = label if named[label] == 1 else f"{label}, {value:.1f}"
        axis.axhline(value, color="0.3", linestyle=style, linewidth=1, label=told)


def _dress(axis: Axes, title: str, by: By) -> None:
    fit_to_lines(axis)
    width = axis.get_window_extent().width / axis.figure.dpi
    axis.set_title(_wrapped(title, width), fontsize=10)
    axis.set_xlabel("env steps" if by == "steps" else "seconds of training")
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def fit_to_lines(axis: Axes) -> None:
    """Hold the axis to what was measured: an interval of few seeds may be far wider."""
    heights = [np.asarray(line.get_ydata(), dtype=float) for line in axis.lines]
    measured = np.concatenate(heights) if heights else np.zeros(0)
    if axis.get_autoscaley_on() and len(measured):
        margin = 0.05 * (measured.max() - measured.min()) or 1.0
        axis.set_ylim(measured.min() - margin, measured.max() + margin)


def _find(runs: Sequence[History], metric: str) -> tuple[str, str]:
    """Which kind of line has a metric, evaluations before probes before training."""
    kinds = ("eval", "probe", "train")
    named, _, rest = metric.partition("/")
    wanted = [(named, rest)] if named in kinds else [(kind, metric) for kind in kinds]
    for kind, name in wanted:
        if any(len(run.series(kind, name)) for run in runs):
            return kind, name
    there = [name for kind in kinds for name in _course_names(runs, kind)]
    if not there:
        raise InputError("none of these runs has measured anything yet; let them run for a while")
    raise InputError(
        f"none of these runs has measured {metric!r}; choose from {', '.join(_choices(there))}"
    )


def _choices(there: Sequence[str]) -> list[str]:
    """What can be asked for: "success" is the probes', that of evaluations goes by its kind."""
    names = sorted({f"eval/{name}" if name == SUCCESS else name for name in there})
    probed = any(name.startswith(f"{SUCCESS}/") for name in there)
    return [SUCCESS, *names] if probed else names


def _course_names(runs: Sequence[History], kind: str) -> set[str]:
    rows = [row for run in runs for row in run.rows if row["kind"] == kind]
    return {name for row in rows for name in row} - {"kind", "step", "seconds", "updates"}
