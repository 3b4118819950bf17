# SPDX-License-Identifier: Apache-2.0
"""Several runs at once on one machine: a process and a progress bar each."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

from tqdm import tqdm

from pureward.errors import InputError, TrainingError
from pureward.run.config import RunConfig
from pureward.run.directory import RunDirectory
from pureward.run.log import read_metrics

_LOOK_EVERY = 0.5  # seconds between looks at how the runs stand
# Fork would copy threads and locks of torch half-way; a new interpreter has none.
_CONTEXT = multiprocessing.get_context("spawn")


def train_all(configs: Sequence[RunConfig], *, at_once: int = 2, threads: int = 1) -> None:
    """Train runs to their ends, some at a time; those that have ended are left alone.

    Runs that were stopped go on from their newest checkpoint. If one fails, or this process is
    interrupted, the others stop with a checkpoint.

    Args:
        configs: of the runs, each with its own directory; what they print goes to OUT/log.txt.
        at_once: processes beside each other.
        threads: of each process.
    """
    waiting = [_Member(config, position) for position, config in enumerate(configs)]
    working: list[_Member] = []
    with ExitStack() as bars:
        for member in waiting:
            bars.enter_context(member.bar)
        waiting = [member for member in waiting if not member.finished()]
        try:
            while waiting or working:
                while waiting and len(working) < at_once:
                    working.append(waiting.pop(0))
                    working[-1].start(threads)
                time.sleep(_LOOK_EVERY)
                working = [member for member in working if not member.look()]
        except KeyboardInterrupt:
            raise TrainingError("interrupted; the runs can be resumed") from None
        finally:
            for member in working:
                member.stop()


@dataclass
class _Member:
    """One run, its process and its bar."""

    config: RunConfig
    position: int
    bar: tqdm = field(init=False)
    process: SpawnProcess | None = None

    def __post_init__(self) -> None:
        self.directory = RunDirectory(Path(self.config.out))
        self.bar = tqdm(
            total=self.config.env_steps,
            desc=f"{self.config.method:9}",
            unit="step",
            unit_scale=True,
            position=self.position,
            smoothing=0.1,
        )

    def finished(self) -> bool:
        """Whether the run has come to its end, which the bar then shows."""
        done = self.directory.read_status().get("state") == "finished"
        if done:
            self._show()
        return done

    def start(self, threads: int) -> None:
        """Begin, or go on."""
        self.directory.path.mkdir(parents=True, exist_ok=True)
        self.process = _CONTEXT.Process(target=_train, args=(self.config, threads))
        self.process.start()

    def look(self) -> bool:
        """Bring the bar up to date; whether the run has ended well. A failure is raised."""
        assert self.process is not None
        self._show()
        if self.process.is_alive():
            return False
        self._show()
        if self.process.exitcode != 0:
            raise TrainingError(
                f"the run {self.config.out} stopped with code {self.process.exitcode} "
                f"({_last_line(_log_file(self.config))}); its log.txt tells more"
            )
        return True

    def stop(self) -> None:
        """Ask for a checkpoint and an end, and wait for them."""
        if self.process is not None:
            self.process.terminate()
            self.process.join()

    def _show(self) -> None:
        path = self.directory.metrics
        rows = read_metrics(path) if path.exists() else []
        if not rows:
            return
        self.bar.update(rows[-1]["step"] - self.bar.n)
        returns = [row["return"] for row in rows if row["kind"] == "eval"]
        if returns:
            self.bar.set_postfix_str(f"true return {returns[-1]:.1f}")


def _train(config: RunConfig, threads: int) -> None:
    """What a process does: everything it says goes to the log, and it ends with its parent."""
    import torch

    from pureward.run.loop import train

    with _log_file(config).open("ab") as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    begun = RunDirectory(Path(config.out)).config.exists()
    try:
        result = train(config, resume=begun)
    except (InputError, TrainingError) as error:
        sys.exit(str(error))
    if result.state != "finished":
        sys.exit(f"{result.state} at {result.env_steps} env steps")


def _end_with_parent() -> None:
    """A parent that was killed can stop nobody; its child sees it go and stops by itself."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


def _log_file(config: RunConfig) -> Path:
    return Path(config.out) / "log.txt"


def _last_line(path: Path) -> str:
    text = path.read_text(errors="replace") if path.exists() else ""
    told = [line for line in text.replace("\r", "\n").splitlines() if line.strip()]
    return told[-1].strip() if told else "it said nothing"
