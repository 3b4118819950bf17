# SPDX-License-Identifier: Apache-2.0
"""η in a closed loop on the walker: what the choice of the prior does to policy and discriminator.

    for seed in 0 1 2; do for prior in bbe:0.02:0.8 vpu linear:0.1:0.7 0.25 0.5 0.7; do
        pureward train walker --method nn-pugail --demonstrations DATA --prior $prior --seed $seed \
            --replay.capacity 600000 --budget-seconds 248 --out runs/$prior-$seed
    done; done                                      # on a GPU, four minutes each or less
    python benchmarks/prior_walker.py --runs runs/* --demonstrations DATA --out results/prior

Reads finished runs and writes loop-walker.json and loop-walker.png: of every prior the returns by
seed, and P(success) at the end on demonstrations, trained on and held out, on failures and on the
agent's own frames.
"""

from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
import tyro
from matplotlib.figure import Figure

from pureward.data.dataset import read_dataset
from pureward.data.episodes import TRAIN
from pureward.diagnostics.eta import read_eta
from pureward.diagnostics.history import History, read_histories
from pureward.diagnostics.probe import SOURCES
from pureward.files import write_json
from pureward.picture import save_figure

PANELS = (
    ("eval", "return", "true return"),
    ("probe", "success/held_out", "P(success), held-out demonstrations"),
    ("probe", "success/failure", "P(success), failures"),
)


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to read."""

    runs: list[Path]
    """Run directories, of any priors and seeds."""
    demonstrations: Path
    """What they learned from."""
    out: Path = Path("results/prior")
    commit: str = ""
    """Of the code that made the runs."""


def main(args: Args) -> None:
    shown = read_dataset(args.demonstrations).split(TRAIN)
    expert = float(np.mean([episode.rewards.sum() for episode in shown]))
    solved = [episode.success.double().mean() for episode in shown if episode.success is not None]
    by_prior: dict[str, list[History]] = defaultdict(list)
    for run in read_histories(args.runs):
        known = replace(run, expert=expert, demonstrated=float(np.mean(solved)))
        by_prior[known.config["prior"]].append(known)
    found = {
        "commit": args.commit,
        "demonstrations": {"return": expert, "success_share": float(np.mean(solved))},
        "runs": {prior: [told(run) for run in runs] for prior, runs in by_prior.items()},
    }
    write_json(args.out / "loop-walker.json", found)
    save_figure(picture(by_prior, expert), args.out / "loop-walker.png")
    print("| prior | returns by seed | median | of the expert | " + " | ".join(SOURCES) + " |")
    print("|---" * (4 + len(SOURCES)) + "|")
    for prior, rows in found["runs"].items():
        returns = [row["return"] for row in rows]
        shares = [float(np.mean([row[f"success/{name}"] for row in rows])) for name in SOURCES]
        print(
            f"| `{prior}` | {', '.join(f'{value:.0f}' for value in returns)} | "
            f"{median(returns):.0f} | {median(returns) / expert:.0%} | "
            + " | ".join(f"{share:.2f}" for share in shares)
            + " |"
        )
        for row in rows:
            print(f"    seed {row['seed']}: {row['eta']}")


def told(run: History) -> dict:
    """One run's course and where it ended."""
    evaluated = run.series("eval", "return")
    eta = read_eta(run)
    return {
        "seed": run.seed,
        "return": float(evaluated[-1, 1]),
        "env_steps": int(evaluated[-1, 0]),
        "training_seconds": float(run.series("eval", "return", by="seconds")[-1, 0]),
        **{f"success/{name}": _last(run, f"success/{name}") for name in SOURCES},
        "eta": eta.told() if eta else "",
        "course": {name: run.series(kind, name).round(3).tolist() for kind, name, _ in PANELS},
    }


def _last(run: History, name: str) -> float:
    return float(run.series("probe", name)[-1, 1])


def picture(by_prior: dict[str, list[History]], expert: float) -> Figure:
    """Every seed as a thin line, the median of a prior as a thick one."""
    figure = Figure(figsize=(12.0, 3.6), layout="constrained")
    axes = figure.subplots(1, len(PANELS))
    for axis, (kind, name, title) in zip(axes, PANELS, strict=True):
        for number, (prior, runs) in enumerate(by_prior.items()):
            courses = [run.series(kind, name) for run in runs]
            shortest = min(map(len, courses))
            for course in courses:
                axis.plot(course[:, 0] / 1e6, course[:, 1], color=f"C{number}", lw=0.5, alpha=0.5)
            middle = np.median([course[:shortest, 1] for course in courses], axis=0)
            axis.plot(courses[0][:shortest, 0] / 1e6, middle, color=f"C{number}", lw=2, label=prior)
        axis.set(title=title, xlabel="env steps (millions)")
        axis.grid(alpha=0.3)
    axes[0].axhline(expert, color="black", ls="--", lw=1, label="demonstrations")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=9)
    return figure


if __name__ == "__main__":
    main(tyro.cli(Args))
