# SPDX-License-Identifier: Apache-2.0
"""The figures' pictures, in the paper's layout; each reads runs and nothing else."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from pureward.env import make
from pureward.paper.figure import Picture
from pureward.paper.numbers import Group, Results, UnmeasuredError, mean_of
from pureward.picture import first_camera
from pureward.plot import SUCCESS, add_legend, curves, draw_expert, draw_lines
from pureward.reward.methods import method_named

_PANEL = (4.2, 3.2)  # inches
_EXPERT, _FAILURE, _POLICY, _ERROR = "tab:blue", "tab:red", "tab:green", "tab:purple"

Values = Callable[[Group], np.ndarray]


def draw_curves(results: Results) -> Canvas:
    """True return over env steps: a panel a task, a line a method."""
    return curves([run for group in results.groups for run in group.runs])


def draw_success(results: Results) -> Canvas:
    """P(success) of four sources over env steps: a panel a method."""
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
        left.legend(fontsize=8, frameon=False)
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
        left.set_ylabel("predicted − true return")
        left.set_title(f"{task}: (a) reward error", fontsize=10)
        _returns(right, groups, f"{task}: (b) policy")
    return canvas


def draw_gap(results: Results) -> Canvas:
    """The scene of the data and that of the policy, and curves of both kinds of method."""
    tasks = results.tasks
    size = (3.6 * _PANEL[0], _PANEL[1] * len(tasks))
    canvas = Canvas(figsize=size, layout="constrained")
    rows = canvas.subplots(len(tasks), 4, squeeze=False, width_ratios=(0.8, 0.8, 1, 1))
    for task, axes in zip(tasks, rows, strict=True):
        distractors = results.of(task)[0].runs[0].config.get("distractors") or None
        for axis, shape, title in (
            (axes[0], None, "data"),
            (axes[1], distractors, "policy"),
        ):
            axis.imshow(_scene(task, shape))
            axis.axis("off")
            axis.set_title(f"{task}: scene of the {title}", fontsize=10)
        for axis, kind in ((axes[2], "demonstrations"), (axes[3], "annotations")):
            own = [g for g in results.of(task) if method_named(g.label).positives == kind]
            runs = [run for group in own for run in group.runs]
            draw_lines(axis, runs, title=f"{task}: from {kind}")
        axes[3].sharey(axes[2])
        axes[2].set_ylabel("true return, greedy")
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
    """A mean with its 95% interval for each line; one that was not measured leaves a gap."""
    names = [group.label.rpartition("η ")[2] for group in groups]
    at, means, halves = [], [], []
    for place, group in enumerate(groups):
        try:
            mean = mean_of(of(group))
        except UnmeasuredError:
            continue
        at.append(place)
        means.append(mean.value)
        halves.append(mean.half_width or 0.0)
    axis.errorbar(
        at, means, yerr=halves, color=colour, label=label, marker="o", capsize=3, linestyle="none"
    )
    axis.set_xticks(range(len(names)), names, fontsize=8)
    axis.set_xlim(-0.5, len(names) - 0.5)
    axis.set_xlabel("η")
    _dress(axis)


def _returns(axis: Axes, groups: Sequence[Group], title: str) -> None:
    _points(axis, groups, Group.returns, "", _POLICY)
    draw_expert(axis, [run for group in groups for run in group.runs])
    axis.set_ylabel("true return, greedy")
    axis.set_title(title, fontsize=10)


def _dress(axis: Axes) -> None:
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def _scene(task: str, distractors: str | None) -> np.ndarray:
    """What the first camera sees at the beginning of an episode."""
    frames = make(task, 1, "cpu", cameras=True, distractors=distractors).reset().frames
    assert frames is not None
    return first_camera(frames)[0]
