# SPDX-License-Identifier: Apache-2.0
"""Jobs as processes of this machine, each on its GPU where there are several."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

import torch

from pureward.distributed.jobs import EXECUTORS, Job, Result
from pureward.envs import find_device
from pureward.errors import (
    InputError,
    InUseError,
    SimulationError,
    TrainingError,
    in_brief,
    lacks_memory,
)
from pureward.files import open_regular

# Fork would copy threads and locks of torch half-way; a new interpreter has none.
_CONTEXT = multiprocessing.get_context("spawn")
# Exit codes: "try again later" (EX_TEMPFAIL of sysexits.h), "no memory" (ENOMEM), "busy" (EBUSY).
_ENDINGS: dict[int, Result] = {0: "finished", 75: "stopped", 12: "crowded", 16: "busy"}
_CODES = {result: code for code, result in _ENDINGS.items()}
_LAST_WORDS = 2**16  # bytes of a log that are looked at
_BAR = "%|"  # of every progress bar


@dataclass
class LocalProcesses:
    """A process a job, on this machine."""

    places: Sequence[str | None]
    """For each process at once the GPU it sees; None shows it all."""
    threads: int = 1
    """Of each process."""
    _handles: dict[int, "LocalProcess"] = field(default_factory=dict, init=False)

    @property
    def at_once(self) -> int:
        """As many as there are places."""
        return len(self.places)

    def start(self, job: Job) -> "LocalProcess":
        """Begin a job on the first place that is free."""
        slots = range(self.at_once)
        slot = next(n for n in slots if n not in self._handles or not self._handles[n].running())
        job.log.parent.mkdir(parents=True, exist_ok=True)
        said = job.log.stat().st_size if job.log.exists() else 0
        process = _CONTEXT.Process(target=_work, args=(job,))
        gpu = self.places[slot]
        shown = {} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu}
        with _environment({**shown, "OMP_NUM_THREADS": str(self.threads)}):
            process.start()
        self._handles[slot] = LocalProcess(process, job.log, said)
        return self._handles[slot]


@EXECUTORS.register("local")
def local_executor(*, device: str, at_once: int = 0) -> LocalProcesses:
    """Return an executor that starts processes on this machine.

    Args:
        device: of the runs.
        at_once: processes per GPU, or on all cores; 0 for one per GPU, or one per core.
    """
    if at_once < 0:
        raise InputError(f"at-once must be at least 1, got {at_once}; leave it out for one a GPU")
    cores = len(os.sched_getaffinity(0))
    if find_device(device).type == "cpu":
        places: Sequence[str | None] = (None,) * (at_once or cores)
    elif ":" in device:  # the user named one GPU
        places = (None,) * (at_once or 1)
    else:
        named = os.environ.get("CUDA_VISIBLE_DEVICES")
        gpus = named.split(",") if named else map(str, range(torch.cuda.device_count()))
        places = [*gpus] * (at_once or 1)
    return LocalProcesses(places=places, threads=max(1, cores // len(places)))


@dataclass
class LocalProcess:
    """The process of a job."""

    process: SpawnProcess
    log: Path
    said: int = 0
    """Bytes of the log that processes before it have written."""

    def running(self) -> bool:
        """Whether it is still at work."""
        return self.process.is_alive()

    def ended(self) -> Result:
        """How it ended, by its exit code."""
        code = self.process.exitcode
        return "failed" if code is None else _ENDINGS.get(code, "failed")

    def last_words(self) -> str:
        """The last line of its log, and the signal that killed it if one did."""
        written = _end_of(self.log, self.said) if self.log.exists() else b""
        text = written.decode(errors="replace").replace("\r", "\n")
        told = [line.strip() for line in text.splitlines() if line.strip()]
        # A bar may be another's, that still runs and writes to the same log.
        words = [line for line in told if _BAR not in line] or told or ["it said nothing"]
        last = words[-1]
        code = self.process.exitcode or 0
        return last if code >= 0 else f"killed by {signal.Signals(-code).name}; {last}"

    def stop(self) -> None:
        """Ask for a checkpoint and an end."""
        self.process.terminate()

    def wait(self) -> None:
        """Wait until it has ended."""
        self.process.join()


def _end_of(log: Path, start: int) -> bytes:
    """What a log says from a byte on, its last part if that is long."""
    with open(log, "rb", opener=open_regular) as file:
        file.seek(max(start, os.fstat(file.fileno()).st_size - _LAST_WORDS))
        return file.read(_LAST_WORDS)


def _work(job: Job) -> None:
    """What a process does: everything it says goes to the log, and it ends with its parent."""
    with open(job.log, "ab", opener=open_regular) as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
    # A file is written in blocks: what is printed would follow the error that ends the process.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        well = job.run()
    except Exception as error:
        if lacks_memory(error):
            print(f"there is no memory left for it: {in_brief(error)}", file=sys.stderr)
            sys.exit(_CODES["crowded"])
        if isinstance(error, InUseError):
            sys.exit(_CODES["busy"])
        if isinstance(error, InputError | SimulationError | TrainingError):
            sys.exit(str(error))
        raise
    sys.exit(_CODES["finished" if well else "stopped"])


def _end_with_parent() -> None:
    """A parent that was killed can stop nobody; its child sees it go and stops by itself."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Processes that start meanwhile find these variables; nothing else tells torch in time."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
