# SPDX-License-Identifier: Apache-2.0
"""Runs jobs in parallel, each after the jobs that it needs.

An `Executor` starts the jobs. "local" starts processes on this machine, "ray" tasks on a cluster.
Another one (SLURM) is a class with `at_once` and `start`, registered with
`@EXECUTORS.register("mine")`. Its machines must see the folders of the jobs under the same paths.
"""

import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from pureward.errors import InputError, TrainingError
from pureward.registry import Registry

_POLL_SECONDS = 0.5
_ELSEWHERE = "in use by another process"

#: How a started job ended; "busy" means that another process had its folder.
Result = Literal["finished", "stopped", "failed", "out of memory", "busy"]
#: "found": finished before; "stopped": can be resumed; "blocked": a job that it needs is missing.
State = Literal["found", "finished", "stopped", "failed", "blocked"]


class Job(Protocol):
    """Work whose output is a folder; running it again resumes it."""

    @property
    def out(self) -> Path:
        """The folder."""
        ...

    @property
    def log(self) -> Path:
        """The file for what it prints."""
        ...

    @property
    def after(self) -> Sequence[Path]:
        """Folders of the jobs that must finish first."""
        ...

    def finished(self) -> bool:
        """Whether there is nothing left to do."""
        ...

    def busy(self) -> bool:
        """Whether another process works on it."""
        ...

    def run(self) -> bool:
        """Run in this process; return whether it finished. A failure raises."""
        ...


class Handle(Protocol):
    """A job that was started."""

    def running(self) -> bool:
        """Whether it still runs."""
        ...

    def result(self) -> Result:
        """How it ended."""
        ...

    def last_line(self) -> str:
        """The last line that it printed."""
        ...

    def stop(self) -> None:
        """Tell it to write a checkpoint and end."""
        ...

    def wait(self) -> None:
        """Wait until it has ended."""
        ...


class Executor(Protocol):
    """Starts jobs."""

    @property
    def at_once(self) -> int:
        """Number of jobs that may run in parallel."""
        ...

    def start(self, job: Job) -> Handle:
        """Start or resume a job; called while fewer than `at_once` run."""
        ...


#: Name → function that makes an executor; it is called with the keywords device and at_once.
EXECUTORS: Registry[Callable[..., Executor]] = Registry("executor")


def make_executor(name: str, *, device: str, at_once: int = 0, address: str = "") -> Executor:
    """Make an executor by name.

    Args:
        name: in `EXECUTORS`.
        device: of the jobs.
        at_once: jobs in parallel, per GPU or on all CPUs; 0 for one per GPU or CPU.
        address: of a cluster, for executors that take one.
    """
    maker = EXECUTORS[name]
    if not isinstance(at_once, int) or at_once < 0:
        raise InputError(
            f"at-once must be a whole number, at least 0, got {at_once!r}; leave it out for one "
            "per GPU, or per core"
        )
    if address and "address" not in inspect.signature(maker).parameters:
        raise InputError(
            f"the executor {name!r} takes no address, got {address!r}; leave it out, or use the "
            "executor 'ray'"
        )
    return maker(device=device, at_once=at_once, **({"address": address} if address else {}))


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a job ended."""

    job: Job
    state: State
    message: str = ""
    """The last line that it printed, or why it did not start."""

    @property
    def succeeded(self) -> bool:
        """Whether the job is finished, by this call or an earlier one."""
        return self.state in ("found", "finished")


class Watcher:
    """Callbacks of `run_jobs`; override those that you need."""

    def on_start(self, job: Job) -> Job | None:
        """Return the job to start, possibly changed, or None if there is no time for it."""
        return job

    def on_poll(self, job: Job) -> None:
        """Called repeatedly while a job runs."""

    def on_out_of_memory(self, job: Job, at_once: int) -> None:
        """Called when a job ran out of memory and waits; `at_once` jobs run in parallel now."""

    def on_busy(self, job: Job) -> bool:
        """Return whether to wait for another process that works on a job; called repeatedly."""
        return True

    def on_end(self, outcome: Outcome) -> None:
        """Called when a job has ended; an exception stops all others."""


class Printer(Watcher):
    """Prints a line when a job starts, waits or ends, and keeps what it said last of each job."""

    def __init__(self, out: Path, jobs: Sequence[Job]) -> None:
        """Name jobs by their path in `out`; count those that are not finished."""
        self.out, self.left, self.ended = out, sum(not job.finished() for job in jobs), 0
        self.states: dict[Path, str] = {}
        self._started: dict[Path, float] = {}

    def on_start(self, job: Job) -> Job | None:
        """Print it, and start the job."""
        self._started[job.out] = time.monotonic()
        self._print(job, "started")
        return job

    def on_out_of_memory(self, job: Job, at_once: int) -> None:
        """Print it."""
        self._print(job, "waits for memory", f"; {at_once} in parallel from now on")

    def on_busy(self, job: Job) -> bool:
        """Print it once, and wait."""
        if self.states.get(job.out) != _ELSEWHERE:
            self._print(job, _ELSEWHERE, "; waiting for it")
        return True

    def on_end(self, outcome: Outcome) -> None:
        """Print it, unless the job was finished before or could not start."""
        out, state = outcome.job.out, outcome.state
        if state == "blocked" or (state == "found" and self.states.get(out) != _ELSEWHERE):
            return
        self.ended += 1
        more = "" if outcome.succeeded else f": {outcome.message}"
        if out in self._started:
            more = f" after {time.monotonic() - self._started[out]:.0f} s{more}"
        self._print(outcome.job, state, more, f"[{self.ended}/{self.left}] ")

    def _print(self, job: Job, state: str, more: str = "", prefix: str = "") -> None:
        self.states[job.out] = state
        print(f"  {prefix}{job.out.relative_to(self.out)} {state}{more}", flush=True)


def run_jobs(jobs: Sequence[Job], executor: Executor, watcher: Watcher) -> list[Outcome]:
    """Run the unfinished jobs, each after those that it needs.

    A failed job blocks only the jobs that need it. A job that runs out of memory beside others
    starts again when one of them has ended; from then on fewer run in parallel. A job that another
    process works on waits for that process and is resumed if it was left unfinished. If this
    process is interrupted or the watcher raises, running jobs stop with a checkpoint.

    Args:
        jobs: in any order.
        executor: starts them.
        watcher: is called at every change.

    Returns:
        An outcome per job, in the order of the jobs.
    """
    queue = _Queue(jobs, executor, watcher)
    try:
        while queue.waiting or queue.running:
            queue.start()
            if queue.running or queue.waiting:
                time.sleep(_POLL_SECONDS)
            queue.poll()
    except KeyboardInterrupt:
        raise TrainingError("interrupted; the runs can be resumed") from None
    finally:
        for _, handle in queue.running:
            handle.stop()
        for _, handle in queue.running:
            handle.wait()
    return [queue.outcomes[job.out] for job in jobs]


class _Queue:
    def __init__(self, jobs: Sequence[Job], executor: Executor, watcher: Watcher) -> None:
        self.executor, self.watcher, self.at_once = executor, watcher, executor.at_once
        self.waiting, self.outs = list(jobs), {job.out for job in jobs}
        self.running: list[tuple[Job, Handle]] = []
        self.outcomes: dict[Path, Outcome] = {}

    def start(self) -> None:
        """Start every waiting job that can start."""
        for job in list(self.waiting):
            needed = [self.outcomes.get(path) for path in job.after]
            missing = [o.job.out.name for o in needed if o is not None and not o.succeeded]
            missing += [path.name for path in job.after if path not in self.outs]
            if job.finished():  # even if a job that it needed is missing now
                self._end(job, "found")
            elif missing:
                self._end(job, "blocked", f"waits for {', '.join(missing)}")
            elif None in needed or len(self.running) >= self.at_once:
                continue
            elif job.busy():
                if self.watcher.on_busy(job):
                    continue
                self._end(job, "stopped", "another process was using it when the time was over")
            elif (chosen := self.watcher.on_start(job)) is None:
                self._end(job, "stopped", "there was no time left to start it")
            else:
                self.running.append((chosen, self.executor.start(chosen)))
            self.waiting.remove(job)

    def poll(self) -> None:
        """Take ended jobs off the list of running ones."""
        for job, handle in list(self.running):
            self.watcher.on_poll(job)
            if handle.running():
                continue
            self.running.remove((job, handle))
            result = handle.result()
            if result == "busy":  # another process was faster
                self.waiting.insert(0, job)
            elif result != "out of memory":
                self._end(job, result, handle.last_line())
            elif self.running:
                self.at_once = len(self.running)
                self.waiting.insert(0, job)
                self.watcher.on_out_of_memory(job, self.at_once)
            else:  # it had all the memory
                self._end(job, "failed", handle.last_line())

    def _end(self, job: Job, state: State, message: str = "") -> None:
        outcome = Outcome(job=job, state=state, message=message)
        self.outcomes[job.out] = outcome
        self.watcher.on_end(outcome)
