# SPDX-License-Identifier: Apache-2.0
"""The figures' pictures, in the paper's layout; each reads runs and nothing else."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from pureward.diagnostics.history import History
from pureward.diagnostics.plot import (
    SUCCESS,
    add_legend,
    curves,
    draw_expert,
    draw_lines,
    fit_to_lines,
)
from pureward.envs import make
from pureward.paper.figure import Picture
from pureward.paper.numbers import Group, Results, UnmeasuredError, mean_of
from pureward.picture import first_camera
from pureward.rewards.methods import METHODS

_PANEL = (4.2, 3.2)  # inches
_KINDS = ("demonstrations", "annotations")
_EXPERT, _FAILURE, _POLICY, _ERROR = "tab:blue", "tab:red", "tab:green", "tab:purple"

Values = Callable[[Group], np.ndarray]


def draw_curves(results: Results) -> Canvas:
    """True return over env steps: a panel a task, a line a method."""
    return curves([run for group in results.groups for run in group.runs])


def draw_success(results: Results) -> Canvas:
    """P(success) of each source over env steps: a panel a method."""
    runs = [run for group in results.groups for run in group.runs]
    return curves(runs, metric=SUCCESS)


def draw_prior(results: Results) -> Canvas:
    """What D says of held-out data, and the return, by η: a row a task."""
    canvas, rows = _rows(results)
    for task, (left, right) in zip(results.tasks, rows, strict=True):
        groups = results.of(task)
        _points(left, groups, lambda g: g.late("mean/held_out"), "expert: D", _EXPERT)
        _points(left, groups, lambda g: 1.0 - g.late("mean/failure"), "failures: 1 − D", _FAILURE)
        left.axhline(0.5, color="0.4", linewidth=0.8, linestyle=":")
        left.set_ylim(-0.03, 1.03)
        left.set_ylabel("mean for the right class")
        _legend_below(left)
        left.set_title(f"{task}: (a) discriminator", fontsize=10)
        _returns(right, groups, f"{task}: (b) policy")
    return canvas


def draw_error(results: Results) -> Canvas:
    """Error of the predicted return, and the true return, by line: a row a task."""
    canvas, rows = _rows(results)
    for task, (left, right) in zip(results.tasks, rows, strict=True):
        groups = results.of(task)
        _points(left, groups, lambda g: g.late("reward_error"), "", _ERROR)
        left.axhline(0.0, color="0.4", linewidth=0.8, linestyle=":")
        fit_to_lines(left)
        left.set_ylabel("predicted − true return")
        left.set_title(f"{task}: (a) reward error", fontsize=10)
        _returns(right, groups, f"{task}: (b) policy")
    return canvas


def draw_gap(results: Results) -> Canvas:
    """The scene of the data and that of the policy, and curves of each kind of method."""
    shown = {task: own for task in results.tasks if (own := _evaluated(results.of(task)))}
    if not shown:
        raise UnmeasuredError(f"any return on {' and '.join(results.tasks)}")
    kinds = [kind for kind in _KINDS if any(kind in own for own in shown.values())]
    widths = (0.8, 0.8, *(1.0 for _ in kinds))
    size = (sum(widths) * _PANEL[0], _PANEL[1] * len(shown))
    canvas = Canvas(figsize=size, layout="constrained")
    rows = canvas.subplots(len(shown), len(widths), squeeze=False, width_ratios=widths)
    for (task, own), axes in zip(shown.items(), rows, strict=True):
        _draw_scenes(axes[:2], results.of(task)[0])
        panels = dict(zip(kinds, axes[2:], strict=True))
        for kind in panels.keys() - own.keys():
            panels.pop(kind).remove()
        for kind, axis in panels.items():
            draw_lines(axis, own[kind], title=f"{task}: from {kind}")
        _level(list(panels.values()))
        next(iter(panels.values())).set_ylabel("true return, greedy")
    add_legend(canvas)
    return canvas


#: What makes each kind of picture; strips are made of episodes (`hacking`).
DRAW: dict[Picture, Callable[[Results], Canvas]] = {
    "curves": draw_curves,
    "success": draw_success,
    "prior": draw_prior,
    "error": draw_error,
    "gap": draw_gap,
}


def _rows(results: Results) -> tuple[Canvas, np.ndarray]:
    count = len(results.tasks)
    canvas = Canvas(figsize=(2 * _PANEL[0], _PANEL[1] * count), layout="constrained")
    return canvas, canvas.subplots(count, 2, squeeze=False)


def _points(axis: Axes, groups: Sequence[Group], of: Values, label: str, colour: str) -> None:
    """A mean with its 95% interval and its seeds for each line, a gap where none is measured."""
    names = [group.label.rpartition("η ")[2] for group in groups]
    at, means, halves = [], [], []
    for place, group in enumerate(groups):
        try:
            seeds = of(group)
        except UnmeasuredError:
            continue
        mean = mean_of(seeds)
        axis.plot([place] * len(seeds), seeds, "_", color=colour, markersize=9, alpha=0.6)
        at.append(place)
        means.append(mean.value)
        halves.append(np.nan if mean.half_width is None else mean.half_width)
    axis.errorbar(at, means, yerr=halves, color=colour, label=label, marker="o", linestyle="none")
    axis.set_xticks(range(len(names)), names, fontsize=8)
    axis.set_xlim(-0.5, len(names) - 0.5)
    axis.set_xlabel("η")
    _dress(axis)


def _returns(axis: Axes, groups: Sequence[Group], title: str) -> None:
    _points(axis, groups, Group.returns, "", _POLICY)
    draw_expert(axis, [run for group in groups for run in group.runs])
    fit_to_lines(axis)
    _legend_below(axis)
    axis.set_ylabel("true return, greedy")
    axis.set_title(title, fontsize=10)


def _legend_below(axis: Axes) -> None:
    """Name what is drawn, where no point can be."""
    if axis.get_legend_handles_labels()[1]:
        axis.legend(
            fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2
        )


def _evaluated(groups: Sequence[Group]) -> dict[str, list[History]]:
    """The runs that have measured a return, by the kind of data that they learn from."""
    runs = [run for g in groups for run in g.runs if len(run.series("eval", "return"))]
    kinds = {k: [run for run in runs if METHODS[run.method].positives == k] for k in _KINDS}
    return {kind: own for kind, own in kinds.items() if own}


def _draw_scenes(axes: Sequence[Axes], group: Group) -> None:
    distractors = group.runs[0].config.get("distractors") or None
    for axis, shape, whose in zip(axes, (None, distractors), ("data", "policy"), strict=True):
        axis.imshow(_scene(group.task, shape))
        axis.axis("off")
        axis.set_title(f"{group.task}: scene of the {whose}", fontsize=10)


def _level(axes: Sequence[Axes]) -> None:
    """Give panels one scale that holds all of what each shows."""
    lows, highs = zip(*(axis.get_ylim() for axis in axes), strict=True)
    for axis in axes:
        axis.set_ylim(min(lows), max(highs))


def _dress(axis: Axes) -> None:
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def _scene(task: str, distractors: str | None) -> np.ndarray:
    """What the first camera sees at the beginning of an episode."""
    frames = make(task, 1, "cpu", cameras=True, distractors=distractors).reset().frames
    assert frames is not None
    return first_camera(frames)[0]
