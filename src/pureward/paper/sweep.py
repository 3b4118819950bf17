# SPDX-License-Identifier: Apache-2.0
"""Does the steps of a plan: within a budget, told line by line, whatever fails on the way."""

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from pureward.distributed.jobs import Ending, Executor, Job, work_off
from pureward.distributed.processes import LocalProcesses
from pureward.distributed.training import Training
from pureward.envs import find_device
from pureward.errors import InputError
from pureward.paper.plan import Plan

#: Share of a budget that experts may take; what they leave is the runs'.
EXPERTS = 0.5
#: What is kept of a run's turn for its start and its last evaluation: a share, and at most so many
#: seconds.
RESERVE, LONGEST_RESERVE = 0.2, 60.0


def carry_out(plan: Plan, executor: Executor, *, budget_minutes: float = 0.0) -> list[Ending]:
    """Do what is left of a plan; returns what became of each step.

    Args:
        plan: of a figure.
        executor: who does the steps.
        budget_minutes: for everything together; 0 sets no limit. Runs that are stopped by it can
            be resumed, and have measured what they have.
    """
    check_budget(budget_minutes)
    left = [step for step in plan.steps if not step.finished()]
    trained = [bool(step.after) for step in left if isinstance(step, Training)]
    budget = None
    if budget_minutes:
        budget = Budget(
            60.0 * budget_minutes,
            experts=trained.count(False),
            runs=trained.count(True),
            at_once=executor.at_once,
        )
    return work_off(plan.steps, executor, _Told(plan.out, len(left), budget))


def check_budget(minutes: float) -> None:
    """Refuse what is no time for a plan."""
    if not 0 <= minutes < math.inf:
        raise InputError(f"budget must be a number of minutes, got {minutes}; 0 sets none")


def local_executor(device: str, at_once: int = 0) -> LocalProcesses:
    """Processes of this machine: one a GPU, or one a core where there is none.

    Args:
        device: of the runs.
        at_once: processes that share a GPU, or the cores; 0 is one a GPU, or one a core.
    """
    if at_once < 0:
        raise InputError(f"at-once must be at least 1, got {at_once}; leave it out for one a GPU")
    cores = len(os.sched_getaffinity(0))
    if find_device(device).type == "cpu":
        places: Sequence[str | None] = (None,) * (at_once or cores)
    elif ":" in device:  # a GPU that was named keeps its number
        places = (None,) * (at_once or 1)
    else:
        places = [gpu for _ in range(at_once or 1) for gpu in visible_gpus()]
    return LocalProcesses(places=places, threads=max(1, cores // len(places)))


def visible_gpus() -> list[str]:
    """The GPUs of this process, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",") if named else [str(n) for n in range(torch.cuda.device_count())]


class Budget:
    """Time for a plan, dealt out evenly: runs that are to be compared get the same."""

    def __init__(
        self,
        seconds: float,
        *,
        experts: int,
        runs: int,
        at_once: int,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin to count.

        Args:
            seconds: for everything.
            experts: how many are left to train.
            runs: how many are left, experts not counted.
            at_once: how many of them are at work beside each other.
            now: the clock.
        """
        self.at_once = at_once
        self._now = now
        self._experts_end, self._end = now() + EXPERTS * seconds, now() + seconds
        self._experts, self._runs = _Turns(experts), _Turns(runs)
        self._share = math.inf

    def for_expert(self, out: Path) -> float:
        """Seconds of an expert that begins now."""
        return self._experts.next(out, self._experts_end - self._now(), self.at_once)

    def over(self) -> bool:
        """Whether nothing is left."""
        return self._now() >= self._end

    def for_run(self, out: Path) -> float:
        """Seconds of a run that begins now: what the first was given, or less if time ran short."""
        turn = self._runs.next(out, self._end - self._now(), self.at_once)
        if math.isinf(self._share):
            self._share = turn - min(RESERVE * turn, LONGEST_RESERVE)
        return min(self._share, turn)


class _Turns:
    """Equal turns of the time that is left; who begins once more has no second one."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._begun: set[Path] = set()

    def next(self, out: Path, seconds: float, at_once: int) -> float:
        """Seconds for a job, if those that have not begun share what is left with it."""
        waiting = self._jobs - len(self._begun - {out})
        self._begun.add(out)
        return seconds / max(1, math.ceil(waiting / at_once))


@dataclass
class _Told:
    """A line at the beginning and at the end of each step."""

    out: Path
    total: int
    budget: Budget | None
    begun: dict[Path, float] = field(default_factory=dict)
    elsewhere: set[Path] = field(default_factory=set)
    ended: int = 0

    def begin(self, job: Job) -> Job | None:
        if self.budget is not None and isinstance(job, Training):
            turn = self.budget.for_run if job.after else self.budget.for_expert
            seconds = turn(job.out)
            if seconds < 1.0:
                return None
            job = job.within(seconds)
        self.begun[job.out] = time.monotonic()
        print(f"  begin {self._name(job)}", flush=True)
        return job

    def look(self, job: Job) -> None:
        pass

    def put_off(self, job: Job, room: int) -> None:
        if self.budget is not None:
            self.budget.at_once = room
        print(f"  {self._name(job)} found no memory and waits; fewer run at once now", flush=True)

    def wait_for(self, job: Job) -> bool:
        if job.out not in self.elsewhere:
            self.elsewhere.add(job.out)
            print(f"  {self._name(job)} is left to another process that is at it", flush=True)
        return self.budget is None or not self.budget.over()

    def end(self, ending: Ending) -> None:
        done_elsewhere = ending.state == "found" and ending.job.out in self.elsewhere
        if ending.state in ("found", "blocked") and not done_elsewhere:
            return  # nothing was done
        self.ended += 1
        took = ""
        if ending.job.out in self.begun:
            took = f" after {time.monotonic() - self.begun[ending.job.out]:.0f} s"
        said = "" if ending.well else f": {ending.said}"
        name = self._name(ending.job)
        print(f"  [{self.ended}/{self.total}] {name} {ending.state}{took}{said}", flush=True)

    def _name(self, job: Job) -> str:
        return str(job.out.relative_to(self.out))
