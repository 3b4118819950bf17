# SPDX-License-Identifier: Apache-2.0
"""A figure as steps: an expert, data of it, and runs, each a folder that is made once.

    OUT/TASK/expert            a run on the task's own reward
    OUT/TASK/demonstrations    episodes of its last policy
    OUT/TASK/annotations       episodes from the whole course of its learning
    OUT/TASK/METHOD/seed-0     a run on a learned reward; settings of its own are in the name

Figures share what they have in common, since the same settings have the same folder.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pureward.distributed.training import Training
from pureward.errors import InputError
from pureward.files import is_claimed
from pureward.paper.figure import Figure, Variant
from pureward.paper.tasks import STUDIES, Study
from pureward.rewards.methods import METHODS
from pureward.runs.collect import collect
from pureward.runs.config_file import (
    differences,
    flat,
    read_config,
    to_json,
    with_settings,
)
from pureward.runs.directory import RunDirectory
from pureward.training.presets import preset


@dataclass(frozen=True, kw_only=True)
class Collecting:
    """A dataset as a job."""

    task: str
    out: Path
    expert: Path
    stages: bool
    episodes: int
    held_out: int
    failures: int
    device: str

    @property
    def after(self) -> tuple[Path, ...]:
        """The run whose policies act."""
        return (self.expert,)

    @property
    def log(self) -> Path:
        """Where what it prints goes; beside the folder, which must appear whole."""
        return self.out.with_name(f"{self.out.name}.log.txt")

    def finished(self) -> bool:
        """Whether the dataset is there."""
        return (self.out / "card.json").is_file()

    def busy(self) -> bool:
        """Whether another process collects it."""
        return is_claimed(self.out)

    def run(self) -> bool:
        """Collect."""
        collect(
            self.task,
            self.expert,
            self.out,
            episodes=self.episodes,
            held_out=self.held_out,
            failures=self.failures,
            stages=self.stages,
            device=self.device,
        )
        return True


Step = Training | Collecting


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that a figure takes."""

    figure: Figure
    tasks: tuple[str, ...]
    steps: tuple[Step, ...]
    """Each after those it needs, seed by seed, so that the first seed of all is there first."""
    runs: Mapping[tuple[str, str], Sequence[Path]]
    """Run directories, one a seed, by task and label of a line."""
    out: Path

    def demonstrations(self, task: str) -> Path:
        """The dataset whose card tells what the expert achieves."""
        return self.out / task / "demonstrations"


def make_plan(
    figure: Figure,
    *,
    out: Path,
    tasks: Sequence[str] = (),
    seeds: int = 5,
    methods: Sequence[str] = (),
    device: str = "auto",
    studies: Mapping[str, Study] = STUDIES,
) -> Plan:
    """Work out the steps of a figure.

    Args:
        figure: of the table, or one of your own.
        out: folder of all runs.
        tasks: to draw it for, each once; the paper's, if none is named.
        seeds: runs of each line.
        methods: to take of the figure's; all, if none is named.
        device: of every run.
        studies: how each task is studied.
    """
    if seeds < 1:
        raise InputError(f"seeds must be at least 1, got {seeds}; raise it")
    chosen = tuple(dict.fromkeys(tasks)) or figure.tasks
    variants = _chosen(figure, methods)
    steps: dict[Path, Step] = {}
    runs: dict[tuple[str, str], list[Path]] = {}
    for task in chosen:
        if task not in studies:
            raise InputError(f"no study is declared for task {task!r}; choose from {list(studies)}")
        needs = {METHODS[variant.method].positives for variant in variants}
        data = _data(task, studies[task], out / task, device, annotated="annotations" in needs)
        steps |= {step.out: step for step in data}
        for variant in variants:
            runs[task, variant.label] = []
    for seed in range(seeds):
        for task in chosen:
            for variant in variants:
                step = _training(task, variant, seed, studies[task], out / task, device)
                steps[step.out] = step
                runs[task, variant.label].append(step.out)
    ordered = tuple(steps.values())
    for step in ordered:
        _check_same(step)
    return Plan(figure=figure, tasks=chosen, steps=ordered, runs=runs, out=out)


def _chosen(figure: Figure, methods: Sequence[str]) -> list[Variant]:
    there = dict.fromkeys(variant.method for variant in figure.variants)
    unknown = [method for method in methods if method not in there]
    if unknown:
        raise InputError(
            f"the figure {figure.name} has no {', '.join(unknown)}; choose from {', '.join(there)}"
        )
    return [v for v in figure.variants if not methods or v.method in methods]


def _data(task: str, study: Study, folder: Path, device: str, *, annotated: bool) -> list[Step]:
    """Data and the expert it is of; demonstrations always, to say what the expert returns.

    Data that is there already needs no expert: it may be somebody else's.
    """
    sets = [
        Collecting(
            task=task,
            out=folder / name,
            expert=folder / "expert",
            stages=stages,
            episodes=study.episodes,
            held_out=study.held_out,
            failures=study.failures,
            device=device,
        )
        for name, stages in (("demonstrations", False), ("annotations", True))
        if annotated or not stages
    ]
    if all(one.finished() for one in sets):
        return [*sets]
    expert = study.expert(preset(task, out=str(folder / "expert"), device=device))
    return [Training(config=expert), *sets]


def _training(
    task: str, variant: Variant, seed: int, study: Study, folder: Path, device: str
) -> Training:
    needed = METHODS[variant.method].positives
    assert needed is not None, "a figure shows learned rewards"
    data: dict[str, Any] = {needed: str(folder / needed)}
    own = preset(task, method=variant.method, seed=seed, device=device, **data)
    before = flat(to_json(own))
    changed = {name: value for name, value in variant.settings.items() if before[name] != value}
    told = (f"{name.rpartition('.')[2]}-{value}" for name, value in changed.items())
    out = folder / "-".join([variant.method, *told]) / f"seed-{seed}"
    config = with_settings(own, {**changed, "out": str(out)})
    after = (folder / "demonstrations", folder / needed)
    return Training(config=study.learned(config), after=tuple(dict.fromkeys(after)))


def _check_same(step: Step) -> None:
    """Refuse a run that was made with other settings under the name of this one."""
    if not isinstance(step, Training) or not RunDirectory(step.out).config.exists():
        return
    changed = differences(read_config(RunDirectory(step.out)), step.config)
    if changed:
        raise InputError(
            f"{step.out} was run with other settings ({', '.join(changed)}); choose another --out "
            "or move it away"
        )
