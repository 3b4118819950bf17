# SPDX-License-Identifier: Apache-2.0
"""D4PG updates per second.

    python benchmarks/d4pg.py                   # on a CPU, beside Stable-Baselines3's TD3
    python benchmarks/d4pg.py --device cuda     # captured in CUDA graphs, plain and fused

On a CPU both learners draw their batches from their own replay and take turns in one process,
round by round; sizes and batch are equal: actor 300-200, critics 400-300, 24 states and 6
actions as the walker has. TD3 trains two critics on scalars and its actor every second time,
D4PG one critic of 51 atoms and its actor every time.
"""

import json
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

import torch
import tyro

from d4pg_cuda import table
from learners import d4pg, drawn, filled_replay, td3

REQUIRED = 1.5


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to measure."""

    device: Literal["cpu", "cuda"] = "cpu"
    """"cpu" for the ratio to TD3, "cuda" for updates per second in a graph."""
    batch: int = 256
    """Batch size on the CPU."""
    batches: tuple[int, ...] = (256, 2048)
    """Batch sizes on CUDA."""
    rounds: int = 15
    """Times each is measured on the CPU; the table shows the best and the median."""
    updates: int = 20
    """Updates a round, on the CPU."""
    unroll: int = 8
    """Updates in a graph on CUDA."""
    smoke: bool = False
    """With `--device cuda`, run at toy size on the CPU to check this script."""
    out: Path | None = None
    """JSON file for the figures."""


def beside_td3(args: Args) -> dict[str, object]:
    device = torch.device("cpu")
    replay, agent, rng = filled_replay(device), d4pg(device), torch.Generator().manual_seed(1)

    def ours(updates: int) -> None:
        for _ in range(updates):
            agent.update(drawn(replay, args.batch, rng))

    learners = {"TD3": td3(args.batch), "D4PG": ours}
    times: dict[str, list[float]] = {name: [] for name in learners}
    charged = dict.fromkeys(learners, 0.0)
    for learn in learners.values():
        learn(5)
    for _ in range(args.rounds):
        for name, learn in learners.items():
            start, began = time.perf_counter(), time.process_time()
            learn(args.updates)
            charged[name] += time.process_time() - began
            times[name].append((time.perf_counter() - start) / args.updates)
    # Taking turns, both see the same machine, yet two threads that wait for each other suffer
    # from whatever else runs: the bar is meant for a quiet one.
    ratios = [a / b for a, b in zip(times["TD3"], times["D4PG"], strict=True)]
    row: dict[str, object] = {"batch": args.batch, "threads": torch.get_num_threads()}
    for name, seconds in times.items():
        row[f"{name}_updates_per_second"] = round(1 / median(seconds), 1)
        row[f"{name}_updates_per_second_best"] = round(1 / min(seconds), 1)
    row["ratio_of_processor_time"] = round(charged["TD3"] / charged["D4PG"], 2)
    row["ratio_of_best"] = round(min(times["TD3"]) / min(times["D4PG"]), 2)
    return row | {"ratio_median": round(median(ratios), 2), "ratio_required": REQUIRED}


def main(args: Args) -> None:
    report: dict[str, object] = {"torch": torch.__version__, "machine": platform.machine()}
    if args.device == "cpu":
        report |= beside_td3(args)
        print(json.dumps(report))
    else:
        if not args.smoke:
            report["gpu"] = torch.cuda.get_device_name()
        rows: list[object] = []
        report["rows"] = rows
        for row in table(args.batches, args.unroll, args.smoke):
            rows.append(row)
            write(report, args.out)
    write(report, args.out)
    ratio = report.get("ratio_median", REQUIRED)
    assert isinstance(ratio, float)
    raise SystemExit(ratio < REQUIRED)


def write(report: dict[str, object], out: Path | None) -> None:
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Args))
