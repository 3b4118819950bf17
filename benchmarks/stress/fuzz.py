# SPDX-License-Identifier: Apache-2.0
"""Damages files of every kind that pureward reads, and reads them.

    python benchmarks/stress/fuzz.py --files 2000 --each 1000 --out results/stress/fuzz.json
    python benchmarks/stress/fuzz.py --only "reward.json:17"
    python benchmarks/stress/fuzz.py --kinds npy npz videos --each 600

Each file is a real one with damage drawn from the seed, its kind and its number. It must be
accepted or refused with an error that the command line tells in a sentence. Defects are any other
exception, a crash, a hang, too much memory, a process started, and any file outside the folder
read or written, whether by Python or by a C library.
"""

import json
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import h5py
import numpy as np
import torch
import tyro

from fuzz_kinds import Kind, damage, kinds, write_material
from fuzz_mutations import SECRET
from fuzz_watch import Memory, Outside, Watcher
from pureward.errors import InputError, SimulationError, TrainingError, lacks_memory
from pureward.files import write_json
from pureward.progress import Progress
from stress_run import made_with, prepare

REFUSALS = (InputError, OSError, SimulationError, TrainingError, SystemExit)
_LONGEST = 20.0  # seconds of work or of silence
_MEMORY = 1_500_000_000  # bytes


@dataclass(frozen=True, kw_only=True)
class Args:
    """How hard to try."""

    files: int = 2000
    """Files of runs and rewards in all, spread evenly over their kinds."""
    each: int = 1000
    """Files of each format of data, spread evenly over its kinds."""
    seed: int = 0
    """Of the damage."""
    at_once: int = 2
    """Processes that read."""
    kinds: tuple[str, ...] = ()
    """Names of the kinds to try; all of them if there are none."""
    only: str = ""
    """KIND:NUMBER of a single file, to see its traceback."""
    out: Path | None = None
    """JSON file for the figures."""


class Reader:
    """Damages and reads files, in a process of its own."""

    def __init__(self, place: Path, material: Path, seed: int) -> None:
        """Read every kind undamaged, which shows what may be touched."""
        self.case, self.outside = place / "case", place / "outside"
        self.material, self.seed = material, seed
        prepare()
        self.watcher = Watcher()
        os.chdir(material)
        self.kinds = kinds()
        for kind in self.kinds.values():
            self._lay_out(kind)
            self.watcher.begin(self.case)
            kind.read(kind.files[-1])
            self.watcher.end(learn=True)
        self.memory = Memory(_MEMORY)

    def _lay_out(self, kind: Kind) -> None:
        os.chdir("/")
        for folder in (self.case, self.outside):
            shutil.rmtree(folder, ignore_errors=True)
        for path in self.material.iterdir():
            if path.name in kind.folders or not kind.format:
                shutil.copytree(path, self.case / path.name)
        self.outside.mkdir(parents=True)
        (self.outside / "secret").write_bytes(SECRET * 4096)
        with h5py.File(self.outside / "foreign.hdf5", "w") as file:
            file["frames"] = np.frombuffer(SECRET * 4096, np.uint8)
        os.chdir(self.case)

    def read(self, name: str, number: int) -> dict[str, Any]:
        """Damage and read one file; what became of it."""
        self._lay_out(self.kinds[name])
        chance = random.Random(f"{self.seed}:{name}:{number}")
        file, done = damage(self.kinds[name], number, self.outside, chance)
        inside = [path for path in (self.outside, self.outside / "folder") if path.exists()]
        outside, result, error = Outside(inside), None, None
        self.memory.begin()
        self.watcher.begin(self.case)
        try:
            result = self.kinds[name].read(file)
        except BaseException as raised:
            error = raised
        touched = self.watcher.end() + outside.end()
        told = {"kind": name, "number": number, "damage": done, "touched": touched}
        taken = self.memory.taken()
        outcome = _judged(error, result, touched, taken)
        said = "".join(traceback.format_exception(error)) if error is not None else ""
        return told | {"outcome": outcome, "said": said, "bytes": taken}


def _judged(error: BaseException | None, result: Any, touched: list[str], taken: int) -> str:
    if touched:
        return f"DEFECT outside: {', '.join(touched)[:200]}"
    if SECRET in _shown(result) or SECRET in str(error).encode(errors="replace"):
        return "DEFECT outside: the secret was read"
    at: BaseException | None = error
    while at is not None:
        # FFmpeg reports sizes that it refuses as memory that it lacks.
        ours = not isinstance(at, InputError) and type(at).__module__ != "av.error"
        if ours and (isinstance(at, MemoryError) or lacks_memory(at)):
            return "DEFECT memory: an allocation failed"
        at = at.__cause__ or at.__context__
    if taken > _MEMORY:
        return f"DEFECT memory: {taken / 1e9:.1f} GB"
    if error is None:
        return "accepted"
    if isinstance(error, REFUSALS):
        return "refused"
    return f"DEFECT {type(error).__name__}: {error}"[:300]


def _shown(result: Any) -> bytes:
    if isinstance(result, torch.Tensor):
        return result.detach().contiguous().numpy().tobytes()
    if isinstance(result, list):
        return b"".join(map(_shown, result))
    return str(result).encode(errors="replace")


def serve(pipe: Connection, place: Path, material: Path, seed: int) -> None:
    """Read files as they are asked for, until the pipe is closed."""
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        reader = Reader(place, material, seed)
        pipe.send(None)
        while True:
            try:
                asked = pipe.recv()
            except EOFError:
                return
            pipe.send(reader.read(*asked))


class Worker:
    """A process that reads, started again when it hangs or crashes."""

    def __init__(self, place: Path, material: Path, seed: int) -> None:
        """Start nothing yet."""
        self.settings = (place, material, seed)
        self.process: Any = None

    def read(self, name: str, number: int) -> dict[str, Any]:
        """What became of one file."""
        if self.process is None:
            self._start()
        self.pipe.send((name, number))
        began, worked, quiet = time.monotonic(), self._worked(), time.monotonic()
        start = worked
        while not self.pipe.poll(0.5):
            now = self._worked()
            if now > worked + 0.05:
                worked, quiet = now, time.monotonic()
            silent = time.monotonic() - max(quiet, began)
            if worked - start > _LONGEST or silent > _LONGEST:
                self.stop()
                return self._lost(name, number, f"DEFECT hang: over {_LONGEST:.0f} s")
        try:
            return self.pipe.recv()
        except EOFError:
            return self._lost(name, number, f"DEFECT crash: exit code {self.stop()}")

    def _lost(self, name: str, number: int, outcome: str) -> dict[str, Any]:
        told = {"kind": name, "number": number, "damage": "?", "touched": []}
        return told | {"outcome": outcome, "said": "", "bytes": 0}

    def _start(self) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, *self.settings), daemon=True)
        self.process.start()
        theirs.close()
        self.pipe.recv()  # it has read all kinds undamaged

    def _worked(self) -> float:
        """Seconds of processor time so far."""
        try:
            told = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:
            return 0.0
        numbers = told.rpartition(")")[2].split()
        return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> int | None:
        """End the process; returns its exit code."""
        if self.process is None:
            return None
        self.process.join(1.0 if self.pipe.poll() else 0.0)  # one that ends by itself has a code
        self.process.kill()
        self.process.join()
        code, self.process = self.process.exitcode, None
        return code


def run_all(args: Args, scratch: Path, material: Path) -> list[dict[str, Any]]:
    """What became of every file, in order."""
    os.chdir(material)
    known = kinds()
    names = [name for name in known if name in args.kinds] or list(known)
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(known[name].format, []).append(name)
    cases = []
    for form, own in groups.items():
        share, rest = divmod(args.each if form else args.files, len(own))
        cases += [(n, i) for k, n in enumerate(own) for i in range(share + (k < rest))]
    if args.only:
        name, _, number = args.only.rpartition(":")
        cases = [(name, int(number))]
    queue: SimpleQueue[tuple[str, int]] = SimpleQueue()
    for case in random.Random(args.seed).sample(cases, len(cases)):
        queue.put(case)
    found: list[dict[str, Any]] = []
    bar = Progress(total=len(cases), unit="file")

    def work(number: int) -> None:
        worker = Worker(scratch / f"worker-{number}", material, args.seed)
        try:
            while True:
                found.append(worker.read(*queue.get_nowait()))
                bar.update()
        except Empty:
            worker.stop()

    workers = min(args.at_once, len(cases))
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, range(workers)))
    bar.close()
    return sorted(found, key=lambda one: (names.index(one["kind"]), one["number"]))


def table(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Counts by kind."""
    rows: dict[str, dict[str, Any]] = {}
    for one in found:
        row = rows.setdefault(one["kind"], {"files": 0, "accepted": 0, "refused": 0, "defects": 0})
        row["files"] += 1
        row[one["outcome"] if one["outcome"] in row else "defects"] += 1
        row["most memory, MB"] = max(row.get("most memory, MB", 0), round(one["bytes"] / 1e6))
    return rows


def main(args: Args) -> None:
    """Damage, read, and print a table by kind; exit 1 on a defect."""
    began, here = time.monotonic(), Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder).resolve()
        material = scratch / "material"
        material.mkdir()
        os.chdir(material)
        prepare()
        with (scratch / "log").open("w") as log, redirect_stdout(log), redirect_stderr(log):
            write_material()
        found = run_all(args, scratch, material)
        os.chdir(here)
    rows = table(found)
    for name, row in rows.items():
        print(f"{name:24}" + "".join(f"  {key} {value:<5}" for key, value in row.items()))
    defects = [one for one in found if one["outcome"].startswith("DEFECT")]
    print(f"{len(found)} files, {len(defects)} defects")
    told = [f"{d['kind']}:{d['number']}  {d['outcome']}  [{d['damage']}]" for d in defects]
    if args.out is not None:
        sizes = f"--files {args.files} --each {args.each} --seed {args.seed}"
        command = f"python benchmarks/stress/fuzz.py {sizes}"
        outcomes = Counter(one["outcome"].partition(":")[0] for one in found)
        minutes = round((time.monotonic() - began) / 60, 1)
        figures = {**made_with(command), "minutes": minutes, "outcomes": dict(outcomes)}
        write_json(args.out, {**figures, "kinds": rows, "defects": told})
    if args.only:
        print(json.dumps(found[0] | {"said": ""}, indent=1), found[0]["said"], sep="\n")
    if defects:
        sys.exit("\n".join([*told, f"see one with --seed {args.seed} --only KIND:NUMBER"]))


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
