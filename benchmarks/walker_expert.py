# SPDX-License-Identifier: Apache-2.0
"""How long D4PG on the true reward takes to walk: seconds of training until a return of 900.

    python benchmarks/walker_expert.py --out results/expert --seeds 0 1 2 3 4

Trains the preset's expert for each seed in turn and writes expert.json and expert.png. Seconds
are those of training (collecting and learning); compiling kernels beforehand, evaluating and
writing checkpoints are not counted, and both clocks are kept. `--task reach --device cpu` tries
it on a laptop.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import torch
import tyro

import pureward
from pureward.runs.log import read_metrics


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to train and where to write it."""

    out: Path = Path("results/expert")
    task: str = "walker"
    preset: str = "fast"
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    budget_seconds: float = 60.0
    """Wall-clock limit of each seed's run, evaluations included."""
    goal: float = 900.0
    until_goal: bool = False
    """End each run at the first evaluation that reaches the goal."""
    device: str = "auto"
    commit: str = ""
    name: str = "expert"
    """Of the files."""
    set: tuple[str, ...] = ()
    """Settings changed from the preset, as NAME=VALUE; nested as agent.polyak=0.01."""


def changed(config: pureward.RunConfig, settings: tuple[str, ...]) -> pureward.RunConfig:
    flags = [part for setting in settings for part in f"--{setting}".split("=", 1)]
    return tyro.cli(pureward.RunConfig, args=flags, default=config)


def run(args: Args, seed: int, folder: Path) -> dict:
    config = changed(
        pureward.preset(
            args.task,
            args.preset,
            seed=seed,
            out=str(folder),
            device=args.device,
            budget_seconds=args.budget_seconds,
            stop_at_return=args.goal if args.until_goal else 0.0,
        ),
        args.set,
    )
    began = time.perf_counter()
    pureward.train(config)
    wall = time.perf_counter() - began
    rows = read_metrics(folder / "metrics.jsonl", "eval")
    reached = next((row for row in rows if row["return"] >= args.goal), None)
    speed = read_metrics(folder / "metrics.jsonl", "train")[-1]
    return {
        "seed": seed,
        "seconds_to_goal": reached and round(reached["seconds"], 2),
        "env_steps_to_goal": reached and reached["step"],
        "updates_to_goal": reached and reached["updates"],
        "best_return": max(row["return"] for row in rows),
        "last_return": rows[-1]["return"],
        "wall_seconds": round(wall, 1),
        "env_steps_per_second": round(speed["step"] / speed["seconds"]),
        "updates_per_second": round(speed["updates"] / speed["seconds"]),
        "curve": [[row["seconds"], row["step"], row["return"]] for row in rows],
    }


def plot(args: Args, results: list[dict]) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True)
    for result in results:
        seconds, steps, returns = zip(*result["curve"], strict=True)
        axes[0].plot(seconds, returns, marker=".", label=f"seed {result['seed']}")
        axes[1].plot([step / 1e6 for step in steps], returns, marker=".")
    axes[0].set_xlabel("seconds of training")
    axes[1].set_xlabel("million control steps")
    axes[0].set_ylabel("greedy return, mean of 100 episodes")
    for axis in axes:
        axis.axhline(args.goal, color="grey", linewidth=0.8, linestyle="--")
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    figure.suptitle(f"{args.task}, true reward, D4PG, preset {args.preset}")
    figure.tight_layout()
    figure.savefig(args.out / f"{args.name}.png", dpi=120)


def main(args: Args) -> None:
    args.out.mkdir(parents=True, exist_ok=True)
    env = pureward.make(args.task, 4, args.device)  # compiles the kernels, once a machine
    env.step(torch.zeros(4, env.action_size, device=env.device))
    results = []
    for seed in args.seeds:
        with TemporaryDirectory() as scratch:
            results.append(run(args, seed, Path(scratch) / "run"))
        row = {name: value for name, value in results[-1].items() if name != "curve"}
        print(json.dumps(row), flush=True)
    times = [row["seconds_to_goal"] for row in results]
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    summary = {
        "command": f"python benchmarks/walker_expert.py --task {args.task} --preset {args.preset}",
        "set": args.set,
        "gpu": gpu,
        "torch": torch.__version__,
        "commit": args.commit,
        "goal": args.goal,
        "median_seconds": median(t if t is not None else float("inf") for t in times),
        "slowest_seconds": None if None in times else max(times),
        "seeds": results,
    }
    (args.out / f"{args.name}.json").write_text(json.dumps(summary, indent=1) + "\n")
    plot(args, results)
    print(f"median {summary['median_seconds']} s, slowest {summary['slowest_seconds']} s")


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
