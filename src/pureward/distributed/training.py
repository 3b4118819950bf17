# SPDX-License-Identifier: Apache-2.0
"""A run as a job."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

from pureward.files import read_object, write_json
from pureward.runs.config import RunConfig
from pureward.runs.directory import RunDirectory, steps_made


@dataclass(frozen=True, kw_only=True)
class Training:
    """A run as a job; one that was stopped goes on from its newest checkpoint."""

    config: RunConfig
    after: tuple[Path, ...] = ()

    @property
    def out(self) -> Path:
        """The run directory."""
        return Path(self.config.out)

    @property
    def log(self) -> Path:
        """Where what it prints goes."""
        return RunDirectory(self.out).log

    def finished(self) -> bool:
        """Whether the run has come to the end that is asked of it."""
        status = RunDirectory(self.out).read_status()
        if status.get("state") != "finished":
            return False
        return bool(self.config.stop_at_return) or steps_made(status) >= self.config.env_steps

    def busy(self) -> bool:
        """Whether another process is at it."""
        return RunDirectory(self.out).in_use()

    def within(self, seconds: float) -> "Training":
        """The same job, to be stopped after so long."""
        return replace(self, config=replace(self.config, budget_seconds=seconds))

    def run(self) -> bool:
        """Train; whether it came to its end."""
        from pureward.training.loop import train

        began = time.monotonic()
        result = train(self.config, resume=RunDirectory(self.out).config.exists())
        whole = wall_seconds(self.out) + time.monotonic() - began
        write_json(RunDirectory(self.out).work, {"wall_seconds": round(whole, 1)})
        if result.state != "finished":
            print(f"{result.state} at {result.env_steps:,} env steps")
        return result.state == "finished"


def wall_seconds(run: Path) -> float:
    """How long a run has taken with everything, all its sittings together; 0 if nobody counted."""
    seconds = read_object(RunDirectory(run).work).get("wall_seconds")
    return seconds if isinstance(seconds, int | float) and seconds > 0 else 0.0
