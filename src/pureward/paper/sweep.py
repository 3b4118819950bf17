# SPDX-License-Identifier: Apache-2.0
"""Runs the steps of a plan within a time budget."""

import math
import time
from collections.abc import Callable, Iterable

from pureward.distributed.jobs import Executor, Job, Outcome, Printer, run_jobs
from pureward.distributed.training import Training
from pureward.errors import InputError
from pureward.paper.plan import Plan

#: Share of a budget for experts; runs get what they leave.
EXPERTS = 0.5
#: Part of a run's turn kept for its start and last evaluation: a share, and the most seconds.
RESERVE, LONGEST_RESERVE = 0.2, 60.0


def carry_out(plan: Plan, executor: Executor, *, budget_minutes: float = 0.0) -> list[Outcome]:
    """Run the unfinished steps of a plan and return how each step ended.

    Args:
        plan: of a figure.
        executor: starts the steps.
        budget_minutes: for all steps together, 0 for no limit; runs that it stops can be resumed.
    """
    check_budget(budget_minutes)
    left = [s for s in plan.steps if isinstance(s, Training) and not s.finished()]
    budget = Budget(60.0 * budget_minutes or math.inf, left, executor.at_once)
    return run_jobs(plan.steps, executor, _Budgeted(plan, budget))


def check_budget(minutes: float) -> None:
    """Raise InputError unless a budget is finite and not negative."""
    if not 0 <= minutes < math.inf:
        raise InputError(f"budget must be a number of minutes, got {minutes}; 0 sets none")


class Budget:
    """Divides the time for a plan evenly, so that runs that are compared get the same time.

    Args:
        seconds: for all steps; infinite for no limit.
        steps: experts and runs left to train.
        at_once: number of steps that run in parallel.
        now: the clock, which starts with the budget.
    """

    def __init__(
        self,
        seconds: float,
        steps: Iterable[Training],
        at_once: int,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.at_once, self._now = at_once, now
        self._experts_end, self._end = now() + EXPERTS * seconds, now() + seconds
        self._waiting = {step.out: bool(step.after) for step in steps}
        self._share = math.inf

    def over(self) -> bool:
        """Whether no time is left."""
        return self._now() >= self._end

    def turn(self, step: Training) -> float:
        """Return the seconds for a step that starts now; a run gets no more than the first run."""
        is_run = bool(step.after)
        self._waiting.pop(step.out, None)
        sharing = 1 + sum(waits == is_run for waits in self._waiting.values())
        end = self._end if is_run else self._experts_end
        seconds = (end - self._now()) / math.ceil(sharing / self.at_once)
        if is_run and math.isinf(self._share):
            self._share = seconds - min(RESERVE * seconds, LONGEST_RESERVE)
        return min(self._share, seconds) if is_run else seconds


class _Budgeted(Printer):
    """Gives each step its time."""

    def __init__(self, plan: Plan, budget: Budget) -> None:
        super().__init__(plan.out, plan.steps)
        self.budget = budget

    def on_start(self, job: Job) -> Job | None:
        if isinstance(job, Training) and (seconds := self.budget.turn(job)) < math.inf:
            if seconds < 1.0:
                return None
            job = job.within(seconds)
        return super().on_start(job)

    def on_out_of_memory(self, job: Job, at_once: int) -> None:
        self.budget.at_once = at_once
        super().on_out_of_memory(job, at_once)

    def on_busy(self, job: Job) -> bool:
        return super().on_busy(job) and not self.budget.over()
