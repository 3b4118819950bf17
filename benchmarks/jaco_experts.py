# SPDX-License-Identifier: Apache-2.0
"""How fast the arm's experts learn: return and success by seconds of training and control steps.

    python benchmarks/jaco_experts.py runs/lift runs/stack --out results/jaco

Trains nothing: it gathers the evaluations of finished or interrupted runs of `pureward expert`
into experts.json and draws experts.png of them. `--redraw` draws what experts.json holds already.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import tyro
from matplotlib.figure import Figure

from pureward.files import write_json
from pureward.picture import save_figure
from pureward.runs.config_file import read_config
from pureward.runs.directory import RunDirectory
from pureward.runs.log import read_metrics

# Success that experts were asked for, by task.
_ASKED = {"lift": 0.9, "stack": 0.7}
_TAKEN = ("step", "seconds", "return", "return_ci95", "success")


@dataclass(frozen=True, kw_only=True)
class Args:
    """Which runs, and where to write."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional] = ()
    out: Path = Path("results/jaco")
    redraw: bool = False
    """Draw the curves of OUT/experts.json again."""


def gather(run: Path) -> dict[str, Any]:
    directory = RunDirectory(run)
    config = read_config(directory)
    rows = read_metrics(directory.metrics, "eval")
    asked = _ASKED[config.task]
    reached = next((row for row in rows if row["success"] >= asked), None)
    return {
        "task": config.task,
        "guided": config.guided,
        "seed": config.seed,
        "worlds": config.worlds,
        "state": directory.read_status().get("state"),
        "asked_success": asked,
        "seconds_to_asked": reached and round(reached["seconds"], 1),
        "evaluate_episodes": config.evaluate_episodes,
        "curve": [{name: row[name] for name in _TAKEN} for row in rows],
    }


def draw(results: list[dict[str, Any]]) -> Figure:
    """A row of return and a row of success, by seconds and by steps."""
    figure, axes = plt.subplots(2, 2, figsize=(10, 6), sharey="row", sharex="col")
    for result in results:
        curve = result["curve"]
        label = f"{result['task']}, {_shown(result['guided'])}"
        for row, name in enumerate(("return", "success")):
            values = [point[name] for point in curve]
            for column, place in enumerate((_seconds(curve), _millions(curve))):
                axes[row, column].plot(place, values, marker=".", label=label)
    for task, asked in _ASKED.items():
        axes[1, 0].axhline(asked, color="0.6", linestyle="--", linewidth=1)
        axes[1, 0].text(4, asked + 0.01, f"asked of {task}", fontsize=7, color="0.4")
    axes[0, 0].set_ylabel("greedy return, mean of 200 episodes")
    axes[1, 0].set_ylabel("share of episodes solved")
    axes[1, 0].set_xlabel("seconds of training")
    axes[1, 1].set_xlabel("million control steps")
    for axis in axes.flat:
        axis.grid(alpha=0.3)
        axis.set_xlim(left=0)
        axis.set_ylim(bottom=0)
    axes[0, 1].legend(fontsize=8)
    figure.tight_layout()
    return figure


def _shown(guided: float) -> str:
    return f"{guided:.1%} of the worlds guided" if guided else "no guide"


def _seconds(curve: list[dict[str, float]]) -> list[float]:
    return [point["seconds"] for point in curve]


def _millions(curve: list[dict[str, float]]) -> list[float]:
    return [point["step"] / 1e6 for point in curve]


def main(args: Args) -> None:
    table = args.out / "experts.json"
    if args.redraw:
        results = json.loads(table.read_text())
    else:
        results = [gather(run) for run in args.runs]
        write_json(table, results)
    save_figure(draw(results), args.out / "experts.png")
    for result in results:
        last = result["curve"][-1]
        print(
            f"{result['task']}, {_shown(result['guided'])}: return {last['return']:.0f}, success "
            f"{last['success']:.1%} after {last['seconds']:.0f} s and {last['step']:,} steps; "
            f"{result['asked_success']:.0%} after {result['seconds_to_asked']} s"
        )


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
