# SPDX-License-Identifier: Apache-2.0
"""Rewards from pixels on the walker: every method from the same expert, several runs at a time.

    python benchmarks/walker_purl.py --out results/walker --methods nn-pugail gail --seeds 0 1 2

Trains an expert, collects 50 demonstrations and 50 annotated episodes of its learning, then trains
each method for each seed within the budget and writes walker.json: of every run its curve, the
return of 100 greedy episodes at the end, the share of the expert's, and what the probes said last.
`--variant NAME:SETTING=VALUE,…` tries other settings beside the preset's; runs that are there
already are not run again. `--task reach --device cpu` tries it on a laptop.
"""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import torch
import tyro

import pureward
from pureward.files import write_json
from pureward.runs.collect import collect
from pureward.runs.log import read_metrics

PUREWARD = (sys.executable, "-c", "from pureward.cli import main; main()")


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to train and where to write it."""

    out: Path = Path("results/walker")
    work: Path = Path("runs/walker-purl")
    """Run directories and datasets."""
    task: str = "walker"
    methods: tuple[str, ...] = ("nn-pugail", "gail", "prl", "pnrl", "nn-purl")
    seeds: tuple[int, ...] = (0, 1, 2)
    variant: tuple[str, ...] = ("preset",)
    """Settings tried: NAME, or NAME:SETTING=VALUE,… on top of the preset."""
    budget_seconds: float = 300.0
    """Wall-clock limit of a run, evaluations included."""
    parallel: int = 1
    """Runs at a time."""
    expert_return: float = 900.0
    """What the expert is trained to at least."""
    device: str = "auto"
    commit: str = ""
    name: str = "walker"
    """Of the file."""


@dataclass(frozen=True)
class Job:
    """One run."""

    variant: str
    method: str
    seed: int
    settings: tuple[str, ...]

    @property
    def name(self) -> str:
        """Of its directory."""
        return f"{self.variant}-{self.method}-{self.seed}"


def prepare(args: Args) -> dict:
    """Expert, demonstrations and annotated episodes; returns how good the demonstrations are."""
    expert = args.work / "expert"
    if not (expert / "config.json").exists():
        config = pureward.preset(
            args.task,
            out=str(expert),
            device=args.device,
            stop_at_return=args.expert_return,
            snapshot_every=100_000 if args.task == "walker" else 1_000,
            evaluate_every=400_000 if args.task == "walker" else 4_000,
        )
        result = pureward.train(config)
        print(f"expert: {result.evaluation}")
    for name, stages in (("demonstrations", False), ("annotations", True)):
        if not (args.work / name).exists():
            collect(args.task, expert, args.work / name, stages=stages, device=args.device)
    card = json.loads((args.work / "demonstrations" / "card.json").read_text())
    return card["splits"]["train"]


def run(args: Args, job: Job) -> dict:
    """Train one run in a process of its own; a failure is told, not raised."""
    folder = args.work / job.name
    needs = pureward.METHODS[job.method].positives
    began = time.perf_counter()
    if not (folder / "config.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [
            *(*PUREWARD, "train", args.task, "--method", job.method, "--seed", str(job.seed)),
            *("--out", str(folder), "--device", args.device),
            *("--budget-seconds", str(args.budget_seconds)),
            *([f"--{needs}", str(args.work / needs)] if needs else []),
            *(part for setting in job.settings for part in f"--{setting}".split("=", 1)),
        ]
        with (folder / "output.txt").open("w") as output:
            subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False)
    return {**asdict(job), "wall_seconds": round(time.perf_counter() - began, 1), **told(folder)}


def told(folder: Path) -> dict:
    """The curve of a run and its last numbers."""
    metrics = folder / "metrics.jsonl"
    rows = read_metrics(metrics) if metrics.exists() else []
    evals = [row for row in rows if row["kind"] == "eval"]
    if not evals:
        tail = (folder / "output.txt").read_text()[-600:].splitlines()
        return {"error": tail[-1] if tail else "no output"}
    kept = ("step", "seconds", "return", "learned_return", "reward_error", "success")
    last = {kind: [row for row in rows if row["kind"] == kind] for kind in ("train", "probe")}
    return {
        "return": evals[-1]["return"],
        "return_ci95": evals[-1]["return_ci95"],
        "best_return": max(row["return"] for row in evals),
        "env_steps": evals[-1]["step"],
        "training_seconds": evals[-1]["seconds"],
        "curve": [{k: round(row[k], 3) for k in kept if k in row} for row in evals],
        "last_train": last["train"][-1] if last["train"] else {},
        "last_probe": last["probe"][-1] if last["probe"] else {},
    }


def jobs(args: Args) -> list[Job]:
    """Every variant of every method for every seed, seeds last, so that first ones end first."""
    made = []
    for seed in args.seeds:
        for variant in args.variant:
            name, _, settings = variant.partition(":")
            only = [part[1:] for part in settings.split(",") if part.startswith("@")]
            chosen = tuple(part for part in settings.split(",") if part and part[0] != "@")
            made += [Job(name, method, seed, chosen) for method in only or args.methods]
    return made


def main() -> None:
    """Train everything and write the table."""
    args = tyro.cli(Args)
    demonstrated = prepare(args)
    expert = demonstrated["return_mean"]
    print(f"demonstrations: return {expert:.1f}")
    with ThreadPoolExecutor(args.parallel) as pool:
        results = list(pool.map(lambda job: run(args, job), jobs(args)))
    report = {
        "torch": torch.__version__,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "commit": args.commit,
        "args": {k: str(v) for k, v in asdict(args).items()},
        "demonstrations": demonstrated,
        "runs": results,
    }
    write_json(args.out / f"{args.name}.json", report)
    print(f"{'variant':12} {'method':12} {'seeds':>5} {'median':>8} {'of expert':>9}  returns")
    for variant, method in dict.fromkeys((r["variant"], r["method"]) for r in results):
        own = [r for r in results if (r["variant"], r["method"]) == (variant, method)]
        found = [r["return"] for r in own if "return" in r]
        for row in own:
            if "error" in row:
                print(f"{variant:12} {method:12} seed {row['seed']} failed: {row['error']}")
        if found:
            middle = median(found)
            done = [r for r in own if "return" in r]
            listed = ", ".join(f"{r['return']:.0f} (best {r['best_return']:.0f})" for r in done)
            share = middle / expert
            print(f"{variant:12} {method:12} {len(found):5} {middle:8.1f} {share:9.1%}  {listed}")


if __name__ == "__main__":
    main()
