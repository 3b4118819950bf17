# SPDX-License-Identifier: Apache-2.0
"""Runs as jobs, and `train_all`, which trains several in parallel with a progress bar each."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from pureward.distributed.jobs import Job, Outcome, Watcher, make_executor, run_jobs
from pureward.errors import InputError, TrainingError
from pureward.files import read_object, write_json
from pureward.progress import Progress
from pureward.runs.config import RunConfig
from pureward.runs.config_file import differences, read_config
from pureward.runs.directory import RunDirectory, steps_made
from pureward.runs.log import read_metrics


@dataclass(frozen=True, kw_only=True)
class Training:
    """A run as a job; a stopped run resumes from its newest checkpoint."""

    config: RunConfig
    after: tuple[Path, ...] = ()

    @property
    def out(self) -> Path:
        """The run directory."""
        return Path(self.config.out)

    @property
    def log(self) -> Path:
        """The file for what it prints."""
        return RunDirectory(self.out).log

    def finished(self) -> bool:
        """Whether the run has finished, with the steps or the return of its settings."""
        status, goal = RunDirectory(self.out).read_status(), self.config.stop_at_return
        if status.get("state") != "finished":
            return False
        found = status.get("return")
        good_enough = bool(goal) and isinstance(found, int | float) and found >= goal
        return good_enough or steps_made(status) >= self.config.env_steps

    def busy(self) -> bool:
        """Whether another process uses the run directory."""
        return RunDirectory(self.out).in_use()

    def check_settings(self) -> None:
        """Raise InputError if the run directory holds a run with other settings."""
        place = RunDirectory(self.out)
        changed = differences(read_config(place), self.config) if place.config.exists() else []
        if changed:
            raise InputError(
                f"{self.out} was run with other settings ({', '.join(changed)}); choose another "
                "--out or move it away"
            )

    def within(self, seconds: float) -> "Training":
        """Return the same job with a time budget."""
        return replace(self, config=replace(self.config, budget_seconds=seconds))

    def run(self) -> bool:
        """Train in this process; return whether the run finished."""
        from pureward.training.loop import train

        began = time.monotonic()
        result = train(self.config, resume=RunDirectory(self.out).config.exists())
        total = wall_seconds(self.out) + time.monotonic() - began
        write_json(RunDirectory(self.out).work, {"wall_seconds": round(total, 1)})
        if result.state != "finished":
            print(f"{result.state} at {result.env_steps:,} env steps")
        return result.state == "finished"


def wall_seconds(run: Path) -> float:
    """Return the wall-clock seconds of a run over all resumes; 0 if not recorded."""
    seconds = read_object(RunDirectory(run).work).get("wall_seconds")
    return seconds if isinstance(seconds, int | float) and seconds > 0 else 0.0


def train_all(configs: Sequence[RunConfig], *, at_once: int = 2, executor: str = "local") -> None:
    """Train runs in parallel; finished runs are skipped, stopped runs resume.

    If a run fails, or this process is interrupted, the others stop with a checkpoint.

    Args:
        configs: of the runs, each with its own directory; their output goes to OUT/log.txt.
        at_once: how many run in parallel.
        executor: a name in `EXECUTORS`.
    """
    if not configs:
        return
    chosen = make_executor(executor, device=configs[0].device, at_once=at_once)
    with ExitStack() as stack:
        bars = {
            Path(config.out): stack.enter_context(
                Progress(
                    total=config.env_steps,
                    desc=f"{config.method:9}",
                    unit="step",
                    unit_scale=True,
                    position=position,
                    smoothing=0.1,
                )
            )
            for position, config in enumerate(configs)
        }
        run_jobs([Training(config=config) for config in configs], chosen, _Bars(bars))


@dataclass
class _Bars(Watcher):
    """A progress bar per run; the first failure stops all runs."""

    bars: dict[Path, Progress]

    def on_poll(self, job: Job) -> None:
        path, bar = RunDirectory(job.out).metrics, self.bars[job.out]
        rows = read_metrics(path) if path.exists() else []
        if not rows:
            return
        bar.update(rows[-1]["step"] - bar.n)
        returns = [row["return"] for row in rows if row["kind"] == "eval"]
        if returns:
            bar.set_postfix_str(f"true return {returns[-1]:.1f}")

    def on_out_of_memory(self, job: Job, at_once: int) -> None:
        self.bars[job.out].set_postfix_str("waits for memory")

    def on_busy(self, job: Job) -> bool:
        self.on_poll(job)
        self.bars[job.out].set_postfix_str("runs in another process")
        return True

    def on_end(self, outcome: Outcome) -> None:
        self.on_poll(outcome.job)
        if not outcome.succeeded:
            raise TrainingError(
                f"the run {outcome.job.out} {outcome.state} ({outcome.message}); see its log.txt"
            )
