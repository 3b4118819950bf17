# SPDX-License-Identifier: Apache-2.0
"""What the runs of a figure measured, seed by seed, and the means and intervals over seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pureward.diagnostics.history import History
from pureward.diagnostics.reading import trained_for
from pureward.diagnostics.verdict import LATE
from pureward.interval import half_width


class UnmeasuredError(Exception):
    """A number is asked for that no run has measured; says which."""


@dataclass(frozen=True, kw_only=True)
class Mean:
    """A mean over seeds with its 95% interval (Student's t)."""

    value: float
    half_width: float | None
    """None of a single seed, which says nothing of its spread."""

    def told(self, digits: int = 1) -> str:
        """The mean and its interval, for people."""
        spread = "" if self.half_width is None else f" ± {self.half_width:.{digits}f}"
        return f"{self.value:.{digits}f}{spread}"


def mean_of(values: np.ndarray) -> Mean:
    """The mean of one value a seed."""
    half = float(half_width(values)) if len(values) > 1 else None
    return Mean(value=float(values.mean()), half_width=half)


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs that differ in their seed only: a line of a figure on one task."""

    task: str
    label: str
    """The method, and its settings where they are not the preset's."""
    runs: Sequence[History]

    def late(self, name: str) -> np.ndarray:
        """A metric of each seed, the mean over the last quarter of its run."""
        known = [_at_the_end(run, name) for run in self.runs]
        return self._known(name, [value for value in known if value is not None])

    def early(self, name: str) -> np.ndarray:
        """A probed metric of each seed, the mean over the first quarter of its run."""
        courses = [run.series("probe", name) for run in self.runs]
        courses = [course for course in courses if len(course)]
        firsts = [course[course[:, 0] <= LATE * course[-1, 0]] for course in courses]
        # Probes may be rare: where none is early the first stands for the beginning.
        chosen = [first if len(first) else c[:1] for first, c in zip(firsts, courses, strict=True)]
        return self._known(name, [float(course[:, 1].mean()) for course in chosen])

    def returns(self) -> np.ndarray:
        """The greedy true return of each seed over the last quarter of its run."""
        judged = [run for run in self.runs if len(run.series("eval", "return"))]
        return replace(self, runs=judged).late("return")

    def peak(self) -> float:
        """The top of the mean curve of greedy returns, where all seeds were evaluated.

        The mean of each seed's own best would be above it by chance alone.
        """
        courses = [run.series("eval", "return") for run in self.runs]
        courses = [course for course in courses if len(course)]
        first = max((course[0, 0] for course in courses), default=0.0)
        last = min((course[-1, 0] for course in courses), default=0.0)
        at = np.unique([step for course in courses for step in course[:, 0]])
        at = at[(at >= first) & (at <= last)]
        heights = [np.interp(at, course[:, 0], course[:, 1]) for course in courses]
        return float(self._known("return", [*np.mean(heights, axis=0)] if len(at) else []).max())

    def ways(self) -> np.ndarray:
        """How far each seed has come from the return of failures to the expert's."""
        expert, failure = self.runs[0].expert, self.runs[0].failure or 0.0
        if expert is None or expert <= failure:
            raise UnmeasuredError(f"an expert's return on {self.task}")
        return (self.returns() - failure) / (expert - failure)

    def area(self, span: tuple[float, float]) -> np.ndarray:
        """The mean height of each seed's curve of greedy returns over a span of env steps."""
        courses = [run.series("eval", "return") for run in self.runs]
        whole = [course for course in courses if len(course) and course[-1, 0] >= span[1]]
        return self._known("return", [_height(course, span) for course in whole])

    def progress(self) -> float:
        """How much of its env steps the slowest seed has trained for, from 0 to 1."""
        goals = [(trained_for(run)[0], run.config.get("env_steps", 0)) for run in self.runs]
        return min((min(1.0, steps / goal) for steps, goal in goals if goal), default=1.0)

    def trained(self) -> tuple[np.ndarray, np.ndarray]:
        """Env steps and seconds of training of each seed."""
        judged = [run.series("eval", "return", "seconds")[-1:, 0] for run in self.runs]
        steps = [run.series("eval", "return")[-1:, 0] for run in self.runs]
        return np.concatenate([*steps, []]), np.concatenate([*judged, []])

    def _known(self, name: str, values: list[float]) -> np.ndarray:
        if not values:
            raise UnmeasuredError(f"{name} of {self.label} on {self.task}")
        return np.array(values)


@dataclass(frozen=True, kw_only=True)
class Episodes:
    """What is paid for episodes of prl's policies, which were played for a picture."""

    returns: Mapping[str, np.ndarray]
    """Of every episode, a seed after the other: "true", and what "prl" and "nn-purl" pay."""
    seeds: Sequence[str]
    """Those whose policies acted, each as often."""
    planned: int
    """How many seeds there should be."""

    def told(self) -> str:
        """How many there are, and of which seeds, for people."""
        named = ", ".join(self.seeds)
        if len(self.seeds) < self.planned:
            named = f"{len(self.seeds)} of {self.planned} seeds ({named})"
        return f"{len(self.returns['true'])} episodes of {named}{self._by_seed()}"

    def _by_seed(self) -> str:
        """The mean returns of each seed where there are several: one mean may hide opposites."""
        if len(self.seeds) < 2:
            return ""
        parts = {name: np.split(paid, len(self.seeds)) for name, paid in self.returns.items()}
        seeds = [
            f"{seed} " + ", ".join(f"{name} {part[at].mean():.1f}" for name, part in parts.items())
            for at, seed in enumerate(self.seeds)
        ]
        return f" [{'; '.join(seeds)}]"


@dataclass(frozen=True, kw_only=True)
class Results:
    """All that a figure's runs have measured."""

    groups: Sequence[Group]
    watched: Mapping[str, Episodes] = field(default_factory=dict)
    """Episodes that were played for a picture, by task."""

    @property
    def tasks(self) -> list[str]:
        """The tasks with runs, in order."""
        return list(dict.fromkeys(group.task for group in self.groups))

    def of(self, task: str) -> list[Group]:
        """The groups of a task."""
        return [group for group in self.groups if group.task == task]

    def group(self, task: str, label: str) -> Group:
        """The runs of a line, or a sentence that there are none."""
        for group in self.of(task):
            if group.label == label:
                return group
        raise UnmeasuredError(f"{label} on {task}")

    def episodes(self, task: str) -> Episodes:
        """The episodes that were played on a task, or a sentence on what they lack."""
        if task in self.watched:
            return self.watched[task]
        for label in ("prl", "nn-purl"):
            self.group(task, label)
        raise UnmeasuredError(
            f"episodes of prl's policy on {task}: no seed has the `reward/` of prl and of nn-purl "
            "and the `snapshots/` of prl"
        )

    def span(self, task: str) -> tuple[float, float]:
        """The env steps over which every run of a task has been evaluated.

        Lines that have come to their end do not wait for others, which may have failed.
        """
        ended = [group for group in self.of(task) if group.progress() == 1.0]
        runs = [run for group in ended or self.of(task) for run in group.runs]
        courses = [course for run in runs if len(course := run.series("eval", "return"))]
        if not courses:
            raise UnmeasuredError(f"any return on {task}")
        first = max(course[0, 0] for course in courses)
        return first, max(first, min(course[-1, 0] for course in courses))


def _at_the_end(run: History, name: str) -> float | None:
    """A metric's mean over the last quarter of a run: a policy may fall and rise again."""
    end = (1 - LATE) * max(row["step"] for row in run.rows)
    for kind in ("eval", "probe", "train"):  # greedy returns before those of exploration
        course = run.series(kind, name)
        if len(course):
            # Evaluations may be rare: where none is late the newest stands for the end.
            late = course[course[:, 0] >= end]
            return float((late if len(late) else course[-1:])[:, 1].mean())
    return None


def _height(course: np.ndarray, span: tuple[float, float]) -> float:
    """Area under a course divided by the span's length."""
    first, last = span
    if last <= first:
        return float(np.interp(first, course[:, 0], course[:, 1]))
    inside = course[(course[:, 0] > first) & (course[:, 0] < last), 0]
    at = np.concatenate([[first], inside, [last]])
    return float(np.trapezoid(np.interp(at, course[:, 0], course[:, 1]), at) / (last - first))
