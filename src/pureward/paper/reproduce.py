# SPDX-License-Identifier: Apache-2.0
"""A figure from nothing to a picture, a table, and what became of the paper's claims."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pureward.diagnostics.history import History, against_demonstrations, read_history
from pureward.distributed.jobs import Ending, Executor, State
from pureward.distributed.training import Training
from pureward.errors import InputError, TrainingError
from pureward.paper.draw import DRAW
from pureward.paper.figure import Figure
from pureward.paper.hacking import Watched, draw_watched, watch
from pureward.paper.numbers import Group, Results, UnmeasuredError
from pureward.paper.plan import Plan
from pureward.paper.sweep import carry_out
from pureward.paper.table import judged, write_table
from pureward.picture import save_figure
from pureward.runs.directory import RunDirectory, steps_made

_UNDONE: tuple[State, ...] = ("failed", "stopped")


@dataclass(frozen=True, kw_only=True)
class Reproduced:
    """What `reproduce` wrote and found."""

    files: list[Path]
    """The picture as PNG and PDF, if there was anything to draw, and the table."""
    claims: list[dict[str, str]]
    """Claim, task, rule, outcome and numbers of each."""
    endings: list[Ending]
    """What became of each step."""

    def ended(self, state: State) -> list[Ending]:
        """Steps that ended so: failed, stopped for lack of time, blocked by one of those."""
        return [ending for ending in self.endings if ending.state == state]


def reproduce(
    plan: Plan, executor: Executor, *, budget_minutes: float = 0.0, device: str = "auto"
) -> Reproduced:
    """Do what is left of a figure's plan, then draw it and hold the paper's claims against it.

    Args:
        plan: of the figure.
        executor: who does the steps.
        budget_minutes: for all steps together; 0 sets no limit.
        device: for episodes that are played for a picture.
    """
    endings = carry_out(plan, executor, budget_minutes=budget_minutes)
    results = read_results(plan)
    if not results.groups:
        told = [f"{e.job.out} {e.state}: {e.said}" for e in endings if e.state in _UNDONE]
        raise TrainingError(
            f"nothing of {plan.figure.name} can be drawn yet ({'; '.join(told)}); "
            "call again to go on"
        )
    watched = _watch(plan, device) if plan.figure.picture == "strips" else []
    results = replace(results, watched={one.task: one.episodes for one in watched})
    stem = plan.out / _stem(plan)
    files = _draw(plan.figure, results, watched, stem)
    write_table(stem, plan.figure, results, _facts(plan, endings))
    return Reproduced(
        files=[*files, stem.with_name(f"{stem.name}.md"), stem.with_name(f"{stem.name}.json")],
        claims=judged(plan.figure, results),
        endings=endings,
    )


def read_results(plan: Plan) -> Results:
    """All runs of a plan that have begun, finished or not."""
    groups = []
    for (task, label), paths in plan.runs.items():
        runs = [_history(plan, task, path) for path in paths if (path / "config.json").exists()]
        runs = [run for run in runs if run.rows]
        if runs:
            groups.append(Group(task=task, label=label, runs=runs))
    return Results(groups=groups)


def _history(plan: Plan, task: str, path: Path) -> History:
    """A run, measured against the same expert whatever it learned from."""
    return against_demonstrations(read_history(path), plan.demonstrations(task))


def _watch(plan: Plan, device: str) -> list[Watched]:
    """Episodes of the tasks on which both lines are drawn and a seed of both can be watched."""
    watched = []
    for task in plan.tasks:
        prl, purl = (plan.runs.get((task, label), ()) for label in ("prl", "nn-purl"))
        if prl and purl:
            watched.append(watch(task, list(zip(prl, purl, strict=True)), device))
    return [one for one in watched if one is not None]


def _draw(figure: Figure, results: Results, watched: Sequence[Watched], stem: Path) -> list[Path]:
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "pdf")]
    try:
        if figure.picture == "strips":
            canvas = draw_watched(watched, results)
        else:
            canvas = DRAW[figure.picture](results)
    except (UnmeasuredError, InputError) as error:
        reason = error if isinstance(error, InputError) else f"nobody has measured {error}"
        print(f"  no picture: {reason}")
        for path in paths:  # an earlier one would not show what the table tells
            path.unlink(missing_ok=True)
        return []
    for path in paths:
        save_figure(canvas, path)
    return paths


def _stem(plan: Plan) -> str:
    """The figure's name, with the tasks where they are not the paper's."""
    own = plan.tasks == plan.figure.tasks
    return plan.figure.name if own else "-".join([plan.figure.name, *plan.tasks])


def _facts(plan: Plan, endings: Sequence[Ending]) -> dict[str, Any]:
    runs = [e for e in endings if isinstance(e.job, Training) and e.job.after]
    statuses = [RunDirectory(e.job.out).read_status() for e in runs]
    made = [status["made_with"] for status in statuses if "made_with" in status]
    return {
        "made with": [dict(one) for one in sorted({tuple(facts.items()) for facts in made})],
        "runs finished": sum(e.well for e in runs),
        "runs not finished": [
            f"{e.job.out.relative_to(plan.out)} {_unfinished(e, status)}"
            for e, status in zip(runs, statuses, strict=True)
            if not e.well
        ],
    }


def _unfinished(ending: Ending, status: dict[str, Any]) -> str:
    """How far a run came; what was said where it never began or failed."""
    if status.get("state") == "interrupted" and ending.state != "failed":
        return f"stopped at {steps_made(status):,} env steps"
    return f"{ending.state}: {ending.said}"
