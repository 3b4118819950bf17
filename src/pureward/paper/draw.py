# SPDX-License-Identifier: Apache-2.0
"""The figures' pictures, in the paper's layout; each is a function of results alone."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from pureward.diagnostics import plot
from pureward.diagnostics.history import History
from pureward.diagnostics.strip import draw_strips
from pureward.envs import make
from pureward.paper.figures import Picture
from pureward.paper.results import Group, Results, UnmeasuredError, mean_of
from pureward.picture import first_camera
from pureward.rewards.methods import METHODS

_KINDS = ("demonstrations", "annotations")
Groups = Sequence[Group]


def _draw_discriminators(axis: Axes, task: str, groups: Groups) -> None:
    """Mean D of held-out demonstrations and 1 − D of failures, by η."""
    _points(axis, groups, lambda g: g.late("mean/held_out"), "expert: D", "tab:blue")
    _points(axis, groups, lambda g: 1.0 - g.late("mean/failure"), "failures: 1 − D", "tab:red")
    axis.axhline(0.5, color="0.4", linewidth=0.8, linestyle=":")
    axis.set_ylim(-0.03, 1.03)
    _dress(axis, f"{task}: (a) discriminator", "mean for the right class")


def _draw_errors(axis: Axes, task: str, groups: Groups) -> None:
    """Error of the predicted return, by line."""
    _points(axis, groups, lambda g: g.late("reward_error"), "", "tab:purple")
    axis.axhline(0.0, color="0.4", linewidth=0.8, linestyle=":")
    plot.fit_to_lines(axis)
    _dress(axis, f"{task}: (a) reward error", "predicted − true return")


def _draw_sweep(results: Results, draw_left: Callable[[Axes, str, Groups], None]) -> Canvas:
    """One row per task: on the left as given, on the right the true return, by η."""
    count = len(results.tasks)
    canvas = Canvas(figsize=(2 * plot.PANEL[0], plot.PANEL[1] * count), layout="constrained")
    rows = canvas.subplots(count, 2, squeeze=False)
    for task, (left, right) in zip(results.tasks, rows, strict=True):
        groups = results.of(task)
        draw_left(left, task, groups)
        _points(right, groups, Group.returns, "", "tab:green")
        plot.draw_expert(right, [run for group in groups for run in group.runs])
        plot.fit_to_lines(right)
        _dress(right, f"{task}: (b) policy", "true return, greedy")
    return canvas


def _points(
    axis: Axes, groups: Groups, values: Callable[[Group], np.ndarray], label: str, colour: str
) -> None:
    """A mean with its 95% interval and its seeds for each line, a gap if it is not measured."""
    at, means, halves = [], [], []
    for place, group in enumerate(groups):
        try:
            seeds = values(group)
        except UnmeasuredError:
            continue
        mean = mean_of(seeds)
        axis.plot([place] * len(seeds), seeds, "_", color=colour, markersize=9, alpha=0.6)
        at.append(place)
        means.append(mean.value)
        halves.append(np.nan if mean.half_width is None else mean.half_width)
    axis.errorbar(at, means, yerr=halves, color=colour, label=label, marker="o", linestyle="none")
    names = [group.label.rpartition("η ")[2] for group in groups]
    axis.set_xticks(range(len(names)), names, fontsize=8)
    axis.set_xlim(-0.5, len(names) - 0.5)
    axis.set_xlabel("η")


def _dress(axis: Axes, title: str, ylabel: str) -> None:
    """Add title, grid, and a legend below, which covers no point."""
    axis.set_title(title, fontsize=10)
    axis.set_ylabel(ylabel)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    if axis.get_legend_handles_labels()[1]:
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.18), "ncols": 2}
        axis.legend(fontsize=8, frameon=False, **place)


def _draw_gap(results: Results) -> Canvas:
    """The scenes of the data and of the policy, and a panel of returns per kind of data."""
    shown = {task: own for task in results.tasks if (own := _evaluated(results.of(task)))}
    if not shown:
        raise UnmeasuredError(f"any return on {' and '.join(results.tasks)}")
    kinds = [kind for kind in _KINDS if any(kind in own for own in shown.values())]
    widths = (0.8, 0.8, *(1.0 for _ in kinds))
    size = (sum(widths) * plot.PANEL[0], plot.PANEL[1] * len(shown))
    canvas = Canvas(figsize=size, layout="constrained")
    rows = canvas.subplots(len(shown), len(widths), squeeze=False, width_ratios=widths)
    for (task, own), axes in zip(shown.items(), rows, strict=True):
        changed = results.of(task)[0].runs[0].config.get("distractors", "")
        for axis, shape, whose in zip(axes, ("", changed), ("data", "policy"), strict=False):
            axis.imshow(_scene(task, shape))
            axis.axis("off")
            axis.set_title(f"{task}: scene of the {whose}", fontsize=10)
        panels = dict(zip(kinds, axes[2:], strict=True))
        for kind in panels.keys() - own.keys():
            panels.pop(kind).remove()
        for kind, axis in panels.items():
            plot.draw_lines(axis, own[kind], title=f"{task}: from {kind}")
        lows, highs = zip(*(axis.get_ylim() for axis in panels.values()), strict=True)
        for axis in panels.values():
            axis.set_ylim(min(lows), max(highs))
        next(iter(panels.values())).set_ylabel("true return, greedy")
    plot.add_legend(canvas)
    return canvas


def _evaluated(groups: Groups) -> dict[str, list[History]]:
    """The runs that have measured a return, by the kind of data they learn from."""
    runs = [run for g in groups for run in g.runs if len(run.series("eval", "return"))]
    found = {kind: [r for r in runs if METHODS[r.method].positives == kind] for kind in _KINDS}
    return {kind: own for kind, own in found.items() if own}


def _scene(task: str, distractors: str) -> np.ndarray:
    """The first camera's image at the start of an episode."""
    frames = make(task, 1, "cpu", cameras=True, distractors=distractors).reset().frames
    assert frames is not None
    return first_camera(frames)[0]


def _draw_strips(results: Results) -> Canvas:
    """One episode of prl's policy per task."""
    tasks = list(results.watched) or results.tasks[:1]  # raises with what the first task lacks
    return draw_strips([results.episodes(task).strip for task in tasks])


#: The function that draws each kind of picture.
DRAW: dict[Picture, Callable[[Results], Canvas]] = {
    "curves": lambda results: plot.curves(results.runs),
    "success": lambda results: plot.curves(results.runs, metric=plot.SUCCESS),
    "prior": lambda results: _draw_sweep(results, _draw_discriminators),
    "error": lambda results: _draw_sweep(results, _draw_errors),
    "gap": _draw_gap,
    "strips": _draw_strips,
}
