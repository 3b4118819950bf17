# SPDX-License-Identifier: Apache-2.0
"""What the runs of a figure measured, seed by seed, and the means and intervals over seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pureward.diagnostics.history import History, trained_for
from pureward.diagnostics.lines import Line, mean_band
from pureward.diagnostics.strip import Strip
from pureward.diagnostics.verdict import LATE
from pureward.interval import half_width


class UnmeasuredError(Exception):
    """No run has measured a number that was asked for; the message names it."""


class Mean(NamedTuple):
    """A mean over seeds and the half-width of its 95% interval (Student's t)."""

    value: float
    half_width: float | None  # None for a single seed

    def __str__(self) -> str:
        spread = "" if self.half_width is None else f" ± {self.half_width:.1f}"
        return f"{self.value:.1f}{spread}"


def mean_of(values: np.ndarray) -> Mean:
    """Return the mean of one value per seed, (seeds,)."""
    return Mean(float(values.mean()), float(half_width(values)) if len(values) > 1 else None)


@dataclass(frozen=True, kw_only=True)
class Group(Line):
    """A line of a figure; its label is the method, and η where the figure varies it."""

    def late(self, name: str, kinds: Sequence[str] = ("eval", "probe", "train")) -> np.ndarray:
        """Return a metric's mean over the last quarter of each run, (seeds,), by the first kind."""
        values = []
        for run in self.runs:
            curves = (run.series(kind, name) for kind in kinds)
            if (curve := next((one for one in curves if len(one)), None)) is not None:
                # Evaluations may be rare: if none is in the last quarter, use the newest one.
                end = min((1 - LATE) * trained_for(run)[0], curve[-1, 0])
                values.append(float(curve[curve[:, 0] >= end, 1].mean()))
        return self._measured(name, values)

    def early(self, name: str) -> np.ndarray:
        """Return a probed metric's mean over the first quarter of each run, (seeds,)."""
        values = []
        for curve in self.series("probe", name):
            # Probes may be rare: if none is in the first quarter, use the first one.
            end = max(LATE * curve[-1, 0], curve[0, 0])
            values.append(float(curve[curve[:, 0] <= end, 1].mean()))
        return self._measured(name, values)

    def returns(self) -> np.ndarray:
        """Return the greedy true return over the last quarter of each run, (seeds,)."""
        return self.late("return", ("eval",))

    def peak(self) -> float:
        """Return the maximum of the mean curve of greedy returns."""
        # Not the mean of each seed's own maximum, which is higher by chance alone.
        curves = self.series("eval", "return")
        _, means, _ = mean_band(curves) if curves else ([], [], None)
        return float(self._measured("return", [*means]).max())

    def ways(self) -> np.ndarray:
        """Return each seed's return scaled so that failures have 0 and the expert 1, (seeds,)."""
        expert, failure = self.runs[0].expert, self.runs[0].failure or 0.0
        if expert is None or expert <= failure:
            raise UnmeasuredError(f"an expert's return on {self.task}")
        return (self.returns() - failure) / (expert - failure)

    def area(self, span: tuple[float, float]) -> np.ndarray:
        """Return the mean height of the curves of greedy returns that cover a span, (seeds,)."""
        whole = [curve for curve in self.series("eval", "return") if curve[-1, 0] >= span[1]]
        return self._measured("return", [_mean_height(curve, span) for curve in whole])

    def progress(self) -> float:
        """Return the share of its env steps that the slowest seed has trained for, 0 to 1."""
        goals = [(trained_for(run)[0], run.config.get("env_steps", 0)) for run in self.runs]
        return min((min(1.0, steps / goal) for steps, goal in goals if goal), default=1.0)

    def _measured(self, name: str, values: list[float]) -> np.ndarray:
        if not values:
            raise UnmeasuredError(f"{name} of {self.label} on {self.task}")
        return np.array(values)


@dataclass(frozen=True, kw_only=True)
class Episodes:
    """Episodes of prl's policies, with the rewards of prl and nn-purl."""

    strip: Strip
    """The episode in which prl's prediction exceeds the true return most."""
    returns: Mapping[str, np.ndarray]
    """(episodes,) each, seed after seed: "true", and what "prl" and "nn-purl" predict."""
    seeds: Sequence[str]
    """The seeds whose policies acted, with equally many episodes each."""
    planned: int
    """Number of seeds in the plan."""

    def __str__(self) -> str:
        """The number of episodes, their seeds, and the means of each seed if there are several."""
        named = ", ".join(self.seeds)
        if len(self.seeds) < self.planned:
            named = f"{len(self.seeds)} of {self.planned} seeds ({named})"
        text = f"{len(self.returns['true'])} episodes of {named}"
        if len(self.seeds) < 2:
            return text
        parts = {name: np.split(paid, len(self.seeds)) for name, paid in self.returns.items()}
        by_seed = (
            f"{seed} " + ", ".join(f"{name} {part[at].mean():.1f}" for name, part in parts.items())
            for at, seed in enumerate(self.seeds)
        )
        return f"{text} [{'; '.join(by_seed)}]"


@dataclass(frozen=True, kw_only=True)
class Results:
    """Everything that the runs of a figure have measured."""

    groups: Sequence[Group]
    watched: Mapping[str, Episodes] = field(default_factory=dict)
    """Episodes that were rolled out for the figure, by task."""

    @property
    def tasks(self) -> list[str]:
        """The tasks that have runs, in order."""
        return list(dict.fromkeys(group.task for group in self.groups))

    @property
    def runs(self) -> list[History]:
        """The runs of all groups."""
        return [run for group in self.groups for run in group.runs]

    def of(self, task: str) -> list[Group]:
        """Return the groups of a task."""
        return [group for group in self.groups if group.task == task]

    def group(self, task: str, label: str) -> Group:
        """Return the runs of a line, or raise UnmeasuredError."""
        for group in self.of(task):
            if group.label == label:
                return group
        raise UnmeasuredError(f"{label} on {task}")

    def episodes(self, task: str) -> Episodes:
        """Return the episodes of a task, or raise UnmeasuredError with what is missing."""
        if task in self.watched:
            return self.watched[task]
        for label in ("prl", "nn-purl"):
            self.group(task, label)
        raise UnmeasuredError(
            f"episodes of prl's policy on {task}: no seed has the `reward/` of prl and of nn-purl "
            "and the `snapshots/` of prl"
        )

    def span(self, task: str) -> tuple[float, float]:
        """Return the first and last env step between which every run of a task was evaluated."""
        # If some lines are complete, only they count: others may have failed early.
        ended = [group for group in self.of(task) if group.progress() == 1.0]
        groups = ended or self.of(task)
        curves = [curve for group in groups for curve in group.series("eval", "return")]
        if not curves:
            raise UnmeasuredError(f"any return on {task}")
        first = max(curve[0, 0] for curve in curves)
        return first, max(first, min(curve[-1, 0] for curve in curves))


def _mean_height(curve: np.ndarray, span: tuple[float, float]) -> float:
    """Area under a curve divided by the length of the span; its value in a span of no length."""
    at = np.unique(np.clip([*span, *curve[:, 0]], *span))
    heights = np.interp(at, curve[:, 0], curve[:, 1])
    area = np.trapezoid(heights, at)
    return float(area / (at[-1] - at[0]) if len(at) > 1 else heights[0])
