# SPDX-License-Identifier: Apache-2.0
"""Runs a figure's plan, then writes a picture, a table and the outcome of the paper's claims."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pureward.diagnostics.history import against_demonstrations, read_history
from pureward.distributed.jobs import Executor, Outcome
from pureward.distributed.training import Training
from pureward.errors import InputError, TrainingError
from pureward.paper.draw import DRAW
from pureward.paper.hacking import watch
from pureward.paper.plan import Plan
from pureward.paper.results import Episodes, Group, Results, UnmeasuredError
from pureward.paper.sweep import carry_out
from pureward.paper.table import claim_rows, write_table
from pureward.picture import save_figure
from pureward.runs.directory import RunDirectory, steps_made


@dataclass(frozen=True, kw_only=True)
class Reproduced:
    """What `reproduce` wrote and found."""

    files: list[Path]
    """The picture as PNG and PDF, if there was anything to draw, and the table."""
    claims: list[dict[str, str]]
    """Claim, task, rule, outcome and numbers of each."""
    outcomes: list[Outcome]
    """How each step ended."""


def reproduce(
    plan: Plan, executor: Executor, *, budget_minutes: float = 0.0, device: str = "auto"
) -> Reproduced:
    """Run the unfinished steps of a plan, draw the figure and check the paper's claims.

    Args:
        plan: of the figure.
        executor: starts the steps.
        budget_minutes: for all steps together; 0 for no limit.
        device: of the episodes that are rolled out for a picture.
    """
    outcomes = carry_out(plan, executor, budget_minutes=budget_minutes)
    results = read_results(plan)
    if not results.groups:
        undone = [e for e in outcomes if e.state in ("failed", "stopped")]
        reasons = "; ".join(f"{e.job.out} {e.state}: {e.message}" for e in undone)
        raise TrainingError(
            f"no run of {plan.figure.name} has measured anything ({reasons}); call again to resume"
        )
    if plan.figure.picture == "strips":
        results = replace(results, watched=_watch(plan, device))
    name = plan.figure.name
    if plan.tasks != plan.figure.tasks:
        name = "-".join([name, *plan.tasks])
    files = _draw(plan, results, name)
    files += write_table(plan.out / name, plan.figure, results, _facts(plan, outcomes))
    return Reproduced(files=files, claims=claim_rows(plan.figure, results), outcomes=outcomes)


def read_results(plan: Plan) -> Results:
    """Return what the runs of a plan have measured, finished or not."""
    groups = []
    for (task, label), paths in plan.runs.items():
        runs = [read_history(path) for path in paths if (path / "config.json").exists()]
        # All methods are compared with the same expert, whatever data they learn from.
        data = plan.out / task / "demonstrations"
        runs = [against_demonstrations(run, data) for run in runs if run.rows]
        if runs:
            groups.append(Group(task=task, label=label, runs=runs))
    return Results(groups=groups)


def _watch(plan: Plan, device: str) -> dict[str, Episodes]:
    """Episodes of prl's policies, by task, where seeds of both methods can be loaded."""
    watched = {}
    for task in plan.tasks:
        runs = (plan.runs.get((task, label), ()) for label in ("prl", "nn-purl"))
        watched[task] = watch(task, list(zip(*runs, strict=False)), device)
    return {task: episodes for task, episodes in watched.items() if episodes}


def _draw(plan: Plan, results: Results, name: str) -> list[Path]:
    paths = [plan.out / f"{name}.{kind}" for kind in ("png", "pdf")]
    try:
        canvas = DRAW[plan.figure.picture](results)
    except (UnmeasuredError, InputError) as error:
        reason = error if isinstance(error, InputError) else f"no run has measured {error}"
        print(f"  no picture: {reason}")
        for path in paths:  # one of an earlier call would not match the table
            path.unlink(missing_ok=True)
        return []
    for path in paths:
        save_figure(canvas, path)
    return paths


def _facts(plan: Plan, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Machines and versions of the runs, and how many have finished."""
    runs = [e for e in outcomes if isinstance(e.job, Training) and e.job.after]
    versions: list[dict[str, Any]] = []
    unfinished = []
    for outcome in runs:
        status = RunDirectory(outcome.job.out).read_status()
        made_with = status.get("made_with")
        if isinstance(made_with, dict) and made_with not in versions:
            versions.append(made_with)
        if not outcome.succeeded:
            how = f"{outcome.state}: {outcome.message}"
            if status.get("state") == "interrupted" and outcome.state != "failed":
                how = f"stopped at {steps_made(status):,} env steps"
            unfinished.append(f"{outcome.job.out.relative_to(plan.out)} {how}")
    return {
        "made with": sorted(versions, key=str),
        "runs finished": len(runs) - len(unfinished),
        "runs not finished": unfinished,
    }
