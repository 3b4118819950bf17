# SPDX-License-Identifier: Apache-2.0
"""Verbs that do everything at once: the demo, and the figures of the paper."""

from pathlib import Path
from typing import Annotated

import tyro

from pureward.errors import InputError, TrainingError

_MOST_SEEDS = 1_000


def demo(out: Path = Path("demo")) -> None:
    """See it at work, on two cores in minutes: four learned rewards side by side, and a report.

    Args:
        out: folder for everything; a demo that was stopped goes on.
    """
    from pureward.demo import demo as run
    from pureward.runs.directory import RunDirectory

    if RunDirectory(out).config.exists():
        raise InputError(
            f"the demo needs a folder of its own, and {out} holds a run; choose another"
        )
    done = run(out)
    print("\nVerdicts:")
    for history in done.runs:
        print(f"  {history.path.name}: {history.verdict()}")
    print(f"\n{done.seconds:.0f} s. Open {done.report.resolve()}")


def reproduce(
    figure: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FIGURE")],
    task: tuple[str, ...] = (),
    methods: tuple[str, ...] = (),
    seeds: int = 5,
    budget: float = 0.0,
    dry_run: bool = False,
    out: Path = Path("runs/paper"),
    at_once: int = 0,
    executor: str = "local",
    device: str = "auto",
) -> None:
    """Reproduce a figure of the paper: runs, picture, table, and whether its claims hold.

    What is finished is not run again, what was interrupted goes on, what fails is told and the
    rest is done. For example: pureward reproduce imitation --task walker --seeds 3 --dry-run

    Args:
        figure: imitation, imitation-prior, overfitting, supervised, supervised-prior, hacking or
            domain-gap.
        task: tasks to draw it for, if not the paper's.
        methods: of the figure's, if not all.
        seeds: runs of each line.
        budget: minutes for everything, 0 for no limit; runs that are then stopped go on at the
            next call.
        dry_run: list the runs with time and memory, and run nothing.
        out: folder for runs, picture and table.
        at_once: runs that share a GPU, or the cores; by default one a GPU, or one a core.
        executor: what starts the runs: "local" for processes on this machine, or a plugin's.
        device: "auto" (CUDA where there is one), "cpu" or "cuda".
    """
    from pureward.distributed import EXECUTORS
    from pureward.paper.estimate import dry_run as describe
    from pureward.paper.figures import find_figure
    from pureward.paper.plan import make_plan
    from pureward.paper.reproduce import reproduce as run
    from pureward.paper.sweep import check_budget

    check_budget(budget)  # for a dry run as well
    if seeds > _MOST_SEEDS:
        raise InputError(f"seeds must be at most {_MOST_SEEDS:,}, got {seeds:,}; try 5")
    plan = make_plan(
        find_figure(figure), out=out, tasks=task, seeds=seeds, methods=methods, device=device
    )
    chosen = EXECUTORS[executor](device=device, at_once=at_once)
    if dry_run:
        print(describe(plan, chosen.at_once, device))
        return
    done = run(plan, chosen, budget_minutes=budget, device=device)
    for row in done.claims:
        print(f"{row['outcome']}: {row['claim']} [{row['task']}: {row['numbers']}]")
    print("\n".join(f"  {path}" for path in done.files))
    waiting = [one for one in done.outcomes if one.state in ("stopped", "blocked")]
    if waiting:
        print(f"{len(waiting)} steps were out of time or wait for others; call again to go on")
    failed = [one for one in done.outcomes if one.state == "failed"]
    if failed:
        told = "; ".join(f"{one.job.out}: {one.message}" for one in failed)
        raise TrainingError(f"{len(failed)} steps failed ({told}); log.txt there tells more")
