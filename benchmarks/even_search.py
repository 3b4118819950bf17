# SPDX-License-Identifier: Apache-2.0
"""The same search for every method: five settings each, on a seed that no figure uses.

    python benchmarks/even_search.py --task walker --env-steps 2000000 --at-once 9

Methods with a discriminator are tried with four changes to it, regression with four changes to the
fit of r_φ and to the policy, all of them against the task's preset and for as many env steps. The
best setting of a method is the one with the largest area under its curve. Expert and data are those
of `pureward reproduce`, found in its folder or made there; runs that are there already are not run
again.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tyro

from pureward.files import write_json
from pureward.paper.figure import Figure, Variant
from pureward.paper.figures import IMITATION, SUPERVISED
from pureward.paper.plan import Plan, make_plan
from pureward.paper.reproduce import read_results
from pureward.paper.sweep import carry_out, local_executor
from pureward.reward.methods import method_named
from pureward.run.config_file import flat, to_json, with_settings
from pureward.run.presets import preset
from pureward.work.training import Training


@dataclass(frozen=True, kw_only=True)
class Args:
    """What is searched, and where the runs lie."""

    task: str = "walker"
    methods: tuple[str, ...] = (*IMITATION, *SUPERVISED)
    seed: int = 100
    """One that figures do not use."""
    env_steps: int = 0
    """Of every run; 0 takes the preset's."""
    out: Path = Path("runs/paper")
    """Folder of `pureward reproduce`; runs go to TASK/search."""
    to: Path = Path("results/search")
    """Folder for TASK.json."""
    at_once: int = 0
    """Runs beside each other on a GPU, or on the cores."""
    budget: float = 0.0
    """Minutes; 0 sets no limit."""
    device: str = "auto"


@dataclass(frozen=True)
class Change:
    """A setting that is tried in place of the preset's."""

    name: str
    setting: str
    value: Callable[[Any], Any]
    """Of the preset's."""


def times(factor: float) -> Callable[[Any], Any]:
    """A multiple, whole where the preset's is."""
    return lambda value: type(value)(value * factor)


#: Of a discriminator, and of r_φ where there is none: as many of either.
DISCRIMINATOR = (
    Change("rate-times-3", "reward.learning_rate", times(3)),
    Change("rate-by-3", "reward.learning_rate", times(1 / 3)),
    Change("no-memory", "reward.memory", times(0)),
    Change("updates-times-2", "reward.updates", times(2)),
)
REGRESSION = (
    Change("rate-times-3", "reward.model.learning_rate", times(3)),
    Change("rate-by-3", "reward.model.learning_rate", times(1 / 3)),
    Change("passes-times-2", "reward.model.epochs", times(2)),
    Change("averaging", "agent.averaging", lambda _: 0.1),  # which gated methods have
)


def trials(args: Args, method: str) -> dict[str, Training]:
    """The runs of a method, by the name of what they change."""
    row = method_named(method)
    assert row.positives is not None, "a search is for learned rewards"
    folder = args.out / args.task
    data = {row.positives: str(folder / row.positives)}
    own = preset(args.task, method=method, seed=args.seed, device=args.device, **data)
    own = replace(own, env_steps=args.env_steps or own.env_steps)
    before = flat(to_json(own))
    changed: dict[str, dict[str, Any]] = {"preset": {}}
    for change in DISCRIMINATOR if row.has_discriminator else REGRESSION:
        changed[change.name] = {change.setting: change.value(before[change.setting])}
    places = {name: str(folder / "search" / f"{method}-{name}") for name in changed}
    return {
        name: Training(
            config=with_settings(own, {**settings, "out": places[name]}),
            after=(folder / row.positives,),
        )
        for name, settings in changed.items()
    }


def plan_search(args: Args) -> Plan:
    """Data, then all trials of all methods: every preset, every first change, and so on."""
    figure = Figure(
        name="search",
        shows="the same search for every method",
        tasks=(args.task,),
        variants=tuple(Variant(method=method) for method in args.methods),
        picture="curves",
        claims=(),
    )
    plan = make_plan(figure, out=args.out, seeds=1, device=args.device)
    data = [step for step in plan.steps if not (isinstance(step, Training) and step.after)]
    tried = {method: trials(args, method) for method in args.methods}
    runs = {
        (args.task, f"{method} {name}"): [job.out]
        for method, jobs in tried.items()
        for name, job in jobs.items()
    }
    turns = zip(*(jobs.values() for jobs in tried.values()), strict=True)
    return replace(plan, steps=(*data, *(job for turn in turns for job in turn)), runs=runs)


def report(plan: Plan) -> list[dict[str, Any]]:
    """A row a run that was evaluated: its curve, and the area under it."""
    results = read_results(plan)
    span = results.span(plan.tasks[0])
    told = []
    for group in results.groups:
        method, change = group.label.split()
        curve = group.runs[0].series("eval", "return")
        if len(curve) and curve[-1, 0] >= span[1]:
            told.append(
                {
                    "method": method,
                    "change": change,
                    "area": round(float(group.area(span)[0]), 1),
                    "steps": curve[:, 0].tolist(),
                    "returns": curve[:, 1].round(1).tolist(),
                }
            )
    return told


def show(told: list[dict[str, Any]]) -> None:
    """The areas of every method, and which is the largest."""
    for method in dict.fromkeys(row["method"] for row in told):
        own = [row for row in told if row["method"] == method]
        areas = ", ".join(f"{row['change']} {row['area']:.0f}" for row in own)
        best = max(own, key=lambda row: row["area"])
        print(f"{method:13} best: {best['change']:16} ({areas})")


def main(args: Args) -> None:
    """Run what is left of the search, write it, tell the best of every method."""
    plan = plan_search(args)
    carry_out(plan, local_executor(args.device, args.at_once), budget_minutes=args.budget)
    told = report(plan)
    show(told)
    asked = {"task": args.task, "seed": args.seed, "env_steps": args.env_steps or "the preset's"}
    write_json(args.to / f"{args.task}.json", {**asked, "runs": told})


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
