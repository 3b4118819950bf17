# SPDX-License-Identifier: Apache-2.0
"""The same search for every method: six settings each, on seeds that no figure uses.

    python benchmarks/even_search.py --task walker --env-steps 2000000 --at-once 9

Methods with a discriminator are tried with four changes to it and one of their kind, regression
with five to the fit of r_φ and to the policy, all of them against the task's preset and for as many
env steps. The change with the largest area under its curve meets the preset again on other seeds,
and is chosen if it is ahead in their mean: ten runs a method. Expert and data are those of
`pureward reproduce`, found in its folder or made there. Runs that are there already, or that
TASK.json tells of, are not run again; delete it to search anew, from what presets are then.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tyro

from pureward.distributed.training import Training
from pureward.files import write_json
from pureward.paper.figure import Figure, Variant
from pureward.paper.figures import IMITATION, SUPERVISED
from pureward.paper.plan import Plan, make_plan
from pureward.paper.reproduce import read_results
from pureward.paper.sweep import carry_out, local_executor
from pureward.rewards.methods import METHODS
from pureward.runs.config import RunConfig
from pureward.runs.config_file import flat, to_json, with_settings
from pureward.train.presets import preset


@dataclass(frozen=True, kw_only=True)
class Args:
    """What is searched, and where the runs lie."""

    task: str = "walker"
    methods: tuple[str, ...] = (*IMITATION, *SUPERVISED)
    seeds: tuple[int, ...] = (100, 101, 102)
    """Ones that figures do not use: the first of all settings, others of preset and best change."""
    env_steps: int = 0
    """Of every run of the search; 0 takes the preset's."""
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
    """A multiple in three digits, whole where the preset's is."""
    return lambda value: type(value)(float(f"{value * factor:.3g}"))


PRESET, UNDECIDED = "preset", "not decided"
AVERAGING = Change("averaging", "agent.averaging", lambda _: 0.1)
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
    Change("passes-by-2", "reward.model.epochs", times(1 / 2)),
    AVERAGING,
)


def changes_of(method: str) -> tuple[Change, ...]:
    """As many for every method: gated presets average the policy, others may."""
    row = METHODS[method]
    if not row.has_discriminator:
        return REGRESSION
    if row.reward == "gated":
        return *DISCRIMINATOR, Change("no-averaging", "agent.averaging", lambda _: 0.0)
    if row.prior is None:
        return *DISCRIMINATOR, Change("other-weights", "reward.even", lambda even: not even)
    return *DISCRIMINATOR, AVERAGING


def trials(args: Args, method: str, seed: int) -> dict[str, Training]:
    """The runs of a method on a seed, by the name of what they change."""
    own = preset_of(args, method, seed)
    jobs = {}
    for change, settings in settings_tried(own).items():
        config = with_settings(own, settings)
        out = args.out / args.task / f"search/{method}-{change}/seed-{seed}"
        steps = args.env_steps or config.env_steps
        config = replace(config, env_steps=steps, out=str(out))
        jobs[change] = Training(config=config, after=(data_of(args, method),))
    return jobs


def preset_of(args: Args, method: str, seed: int = 0) -> RunConfig:
    """What a method has before it is changed."""
    data = data_of(args, method)
    return preset(args.task, method=method, seed=seed, device=args.device, **{data.name: str(data)})


def data_of(args: Args, method: str) -> Path:
    """The folder that a method learns from."""
    positives = METHODS[method].positives
    assert positives is not None, "a search is for learned rewards"
    return args.out / args.task / positives


def settings_tried(own: RunConfig) -> dict[str, dict[str, Any]]:
    """What each change of a preset sets, by its name; the preset itself nothing."""
    before = flat(to_json(own))
    return {PRESET: {}} | {
        change.name: {change.setting: change.value(before[change.setting])}
        for change in changes_of(own.method)
    }


def plan_for(args: Args, jobs: dict[str, Training]) -> Plan:
    """Data, then these runs, by their labels."""
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
    runs = {(args.task, label): [job.out] for label, job in jobs.items()}
    return replace(plan, steps=(*data, *jobs.values()), runs=runs)


def run_all(args: Args, plan: Plan) -> None:
    """Do what is left of it."""
    carry_out(plan, local_executor(args.device, args.at_once), budget_minutes=args.budget)


def report(plan: Plan, env_steps: int, seed: int) -> list[dict[str, Any]]:
    """A row a run that came to its end: its curve, and the area under it."""
    told = []
    for group in read_results(plan).groups:
        method, change = group.label.split()
        curve = group.runs[0].series("eval", "return")
        if len(curve) and curve[-1, 0] >= env_steps:
            told.append(
                {
                    "method": method,
                    "change": change,
                    "seed": seed,
                    "area": round(float(group.area((curve[0, 0], curve[-1, 0]))[0]), 1),
                    "steps": curve[:, 0].tolist(),
                    "returns": curve[:, 1].round(1).tolist(),
                }
            )
    return told


def run_round(
    args: Args, changes: dict[str, list[str]], seed: int, known: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Do what is left of the trials of a seed, every method's first, second and so on; report."""
    turns = zip(*changes.values(), strict=True)
    wanted = [pair for turn in turns for pair in zip(changes, turn, strict=True)]
    there = {(row["method"], row["change"]): row for row in known if row["seed"] == seed}
    left = [pair for pair in wanted if pair not in there]
    told = [there[pair] for pair in wanted if pair in there]
    if not left:
        return told
    jobs = {f"{method} {change}": trials(args, method, seed)[change] for method, change in left}
    plan = plan_for(args, jobs)
    run_all(args, plan)
    steps = max(job.config.env_steps for job in jobs.values())
    return told + report(plan, steps, seed)


def finalists(told: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The preset of each method, and the change that came furthest."""
    changes = sorted((row for row in told if row["change"] != PRESET), key=lambda row: row["area"])
    return {row["method"]: [PRESET, row["change"]] for row in changes}


def verdict(
    told: list[dict[str, Any]], method: str, change: str, seeds: tuple[int, ...]
) -> dict[str, Any]:
    """The change if it is ahead of the preset in the mean of the seeds that did not pick it."""
    first, *others = seeds
    areas = {(row["change"], row["seed"]): row["area"] for row in told if row["method"] == method}
    met = [seed for seed in others if {(change, seed), (PRESET, seed)} <= areas.keys()]
    changed, unchanged = ([areas[name, seed] for seed in met] for name in (change, PRESET))
    chosen = change if sum(changed) > sum(unchanged) else PRESET
    tried = all((one.name, first) in areas for one in changes_of(method))
    return {
        "method": method,
        "chosen": chosen if tried and met and met == others else UNDECIDED,
        "best change": change,
        "seeds": met,
        "areas": changed,
        "areas of the preset": unchanged,
    }


def read_known(path: Path, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Trials that were reported before, if they are of what is asked."""
    if not path.exists():
        return []
    before = json.loads(path.read_text())
    if before["env_steps"] != asked["env_steps"]:
        raise SystemExit(
            f"{path} is of runs of {before['env_steps']} env steps; choose another --to"
        )
    for method, tried in asked["tried"].items():
        if before["tried"].setdefault(method, tried) != tried:
            raise SystemExit(
                f"{path} tried {before['tried'][method]} for {method}, where {tried} would be "
                "tried from its preset now; choose another --to"
            )
    asked["tried"] = before["tried"]  # of other methods, too
    return before["runs"]


def show(told: list[dict[str, Any]], chosen: list[dict[str, Any]]) -> None:
    """What is chosen for every method, and the areas it was chosen by."""
    for row in chosen:
        own = [one for one in told if one["method"] == row["method"]]
        areas = ", ".join(f"{one['change']} {one['area']:.0f}" for one in own)
        print(f"{row['method']:13} {row['chosen']:16} {areas}")


def main(args: Args) -> None:
    """Run what is left of the search, write it, tell what is chosen for every method."""
    path = args.to / f"{args.task}.json"
    asked = {
        "task": args.task,
        "env_steps": args.env_steps or "the preset's",
        "tried": {method: settings_tried(preset_of(args, method)) for method in args.methods},
    }
    known = read_known(path, asked)
    first, *others = args.seeds
    everything = {method: list(trials(args, method, first)) for method in args.methods}
    told = run_round(args, everything, first, known)
    last = finalists(told)
    for seed in others:
        told += run_round(args, last, seed, known)
    chosen = [verdict(told, method, change, args.seeds) for method, (_, change) in last.items()]
    show(told, chosen)
    told += [row for row in known if row not in told]  # of other methods, and of other finalists
    write_json(path, {**asked, "chosen": chosen, "runs": told})


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
