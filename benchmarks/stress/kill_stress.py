# SPDX-License-Identifier: Apache-2.0
"""Kills training runs at every write and at random moments, and checks that nothing is lost.

    python benchmarks/stress/kill_stress.py --kills 10
    python benchmarks/stress/kill_stress.py --kills 200 --out results/stress/kills.json

One run is left alone. Python's audit events count its writes: every file of the run directory
that is opened for writing, renamed, truncated or deleted, and every folder made or deleted. Other
runs are then killed with SIGKILL right before such an event; `torn` kills also cut what was
written since the event before to a half, as a kill in the middle of that write does. Each killed
run is resumed and may be killed a second time at a random moment or a random write.

After every kill the directory must be readable, with at most one checkpoint interval lost. Every
run is resumed to its end and must then hold the same metrics, checkpoints, policies, reward and
best checkpoint as the run that was left alone, bit for bit, and no unfinished file.
"""

import hashlib
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path
from threading import Lock
from typing import Any

import tyro
from safetensors import safe_open

import pureward
from kill_hook import Writes
from pureward.files import PARTIAL, write_json
from pureward.progress import Progress
from pureward.runs import checkpoint
from pureward.runs.directory import RunDirectory
from pureward.runs.log import read_metrics
from pureward.runs.policy import load_policy, snapshots
from stress_run import INTERVAL, made_with, prepare, small_run, write_data

SCRIPT = "benchmarks/stress/kill_stress.py"
_PRELOADED = [
    "pureward.training.loop",
    "torch._dynamo",
    "stress_run",
]  # what takes seconds to import
_LONGEST = 300.0  # seconds a life may take


@dataclass(frozen=True, kw_only=True)
class Args:
    """How hard to try."""

    kills: int = 10
    """Kills in all; three of four hit writes, spread evenly over those of a run."""
    seed: int = 0
    """Of the random moments and writes."""
    at_once: int = 2
    """Runs beside each other, of one thread each."""
    out: Path | None = None
    """JSON file for the figures."""


def live(config: pureward.RunConfig, kill_at: int, torn: bool, counted: Path) -> None:
    """One life of a run, in a process of its own; writes what the hook saw if it survives."""
    prepare()
    began = time.monotonic()
    writes = Writes(run=Path(config.out), kill_at=kill_at, torn=torn)
    sys.addaudithook(writes)
    resume = (Path(config.out) / "config.json").exists()
    with counted.with_suffix(".log").open("a") as log, redirect_stdout(log), redirect_stderr(log):
        pureward.train(config, resume=resume)
    counted.write_text(json.dumps([writes.seen, time.monotonic() - began]))


class Stress:
    """The runs, and the kills that are left."""

    def __init__(self, folder: Path, args: Args) -> None:
        """Make the run that is left alone, and plan the kills."""
        self.folder, self.chance, self.lock = folder, random.Random(args.seed), Lock()
        self.starting = Lock()
        self.data = write_data(folder / "data")
        self.context = get_context("forkserver")
        self.context.set_forkserver_preload(_PRELOADED)
        whole = folder / "whole"
        assert self.one_life(whole), "the run that is left alone must finish"
        self.events, self.seconds = json.loads((folder / "whole.events").read_text())
        self.expected = contents(whole)
        self.targets = planned(args.kills * 3 // 4, self.events)
        self.again = args.kills - len(self.targets)
        self.runs, self.done = count(), Counter[str]()
        self.failures: list[str] = []
        self.bar = Progress(total=args.kills, unit="kill")

    def one_life(
        self, run: Path, kill_at: int = 0, torn: bool = False, seconds: float = _LONGEST
    ) -> bool:
        """Start or resume a run; True if it came to its end, False if it was killed."""
        counted = self.folder / f"{run.name}.events"
        settings = small_run(run, self.data)
        process = self.context.Process(target=live, args=(settings, kill_at, torn, counted))
        with self.starting:  # a start also asks for the exit codes of other threads' processes
            process.start()
        if not wait([process.sentinel], seconds):
            process.kill()
            wait([process.sentinel])
            assert seconds < _LONGEST, f"{run} did not end within {_LONGEST:.0f} s"
        with self.starting:
            process.join()
        said = counted.with_suffix(".log")
        assert process.exitcode in (0, -signal.SIGKILL), (
            f"{run} ended with code {process.exitcode}: {said.read_text()[-3000:]}"
        )
        return process.exitcode == 0

    def work(self) -> None:
        """Kill and resume runs until no kills are left."""
        while True:
            with self.lock:
                target = self.targets.pop() if self.targets else None
                again = self.again > 0
                self.again -= again
                run = self.folder / f"run-{next(self.runs)}"
            if target is None and not again:
                return
            kills: list[str] = []
            try:
                self._one_run(run, target, again, kills)
            except Exception as error:
                self.failures.append(f"{run.name}, killed at {'; '.join(kills)}: {error}")
            shutil.rmtree(run, ignore_errors=True)

    def _one_run(
        self, run: Path, target: tuple[int, bool] | None, again: bool, kills: list[str]
    ) -> None:
        finished = False
        if target is not None:
            at, torn = target
            kills.append(f"{'torn ' * torn}write {at} ({self.events[at - 1][0]})")
            assert not self.one_life(run, at, torn), "that write was never reached"
            self._killed(run, "torn writes" if torn else "writes")
        if again:
            finished = self._lives_on(run, kills)
        assert finished or self.one_life(run), "it must come to its end"
        check_same(run, self.expected)
        self.done["runs finished"] += 1

    def _lives_on(self, run: Path, kills: list[str]) -> bool:
        """Kill at a random moment or write; True if the run came to its end before that."""
        with self.lock:
            moment = self.chance.random() < 0.5
            seconds = self.chance.uniform(0.0, self.seconds)
            write = self.chance.randint(1, len(self.events))
            torn = self.chance.random() < 0.5
        kills.append(f"{seconds:.2f} s" if moment else f"{'torn ' * torn}write {write}")
        if moment:
            finished = self.one_life(run, seconds=seconds)
        else:
            finished = self.one_life(run, write, torn)
        if not finished:
            self._killed(run, "random moments" if moment else "random writes")
        else:
            with self.lock:
                self.again += 1
        return finished

    def _killed(self, run: Path, kind: str) -> None:
        lost = inspect(run)
        with self.lock:
            self.done[kind] += 1
            self.done["most steps lost"] = max(self.done["most steps lost"], lost)
            self.bar.update()


def planned(kills: int, events: list[tuple[str, bool, bool]]) -> list[tuple[int, bool]]:
    """Writes to kill at, counted from 1, and whether to tear them; evenly spread if few."""
    clean = [number for number, (_, changed, _) in enumerate(events, start=1) if changed]
    torn = [number for number, (_, _, grown) in enumerate(events, start=1) if grown]
    few = kills - kills // 3 if kills < len(clean) else len(clean)
    rest = min(kills - few, len(torn))
    return [(at, False) for at in evenly(clean, few)] + [(at, True) for at in evenly(torn, rest)]


def evenly(values: list[int], wanted: int) -> list[int]:
    """So many of the values, evenly spread, the first and the last among them."""
    last = len(values) - 1
    return [values[round(i * last / max(1, wanted - 1))] for i in range(wanted)]


def inspect(run: Path) -> int:
    """Check that all of a killed run can be read; returns how many measured steps are lost."""
    directory = RunDirectory(run)
    if not directory.config.exists():
        return 0  # killed before it began
    for path in run.rglob("*.json"):
        if PARTIAL not in str(path):
            json.loads(path.read_text())
    if snapshots(run):
        load_policy(run)
    if (directory.reward / "reward.json").exists():
        pureward.load_reward(run)
    rows = read_metrics(directory.metrics) if directory.metrics.exists() else []
    newest = checkpoint.read_newest(directory.checkpoints)
    kept = newest.facts["step"] if newest else 0
    lost = max((row["step"] for row in rows), default=0) - kept
    assert lost <= INTERVAL, f"lost {lost} steps of {run}, an interval is {INTERVAL}"
    return max(0, lost)


def contents(run: Path) -> dict[str, Any]:
    """All that a run has made, without what tells the time and the place."""
    skipped = {"lock", "config.json", "facts.json", "status.json", "metrics.jsonl"}
    paths = [path for path in run.rglob("*") if "tensorboard" not in path.parts]
    told: dict[str, Any] = {str(path.relative_to(run)): "" for path in paths}
    for path in paths:
        if path.is_file() and path.name not in skipped:
            told[str(path.relative_to(run))] = digest(path)
    rows = read_metrics(run / "metrics.jsonl")
    told["metrics"] = [{k: v for k, v in row.items() if k != "seconds"} for row in rows]
    best = checkpoint.best(run / "checkpoints")
    told["best checkpoint"] = best.name if best else None
    status = RunDirectory(run).read_status()
    return told | {"status": {k: v for k, v in status.items() if k != "made_with"}}


def digest(path: Path) -> str:
    """Of a file's bytes; of tensors by name, since safetensors writes metadata in any order."""
    if path.suffix != ".safetensors":
        return hashlib.sha256(path.read_bytes()).hexdigest()
    whole = hashlib.sha256()
    with safe_open(path, framework="np") as file:
        whole.update(repr(sorted((file.metadata() or {}).items())).encode())
        for name in sorted(file.keys()):
            array = file.get_tensor(name)
            whole.update(f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes())
    return whole.hexdigest()


def check_same(run: Path, expected: dict[str, Any]) -> None:
    """Check that a run ended as the one that was left alone, with nothing unfinished about."""
    left = [str(path.relative_to(run)) for path in run.rglob(f"{PARTIAL}*")]
    assert not left, f"it has kept unfinished files: {left}"
    found = contents(run)
    differ = [k for k in sorted(found.keys() | expected) if found.get(k) != expected.get(k)]
    assert not differ, f"it differs from a run that was never killed in {differ}"


def main(args: Args) -> None:
    """Kill, resume, compare; print and write the figures."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        stress = Stress(Path(scratch).resolve(), args)
        with ThreadPoolExecutor(args.at_once) as pool:
            for worker in [pool.submit(stress.work) for _ in range(args.at_once)]:
                worker.result()
        stress.bar.close()
    kinds = Counter(name for name, changed, _ in stress.events if changed)
    figures = {
        **made_with(f"python {SCRIPT} --kills {args.kills} --seed {args.seed}"),
        "kills": stress.bar.n,
        **stress.done,
        "checkpoint interval, steps": INTERVAL,
        "writes of a run that leave other files": sum(kinds.values()),
        "kinds of write": dict(sorted(kinds.items())),
        "runs failed": len(stress.failures),
        "minutes": round((time.monotonic() - began) / 60, 1),
    }
    if args.out is not None:
        write_json(args.out, figures)
    print("\n".join(f"{name}: {value}" for name, value in figures.items()))
    if stress.failures:
        sys.exit("\n".join([f"{len(stress.failures)} runs failed:", *stress.failures]))


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
