# SPDX-License-Identifier: Apache-2.0
"""The executor "local": a process per job on this machine, spread over its GPUs."""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.context import SpawnProcess
from pathlib import Path

from pureward.distributed.children import CONTEXT, end_with_parent, environment
from pureward.distributed.jobs import EXECUTORS, Job, Result
from pureward.errors import (
    InputError,
    InUseError,
    SimulationError,
    TrainingError,
    in_brief,
    lacks_memory,
)
from pureward.files import open_regular

# Exit codes: EX_TEMPFAIL of sysexits.h, ENOMEM, EBUSY.
_RESULTS: dict[int, Result] = {0: "finished", 75: "stopped", 12: "out of memory", 16: "busy"}
_CODES = {result: code for code, result in _RESULTS.items()}
_LOG_BYTES = 2**16  # read from the end of a log
_BAR = "%|"  # part of every progress bar


@dataclass
class LocalProcesses:
    """Starts a process per job on this machine."""

    places: Sequence[str | None]
    """For each parallel process the GPU that it sees; None for all GPUs."""
    threads: int = 1
    """CPU threads of each process."""
    _handles: dict[int, "_Process"] = field(default_factory=dict, init=False)

    @property
    def at_once(self) -> int:
        """Number of places."""
        return len(self.places)

    def start(self, job: Job) -> "_Process":
        """Start a job at the first free place."""
        slots = range(self.at_once)
        slot = next(n for n in slots if n not in self._handles or not self._handles[n].running())
        job.log.parent.mkdir(parents=True, exist_ok=True)
        log_start = job.log.stat().st_size if job.log.exists() else 0
        process = CONTEXT.Process(target=_run_job, args=(job,))
        gpu = self.places[slot]
        visible = {} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu}
        with environment({**visible, "OMP_NUM_THREADS": str(self.threads)}):
            process.start()
        self._handles[slot] = _Process(process, job.log, log_start)
        return self._handles[slot]


@EXECUTORS.register("local")
def local_executor(*, device: str, at_once: int = 0) -> LocalProcesses:
    """Return an executor that starts processes on this machine.

    Args:
        device: of the runs.
        at_once: processes per GPU, or on all cores; 0 for one per GPU, or one per core.
    """
    import torch  # slow; the processes of jobs import this module

    from pureward.types import find_device

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
class _Process:
    """The process of a job."""

    process: SpawnProcess
    log: Path
    log_start: int = 0
    """Size of the log, in bytes, when the process started."""

    def running(self) -> bool:
        return self.process.is_alive()

    def result(self) -> Result:
        code = self.process.exitcode
        return "failed" if code is None else _RESULTS.get(code, "failed")

    def last_line(self) -> str:
        """The last line of its log, after the name of the signal that killed it, if any."""
        written = b""
        if self.log.exists():
            with open(self.log, "rb", opener=open_regular) as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(self.log_start, size - _LOG_BYTES))
                written = file.read(_LOG_BYTES)
        text = written.decode(errors="replace").replace("\r", "\n")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        # A progress bar may be of another process that writes to the same log.
        last = ([line for line in lines if _BAR not in line] or lines or ["no output"])[-1]
        code = self.process.exitcode or 0
        return last if code >= 0 else f"killed by {signal.Signals(-code).name}; {last}"

    def stop(self) -> None:
        self.process.terminate()

    def wait(self) -> None:
        self.process.join()


def _run_job(job: Job) -> None:
    """Run a job in this process; output goes to its log, and the exit code is its result."""
    with open(job.log, "ab", opener=open_regular) as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
    # With block buffering, output would follow the error that ends the process.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        finished = job.run()
    except Exception as error:
        if lacks_memory(error):
            print(f"out of memory: {in_brief(error)}", file=sys.stderr)
            sys.exit(_CODES["out of memory"])
        if isinstance(error, InUseError):
            sys.exit(_CODES["busy"])
        if isinstance(error, InputError | SimulationError | TrainingError):
            sys.exit(str(error))
        raise
    sys.exit(_CODES["finished" if finished else "stopped"])
