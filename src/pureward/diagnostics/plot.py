# SPDX-License-Identifier: Apache-2.0
"""Curves of runs as in the paper: a panel a task, a line a method, a band over seeds."""

import math
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from pureward.diagnostics.history import History, true_eta
from pureward.diagnostics.lines import Line, lines, mean_band
from pureward.diagnostics.probe import SOURCES
from pureward.diagnostics.verdict import COORDINATES
from pureward.errors import InputError
from pureward.rewards.methods import METHODS

By = Literal["steps", "seconds"]
_Curve = tuple[list[np.ndarray], str, str, str]  # series of all runs, label, colour, style
_COLUMNS = {"steps": "step", "seconds": "seconds"}  # of metrics.jsonl

#: Metrics with a panel a method: P(success) of every source; η used, estimated and true.
SUCCESS, PRIOR = "success", "prior"

#: Source of frames → its colour.
SOURCE_COLOURS = dict(zip(SOURCES, ("C0", "C4", "C3", "C1", "C2"), strict=True))
_ESTIMATE_COLOUR = "tab:orange"
_ABSENT = {
    SUCCESS: "none of these runs has probed P(success); methods with a discriminator do",
    PRIOR: "none of these runs has a class prior; pugail, nn-pugail, purl and nn-purl do",
}
PANEL = (4.2, 3.2)  # inches
_STYLES = ("-", "--", ":", "-.")  # of lines of one method, which share its colour
_BAND_SEEDS = 3  # the interval of two seeds is 13 times as wide as the space between them
_LONG_LABEL = 32  # characters from which on a legend has one column
_CHARACTERS_PER_INCH = 11
_LEGEND_ROWS, _ROW_INCHES = 3, 0.16  # more rows than these make the figure higher


def curves(runs: Sequence[History], *, metric: str = "return", by: By = "steps") -> Figure:
    """Plot a metric of runs; "success" is P(success) of every source, "prior" all of η.

    Args:
        runs: of any tasks, methods and seeds.
        metric: a name in metrics.jsonl, or KIND/NAME if several kinds of line have it.
        by: what the horizontal axis counts.
    """
    if metric in (SUCCESS, PRIOR):
        return _share_panels(runs, metric, by)
    kind, name = _find(runs, metric)
    tasks = list(dict.fromkeys(run.task for run in runs))
    figure, axes = _figure(len(tasks))
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
    """Plot a line for each method, or each of its settings, and the expert's return.

    Args:
        axis: of the panel.
        runs: of one task.
        metric: kind of line in metrics.jsonl, and name.
        title: above the panel.
        by: what the horizontal axis counts.
    """
    styles = {run.method: cycle(_STYLES) for run in runs}
    for line in lines(runs):
        series, style = line.series(*metric, _COLUMNS[by]), next(styles[line.method])
        _draw(axis, (series, line.label, method_colour(line.method), style))
    if metric[1] == "return":
        draw_expert(axis, runs)
    _finish(axis, title, by)


def method_colour(method: str) -> str:
    """Return a method's colour, the same in every figure."""
    return f"C{list(METHODS).index(method)}"


def draw_expert(axis: Axes, runs: Sequence[History]) -> None:
    """Draw a dashed line for each return that the runs are compared with."""
    known = {(run.expert, run.expert_label) for run in runs if run.expert is not None}
    count = Counter(label for _, label in known)
    for (value, label), style in zip(sorted(known), cycle(("--", ":", "-.")), strict=False):
        text = label if count[label] == 1 else f"{label}, {value:.1f}"
        axis.axhline(value, color="0.3", linestyle=style, linewidth=1, label=text)


def add_legend(figure: Figure) -> None:
    """Add one legend below for all panels."""
    named: dict[str, Any] = {}
    for axis in figure.axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    if not named:
        return
    columns = 1 if max(map(len, named)) > _LONG_LABEL else min(2 * len(figure.axes), len(named))
    labels = [_wrapped(label, figure.get_figwidth()) for label in named]
    rows = sum(label.count("\n") for label in labels) + math.ceil(len(labels) / columns)
    if rows > _LEGEND_ROWS:  # they would push the panels off the figure
        figure.set_figheight(figure.get_figheight() + _ROW_INCHES * (rows - _LEGEND_ROWS))
    place = {"loc": "outside lower center", "ncols": columns, "fontsize": 8, "frameon": False}
    figure.legend(list(named.values()), labels, **place)


def fit_to_lines(axis: Axes) -> None:
    """Scale the axis to its lines: an interval of few seeds may be much wider."""
    heights = (np.asarray(line.get_ydata(), dtype=float) for line in axis.lines)
    measured = np.concatenate([np.zeros(0), *heights])
    if axis.get_autoscaley_on() and len(measured):
        margin = 0.05 * (measured.max() - measured.min()) or 1.0
        axis.set_ylim(measured.min() - margin, measured.max() + margin)


def draw_shares(
    axis: Axes, line: Line, metric: str, by: By = "steps", labels: Mapping[str, str] = SOURCES
) -> None:
    """Plot shares from 0 to 1 of a line.

    Args:
        axis: of the panel.
        line: its runs.
        metric: `SUCCESS` or `PRIOR`.
        by: what the horizontal axis counts.
        labels: of sources of frames.
    """
    for curve in _shares(line, metric, by, labels):
        _draw(axis, curve, (0.0, 1.0) if metric == SUCCESS else None)
    for run in line.runs if metric == PRIOR else ():  # the interval of every estimate
        low, high = (run.series("train", f"prior/{e}", _COLUMNS[by]) for e in ("low", "high"))
        if len(low) and len(low) == len(high):
            ends = low[:, 0], low[:, 1], high[:, 1]
            axis.fill_between(*ends, color=_ESTIMATE_COLOUR, alpha=0.2, linewidth=0)
    if metric == SUCCESS:
        axis.set_ylim(-0.03, 1.03)
    else:  # η may be small
        axis.set_ylim(bottom=0.0)


def _share_panels(runs: Sequence[History], metric: str, by: By) -> Figure:
    """A panel for each line that has measured these shares."""
    found = [line for line in lines(runs) if any(s for s, *_ in _shares(line, metric, by))]
    if not found:
        raise InputError(f"{_ABSENT[metric]}, once they have run for a while")
    figure, axes = _figure(len(found), sharey=True)
    several = len({line.task for line in found}) > 1
    for axis, line in zip(axes, found, strict=True):
        draw_shares(axis, line, metric, by)
        _finish(axis, f"{line.task}, {line.label}" if several else line.label, by)
    axes[0].set_ylabel("P(success)" if metric == SUCCESS else "η")
    add_legend(figure)
    return figure


def _shares(line: Line, metric: str, by: By, labels: Mapping[str, str] = SOURCES) -> list[_Curve]:
    column = _COLUMNS[by]
    if metric == SUCCESS:
        return [
            (line.series("probe", f"success/{name}", column), labels[name], colour, "-")
            for name, colour in SOURCE_COLOURS.items()
        ]
    if not METHODS[line.method].takes_prior:
        return []
    truth = [series for run in line.runs if len(series := true_eta(run, column))]
    return [
        (line.series("train", "prior", column), "η used", "tab:blue", "-"),
        (line.series("train", "prior/value", column), "η̂ and its interval", _ESTIMATE_COLOUR, "-"),
        (truth, "η by the simulator", "black", "--"),
    ]


def _draw(axis: Axes, curve: _Curve, band: tuple[float, float] | None = (-np.inf, np.inf)) -> None:
    """The mean, thin lines of single runs, and from three seeds on a band within limits, if any."""
    series, label, colour, style = curve
    if not series:
        return
    at, mean, half = mean_band(series)
    marker = "o" if len(at) <= 30 else ""
    axis.plot(at, mean, style, color=colour, label=label, marker=marker, markersize=3)
    if half is None:
        return
    for one in series:
        axis.plot(one[:, 0], one[:, 1], color=colour, linewidth=0.6, alpha=0.5)
    if band is not None and len(series) >= _BAND_SEEDS:
        low, high = np.clip(mean - half, *band), np.clip(mean + half, *band)
        axis.fill_between(at, low, high, color=colour, alpha=0.1, linewidth=0)


def _figure(panels: int, **options: Any) -> tuple[Figure, Sequence[Axes]]:
    figure = Figure(figsize=(PANEL[0] * panels, PANEL[1]), layout="constrained")
    return figure, figure.subplots(1, panels, squeeze=False, **options)[0]


def _finish(axis: Axes, title: str, by: By) -> None:
    fit_to_lines(axis)
    width = axis.get_window_extent().width / axis.figure.dpi
    axis.set_title(_wrapped(title, width), fontsize=10)
    axis.set_xlabel("env steps" if by == "steps" else "seconds of training")
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def _wrapped(text: str, inches: float) -> str:
    return textwrap.fill(text, max(20, int(_CHARACTERS_PER_INCH * inches)))


def _find(runs: Sequence[History], metric: str) -> tuple[str, str]:
    """The kind of line that has a metric: evaluations before probes before training."""
    kinds = ("eval", "probe", "train")
    head, _, rest = metric.partition("/")
    for kind, name in [(head, rest)] if head in kinds else [(kind, metric) for kind in kinds]:
        if any(len(run.series(kind, name)) for run in runs):
            return kind, name
    rows = [row for run in runs for row in run.rows if row["kind"] in kinds]
    names = {name for row in rows for name in row} - COORDINATES
    if not names:
        raise InputError("none of these runs has measured anything yet; let them run for a while")
    # "success" plots the probes; that of evaluations needs its kind.
    choices = [SUCCESS] if any(name.startswith(f"{SUCCESS}/") for name in names) else []
    choices += sorted(f"eval/{name}" if name == SUCCESS else name for name in names)
    raise InputError(
        f"none of these runs has measured {metric!r}; choose from {', '.join(choices)}"
    )
