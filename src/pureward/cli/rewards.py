# SPDX-License-Identifier: Apache-2.0
"""Verbs about learned rewards: probe one, draw the curves of several."""

from pathlib import Path
from typing import Literal

from pureward.cli.arguments import Run, Runs


def probe(
    run: Run,
    episodes: int = 16,
    out: Path | None = None,
    device: str = "auto",
    seed: int = 0,
) -> None:
    """Say what became of a run's learned reward, and show where it and the truth part most.

    For example: pureward probe runs/imitated

    Args:
        run: the directory of a run on a learned reward.
        episodes: greedy episodes to look among.
        out: folder for evidence.png, evidence.mp4 and probe.json; RUN/probe if left out.
        device: "auto" (CUDA where there is one), "cpu" or "cuda".
        seed: of the episodes' first states.
    """
    from pureward.diagnostics.evidence import probe as look

    found = look(run, out, episodes=episodes, device=device, seed=seed)
    print(f"{run} at {found.env_steps:,} env steps, {episodes} greedy episodes: {found.summary()}")
    print(found.verdict)
    if found.eta is not None:
        print(f"class prior: {found.eta.sentence}")
    print("\n".join(f"  {path}" for path in found.files))


def plot(
    runs: Runs,
    metric: str = "return",
    by: Literal["steps", "seconds"] = "steps",
    out: Path = Path("plot.png"),
) -> None:
    """Draw curves of runs: a panel a task, a line a method with its 95% interval over seeds.

    For example: pureward plot runs/gail-* runs/nn-pugail-* --by seconds --out curves.pdf

    Args:
        runs: run directories; those that differ in nothing but their seed become one line.
        metric: a name in metrics.jsonl, such as "return", "reward_error" or "risk/violated", or
            KIND/NAME, such as "eval/success" or "train/return", where several kinds of line have
            it; "success" draws P(success) of every source, "prior" all that is known of η, a
            panel a method.
        by: env steps or seconds of training.
        out: PNG, PDF or SVG file.
    """
    from pureward.diagnostics.history import read_histories
    from pureward.diagnostics.plot import curves
    from pureward.picture import save_figure

    save_figure(curves(read_histories(runs), metric=metric, by=by), out)
    print(f"  {out}")
