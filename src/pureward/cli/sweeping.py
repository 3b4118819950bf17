# SPDX-License-Identifier: Apache-2.0
"""The verbs `sweep` and `reproduce`, which start several runs."""

from pathlib import Path
from typing import Annotated

import tyro

from pureward.cli.parsing import OPTIONAL, Text, Texts
from pureward.errors import TrainingError

_Sweep = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE.toml")]


def sweep(
    file: _Sweep,
    out: Annotated[Path | None, OPTIONAL] = None,
    at_once: Annotated[int, OPTIONAL] = 0,
    executor: str = "local",
    address: Text = "",
    device: Text = "",
    dry_run: bool = False,
) -> None:
    """Train a run for every combination of values in a TOML file, on this machine or a cluster.

    Call again to resume: finished runs are skipped. A failed run does not stop the others. While
    they train, OUT/table.md shows all runs.

    For example: pureward sweep rates.toml --executor ray --address auto

    Args:
        file: settings as in `pureward train --config`, and a table [vary] of settings with lists
            of values, such as seed = [0, 1, 2]. A run uses only the data that its method needs.
        out: folder of the runs; by default that of the file, or runs/ and the file's name.
        at_once: parallel runs per GPU, or on all cores; by default one per GPU, or one per core.
        executor: what starts the runs: "local" for processes on this machine, "ray" for a Ray
            cluster, or a plugin's.
        address: where the Ray cluster is: "auto" for the one of this machine, or HOST:PORT; by
            default Ray is started on this machine.
        device: "auto" (CUDA if available), "cpu" or "cuda"; by default that of the file.
        dry_run: list the runs, and run nothing.
    """
    from pureward.distributed.jobs import make_executor
    from pureward.distributed.sweep import check_data, read_sweep, run_sweep, table

    found = read_sweep(file, out=out, device=device)
    if dry_run:
        print(table(found, {}), end="")
    check_data(found)
    if dry_run:
        return
    place = found.runs[0].config.device
    chosen = make_executor(executor, device=place, at_once=at_once, address=address)
    outcomes = run_sweep(found, chosen)
    print(table(found, {one.job.out: one.state for one in outcomes}), end="")
    bad = [one for one in outcomes if not one.succeeded]
    if bad:
        reasons = "; ".join(f"{one.job.out} {one.state}: {one.message}" for one in bad[:3])
        raise TrainingError(
            f"{len(bad)} of {len(outcomes)} runs did not finish ({reasons}); see log.txt there, "
            "and call again to resume"
        )


def reproduce(
    figure: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FIGURE")],
    task: Texts = (),
    methods: Texts = (),
    seeds: int = 5,
    budget: float = 0.0,
    dry_run: bool = False,
    out: Path = Path("runs/paper"),
    at_once: Annotated[int, OPTIONAL] = 0,
    executor: str = "local",
    address: Text = "",
    device: str = "auto",
) -> None:
    """Reproduce a figure of the paper: train the runs, plot them, and check the paper's claims.

    Call again to resume: finished runs are skipped. A failed run does not stop the others.

    For example: pureward reproduce imitation --task walker --seeds 3 --dry-run

    Args:
        figure: imitation, imitation-prior, overfitting, supervised, supervised-prior, hacking or
            domain-gap.
        task: tasks; by default the paper's.
        methods: methods of the figure; by default all.
        seeds: runs per line of the figure, each with its own seed.
        budget: minutes for all runs, 0 for no limit; call again to resume runs that it stopped.
        dry_run: list the runs with time and memory, and run nothing.
        out: folder for runs, picture and table.
        at_once: parallel runs per GPU, or on all cores; by default one per GPU, or one per core.
        executor: what starts the runs: "local" for processes on this machine, "ray" for a Ray
            cluster, or a plugin's.
        address: where the Ray cluster is: "auto" for the one of this machine, or HOST:PORT; by
            default Ray is started on this machine.
        device: "auto" (CUDA if available), "cpu" or "cuda".
    """
    from pureward.distributed.jobs import make_executor
    from pureward.paper.estimate import dry_run as describe
    from pureward.paper.figures import FIGURES
    from pureward.paper.plan import make_plan
    from pureward.paper.reproduce import reproduce as run
    from pureward.paper.sweep import check_budget

    check_budget(budget)  # for a dry run as well
    plan = make_plan(
        FIGURES[figure], out=out, tasks=task, seeds=seeds, methods=methods, device=device
    )
    chosen = make_executor(executor, device=device, at_once=at_once, address=address)
    if dry_run:
        print(describe(plan, chosen.at_once, device))
        return
    done = run(plan, chosen, budget_minutes=budget, device=device)
    for row in done.claims:
        print(f"{row['outcome']}: {row['claim']} [{row['task']}: {row['numbers']}]")
    print("\n".join(f"  {path}" for path in done.files))
    unfinished = [one for one in done.outcomes if one.state in ("stopped", "blocked")]
    if unfinished:
        print(f"not finished: {len(unfinished)} of the steps above; call again to resume")
    failed = [one for one in done.outcomes if one.state == "failed"]
    if failed:
        reasons = "; ".join(f"{one.job.out}: {one.message}" for one in failed)
        raise TrainingError(f"{len(failed)} steps failed ({reasons}); see log.txt there")
