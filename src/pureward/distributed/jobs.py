# SPDX-License-Identifier: Apache-2.0
"""Jobs that need each other, several at once: what waits, what is at work, what became of it.

An `Executor` starts the jobs. "local" starts processes on this machine; one for a cluster (SLURM)
is a class with `at_once` and `start`, registered with `@EXECUTORS.register("mine")`. It must see
the jobs' folders under the same path.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from pureward.errors import TrainingError
from pureward.registry import Registry

_LOOK_EVERY = 0.5  # seconds between looks at how the work stands

Result = Literal["finished", "stopped", "failed", "crowded", "busy"]


class Job(Protocol):
    """Work that leaves a folder; doing it again goes on from where it was left."""

    @property
    def out(self) -> Path:
        """The folder."""
        ...

    @property
    def log(self) -> Path:
        """Where what it prints goes."""
        ...

    @property
    def after(self) -> Sequence[Path]:
        """Folders of other jobs that must be there first."""
        ...

    def finished(self) -> bool:
        """Whether there is nothing left to do."""
        ...

    def busy(self) -> bool:
        """Whether another process is at it, that is none of ours."""
        ...

    def run(self) -> bool:
        """Do it, in this process; whether it came to its end. A failure is raised."""
        ...


class Handle(Protocol):
    """A job that was started."""

    def running(self) -> bool:
        """Whether it is still at work."""
        ...

    def ended(self) -> Result:
        """How it ended; crowded if there was no memory for it, busy if another was at it."""
        ...

    def last_words(self) -> str:
        """The last line it printed."""
        ...

    def stop(self) -> None:
        """Ask for a checkpoint and an end."""
        ...

    def wait(self) -> None:
        """Wait until it has ended."""
        ...


class Executor(Protocol):
    """Starts jobs."""

    @property
    def at_once(self) -> int:
        """How many may be at work beside each other."""
        ...

    def start(self, job: Job) -> Handle:
        """Begin a job, or go on with it; called while fewer than `at_once` are at work."""
        ...


#: Name → function that makes an executor: called with device and at_once, by keyword.
EXECUTORS: Registry[Callable[..., Executor]] = Registry("executor")

State = Literal["found", "finished", "stopped", "failed", "blocked"]


@dataclass(frozen=True, kw_only=True)
class Ending:
    """What became of a job."""

    job: Job
    state: State
    """Found finished; finished now; stopped before its end, to be resumed; failed; or never
    begun, since something it needs is not there."""
    said: str = ""
    """Its last words, or what it waits for."""

    @property
    def well(self) -> bool:
        """Whether the work is there."""
        return self.state in ("found", "finished")


class Watcher(Protocol):
    """Follows the work, and may change or refuse what is to begin."""

    def begin(self, job: Job) -> Job | None:
        """The job as it shall be done, or None if there is no time for it."""
        ...

    def look(self, job: Job) -> None:
        """A job is at work."""
        ...

    def put_off(self, job: Job, room: int) -> None:
        """A job found no memory beside the others and waits; so many are at work at once now."""
        ...

    def wait_for(self, job: Job) -> bool:
        """Whether to wait, as another process is at a job; asked again and again."""
        ...

    def end(self, ending: Ending) -> None:
        """A job has ended; raising stops all others."""
        ...


def work_off(jobs: Sequence[Job], executor: Executor, watcher: Watcher) -> list[Ending]:
    """Do all jobs, each after those it needs; one that fails holds up only those that need it.

    One that finds no memory beside others waits until one of them has ended, and from then on no
    more are at work at once than there was room for. One that another process is at is left to it:
    found, if that comes to its end; gone on with, if not.

    Jobs that are finished are left alone. If this process is interrupted or the watcher raises,
    whatever is at work stops with a checkpoint.
    """
    fleet = _Fleet(list(jobs), executor, watcher)
    try:
        while fleet.waiting or fleet.working:
            fleet.start_what_can()
            if fleet.working or fleet.waiting:
                time.sleep(_LOOK_EVERY)
            fleet.look()
    except KeyboardInterrupt:
        raise TrainingError("interrupted; the runs can be resumed") from None
    finally:
        for _, handle in fleet.working:
            handle.stop()
        for _, handle in fleet.working:
            handle.wait()
    return [fleet.endings[job.out] for job in jobs]


@dataclass
class _Fleet:
    """Where each job stands."""

    waiting: list[Job]
    executor: Executor
    watcher: Watcher
    working: list[tuple[Job, Handle]] = field(default_factory=list)
    endings: dict[Path, Ending] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.outs = {job.out for job in self.waiting}
        self.room = self.executor.at_once

    def start_what_can(self) -> None:
        for job in list(self.waiting):
            needed = [self.endings.get(path) for path in job.after]
            lost = [e.job.out.name for e in needed if e is not None and not e.well]
            lost += [path.name for path in job.after if path not in self.outs]
            if job.finished():  # whatever became of what it once needed
                self._settle(job, "found")
            elif lost:
                self._settle(job, "blocked", f"waits for {', '.join(lost)}")
            elif None in needed or len(self.working) >= self.room:
                continue
            elif not job.busy():
                self._start(job)
            elif self.watcher.wait_for(job):
                continue
            else:
                self._settle(job, "stopped", "another process was at it when the time was over")
            self.waiting.remove(job)

    def look(self) -> None:
        for job, handle in list(self.working):
            self.watcher.look(job)
            if handle.running():
                continue
            self.working.remove((job, handle))
            ended = handle.ended()
            if ended == "busy":  # by one that was faster
                self.waiting.insert(0, job)
            elif ended != "crowded":
                self._settle(job, ended, handle.last_words())
            elif self.working:
                self._put_off(job)
            else:  # alone it had all the memory there is
                self._settle(job, "failed", handle.last_words())

    def _start(self, job: Job) -> None:
        chosen = self.watcher.begin(job)
        if chosen is None:
            self._settle(job, "stopped", "there was no time left to begin it")
        else:
            self.working.append((chosen, self.executor.start(chosen)))

    def _put_off(self, job: Job) -> None:
        self.room = len(self.working)
        self.waiting.insert(0, job)
        self.watcher.put_off(job, self.room)

    def _settle(self, job: Job, state: State, said: str = "") -> None:
        ending = Ending(job=job, state=state, said=said)
        self.endings[job.out] = ending
        self.watcher.end(ending)
