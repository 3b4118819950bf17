# SPDX-License-Identifier: Apache-2.0
"""Several runs at once on one machine: a process and a progress bar each."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pureward.distributed.jobs import EXECUTORS, Ending, Job, work_off
from pureward.distributed.training import Training
from pureward.errors import TrainingError
from pureward.progress import Progress
from pureward.runs.config import RunConfig
from pureward.runs.directory import RunDirectory
from pureward.runs.log import read_metrics


def train_all(configs: Sequence[RunConfig], *, at_once: int = 2, executor: str = "local") -> None:
    """Train runs to their ends, some at a time; those that have ended are left alone.

    Runs that were stopped go on from their newest checkpoint. If one fails, or this process is
    interrupted, the others stop with a checkpoint.

    Args:
        configs: of the runs, each with its own directory; what they print goes to OUT/log.txt.
        at_once: how many run in parallel.
        executor: a name in `EXECUTORS`.
    """
    if not configs:
        return
    chosen = EXECUTORS[executor](device=configs[0].device, at_once=at_once)
    jobs = [Training(config=config) for config in configs]
    with ExitStack() as stack:
        bars = [stack.enter_context(_bar(config, at)) for at, config in enumerate(configs)]
        watcher = _Bars({job.out: bar for job, bar in zip(jobs, bars, strict=True)})
        work_off(jobs, chosen, watcher)


def _bar(config: RunConfig, position: int) -> Progress:
    return Progress(
        total=config.env_steps,
        desc=f"{config.method:9}",
        unit="step",
        unit_scale=True,
        position=position,
        smoothing=0.1,
    )


@dataclass
class _Bars:
    """A progress bar a run; the first failure ends everything."""

    bars: dict[Path, Progress]

    def begin(self, job: Job) -> Job:
        return job

    def look(self, job: Job) -> None:
        path, bar = RunDirectory(job.out).metrics, self.bars[job.out]
        rows = read_metrics(path) if path.exists() else []
        if not rows:
            return
        bar.update(rows[-1]["step"] - bar.n)
        returns = [row["return"] for row in rows if row["kind"] == "eval"]
        if returns:
            bar.set_postfix_str(f"true return {returns[-1]:.1f}")

    def put_off(self, job: Job, room: int) -> None:
        self.bars[job.out].set_postfix_str("waits for memory")

    def wait_for(self, job: Job) -> bool:
        self.look(job)
        self.bars[job.out].set_postfix_str("done by another process")
        return True

    def end(self, ending: Ending) -> None:
        self.look(ending.job)
        if not ending.well:
            raise TrainingError(
                f"the run {ending.job.out} {ending.state} ({ending.said}); its log.txt tells more"
            )
