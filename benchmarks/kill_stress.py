# SPDX-License-Identifier: Apache-2.0
"""Kills a training run again and again and sees that nothing is lost.

    python benchmarks/kill_stress.py --kills 50

A small run is started, killed with SIGKILL at a random moment (one time in three inside the
writing of a checkpoint), inspected and resumed, until it has been killed so often; finished runs
begin anew. After every kill the directory must be readable and the newest checkpoint at most one
interval behind what was logged. Every run that finishes must have measured, bit for bit, what a
run that was never stopped measures.
"""

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import tyro
from tqdm import tqdm

from pureward.run import checkpoint
from pureward.run.log import read_metrics

TINY = Path(__file__).parent.parent / "tests" / "run" / "tiny.py"
ENV_STEPS, INTERVAL = 4000, 80


@dataclass(frozen=True, kw_only=True)
class Args:
    """How hard to try."""

    kills: int = 50
    seed: int = 0
    longest: float = 12.0
    """Seconds that a process may live before it is killed."""


def start(run: Path, *arguments: str) -> subprocess.Popen:
    resume = ["--resume"] if (run / "config.json").exists() else []
    command = [sys.executable, str(TINY), str(run), "--env-steps", str(ENV_STEPS)]
    return subprocess.Popen(
        [*command, *resume, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def measured(run: Path) -> list[dict]:
    rows = read_metrics(run / "metrics.jsonl")
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]


def inspect(run: Path) -> None:
    """The directory can be read, and at most one checkpoint interval is lost."""
    if not (run / "config.json").exists():
        return  # killed before it began
    json.loads((run / "config.json").read_text())
    if not (run / "metrics.jsonl").exists():
        return
    logged = max((row["step"] for row in read_metrics(run / "metrics.jsonl")), default=0)
    newest = checkpoint.read_newest(run / "checkpoints")
    kept = newest.facts["step"] if newest else 0
    assert logged - kept <= INTERVAL, f"lost {logged - kept} steps, an interval is {INTERVAL}"


def killed(run: Path, chance: random.Random, longest: float) -> bool:
    """Start or resume the run and kill it; False if it finished before."""
    if chance.random() < 1 / 3:
        process = start(run, "--die-in-write", str(chance.randint(1, 8)))
    else:
        process = start(run)
    try:
        code = process.wait(timeout=chance.uniform(0.0, longest))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        code = process.wait()
    assert code in (0, -signal.SIGKILL), f"a run ended with code {code}"
    return code != 0


def main(args: Args) -> None:
    chance, began = random.Random(args.seed), time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        whole = Path(scratch) / "whole"
        assert start(whole).wait() == 0
        expected, kills, finished = measured(whole), 0, 0
        bar = tqdm(total=args.kills, unit="kill")
        run = Path(scratch) / "run-0"
        while kills < args.kills or (run / "config.json").exists():
            # Once killed often enough, the last run is let through to its end.
            if kills < args.kills and killed(run, chance, args.longest):
                kills += 1
                bar.update()
                inspect(run)
                continue
            if kills >= args.kills:
                assert start(run).wait() == 0
            assert measured(run) == expected, "a resumed run measured something else"
            finished += 1
            run = Path(scratch) / f"run-{finished}"
        bar.close()
    minutes = (time.monotonic() - began) / 60
    print(f"{kills} kills, {finished} runs finished as if never stopped, {minutes:.1f} minutes")


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
