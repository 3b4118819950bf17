# SPDX-License-Identifier: Apache-2.0
"""A figure as steps: an expert, its data, and runs, each a folder that is made once.

    OUT/TASK/expert            a run on the task's own reward
    OUT/TASK/demonstrations    episodes of its last policy
    OUT/TASK/annotations       episodes from its whole training
    OUT/TASK/METHOD/seed-0     a run on a learned reward; settings of its own are in the name

Figures share folders, since runs with the same settings have the same name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from pureward.distributed.training import Training
from pureward.errors import InputError
from pureward.files import is_claimed
from pureward.paper.figures import Figure, Variant
from pureward.rewards.methods import METHODS
from pureward.runs.collect import collect
from pureward.runs.config_file import flat, to_json, with_settings
from pureward.training.presets import preset

_MOST_SEEDS = 1_000


@dataclass(frozen=True, kw_only=True)
class Study:
    """What the runs of a task need besides its presets."""

    expert: Mapping[str, Any] = field(default_factory=dict)
    """Fields of RunConfig that the expert's run changes."""
    learned: Mapping[str, Any] = field(default_factory=dict)
    """Fields that every run on a learned reward changes, for all methods alike."""
    episodes: int = 50
    """Demonstrations, and annotated episodes, for training (Table 2)."""
    held_out: int = 10
    """Further episodes of each dataset for the probes."""
    failures: int = 10
    """Episodes without success, for the probes."""


STUDIES = {
    # Snapshots are frequent because annotations come from the whole training.
    "walker": Study(
        expert={"stop_at_return": 900.0, "snapshot_every": 100_000, "evaluate_every": 400_000}
    ),
    "lift": Study(
        expert={"stop_at_return": 350.0, "snapshot_every": 100_000, "evaluate_every": 1_000_000}
    ),
    "stack": Study(expert={"stop_at_return": 340.0, "snapshot_every": 400_000}, episodes=200),
    "reach": Study(expert={"snapshot_every": 1_000}, episodes=20, held_out=6, failures=6),
}


@dataclass(frozen=True, kw_only=True)
class _Collecting:
    """A dataset as a job."""

    task: str
    out: Path
    stages: bool
    """Whether policies from the whole training act, or only the last one."""
    study: Study
    device: str

    @property
    def after(self) -> tuple[Path]:
        return (self.out.with_name("expert"),)

    @property
    def log(self) -> Path:
        # Not in the dataset's folder, which must appear at once.
        return self.out.with_name(f"{self.out.name}.log.txt")

    def finished(self) -> bool:
        return (self.out / "card.json").is_file()

    def busy(self) -> bool:
        return is_claimed(self.out)

    def run(self) -> bool:
        collect(
            self.task,
            self.after[0],
            self.out,
            episodes=self.study.episodes,
            held_out=self.study.held_out,
            failures=self.study.failures,
            stages=self.stages,
            device=self.device,
        )
        return True


Step = Training | _Collecting


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The steps of a figure."""

    figure: Figure
    tasks: tuple[str, ...]
    steps: tuple[Step, ...]
    """Each after the steps it needs, seed by seed: all lines have their first seed early."""
    runs: Mapping[tuple[str, str], Sequence[Path]]
    """Run directories, one per seed, by task and label of a line."""
    out: Path


def make_plan(
    figure: Figure,
    *,
    out: Path,
    tasks: Sequence[str] = (),
    seeds: int = 5,
    methods: Sequence[str] = (),
    device: str = "auto",
) -> Plan:
    """Return the plan of a figure.

    Args:
        figure: one of `FIGURES`, or your own.
        out: folder of all runs.
        tasks: to draw it for; empty for the paper's.
        seeds: runs per line.
        methods: a subset of the figure's; empty for all.
        device: of every run.
    """
    if not 1 <= seeds <= _MOST_SEEDS:
        raise InputError(f"seeds must be 1 to {_MOST_SEEDS:,}, got {seeds:,}; try 5")
    tasks = tuple(dict.fromkeys(tasks)) or figure.tasks
    if unknown := [task for task in tasks if task not in STUDIES]:
        raise InputError(f"task {unknown[0]!r} has no study; choose from {', '.join(STUDIES)}")
    there = dict.fromkeys(variant.method for variant in figure.variants)
    if unknown := [method for method in methods if method not in there]:
        raise InputError(
            f"the figure {figure.name} has no {', '.join(unknown)}; choose from {', '.join(there)}"
        )
    variants = [v for v in figure.variants if not methods or v.method in methods]
    annotated = any(METHODS[variant.method].positives == "annotations" for variant in variants)
    steps: list[Step] = []
    for task in tasks:
        steps += _data(task, STUDIES[task], out / task, device, annotated=annotated)
    runs: dict[tuple[str, str], list[Path]] = {}
    for seed, task, variant in product(range(seeds), tasks, variants):
        run = _training(task, variant, seed, STUDIES[task], out / task, device)
        steps.append(run)
        runs.setdefault((task, variant.label), []).append(run.out)
    for step in steps:
        if isinstance(step, Training):
            step.check_settings()
    unique = {step.out: step for step in steps}  # lines may share runs
    return Plan(figure=figure, tasks=tasks, steps=tuple(unique.values()), runs=runs, out=out)


def _data(task: str, study: Study, folder: Path, device: str, *, annotated: bool) -> list[Step]:
    """Datasets, and their expert unless they exist; demonstrations give the expert's return."""
    sets = [
        _Collecting(task=task, out=folder / name, stages=stages, study=study, device=device)
        for name, stages in (("demonstrations", False), ("annotations", True))
        if annotated or not stages
    ]
    if all(dataset.finished() for dataset in sets):
        return [*sets]
    expert = replace(preset(task, out=str(folder / "expert"), device=device), **study.expert)
    return [Training(config=expert), *sets]


def _training(
    task: str, variant: Variant, seed: int, study: Study, folder: Path, device: str
) -> Training:
    needed = METHODS[variant.method].positives
    assert needed is not None, "a figure shows learned rewards"
    data: dict[str, Any] = {needed: str(folder / needed)}
    own = preset(task, method=variant.method, seed=seed, device=device, **data)
    own = replace(own, **study.learned)
    before = flat(to_json(own))
    changed = {name: value for name, value in variant.settings.items() if before[name] != value}
    names = (f"{name.rpartition('.')[2]}-{value}" for name, value in changed.items())
    out = folder / "-".join([variant.method, *names]) / f"seed-{seed}"
    after = dict.fromkeys((folder / "demonstrations", folder / needed))
    return Training(config=with_settings(own, {**changed, "out": str(out)}), after=tuple(after))
