# SPDX-License-Identifier: Apache-2.0
"""A fit in a folder: its bar, metrics, checkpoints, plot and verdict."""

import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from pureward.diagnostics.verdict import Verdict
from pureward.errors import InputError, counted, lacks_memory
from pureward.offline.fitter import Fitter
from pureward.offline.picture import draw_fit
from pureward.offline.verdict import fit_verdict
from pureward.progress import Progress
from pureward.rewards.learned import LearnedReward
from pureward.rewards.saved import load_reward
from pureward.runs import checkpoint
from pureward.runs.directory import RunDirectory
from pureward.runs.log import MetricsLog, read_metrics
from pureward.runs.machine import made_with
from pureward.training.fitting import fit_until_stopped
from pureward.training.stopping import StopSignal

_AT_ONCE = 10  # updates between two looks at a stop signal
_ESTIMATE_EVERY = 250  # updates between two estimates of η, at most
_ESTIMATES = 10  # fewest estimates of η in a fit; a probe and a checkpoint follow every second one


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """How a fit ended."""

    path: Path
    """Folder with the reward, for `load_reward`, and metrics.jsonl, fit.png and status.json."""
    state: str
    """ "finished", or "interrupted" by a signal; then the same call continues."""
    updates: int
    verdict: Verdict | None
    """None if it was interrupted."""

    def reward(self, device: str = "cpu") -> LearnedReward:
        """Load the fitted reward."""
        return load_reward(self.path, device=device)


@dataclass
class FitFolder:
    """A fit in a folder: bar, metrics, checkpoints, plot and verdict."""

    directory: RunDirectory
    fitter: Fitter
    total: int
    """Updates of D at the end."""
    stop: StopSignal
    saved: checkpoint.Checkpoint | None
    seconds: float = 0.0
    began: float = field(default_factory=time.monotonic)

    def run(self) -> Fitted:
        """Fit, or continue, and write the result."""
        offset = 0 if self.saved is None else self._restore(self.saved)
        files = self.directory.metrics, self.directory.events
        with MetricsLog(*files, offset=offset, step=self.fitter.updates) as self.log:
            self._write_status("running")
            if self.saved is None and not self._fit_model():
                return self._end("interrupted")
            self._learn()
        return self._end("interrupted" if self.fitter.updates < self.total else "finished")

    def _restore(self, saved: checkpoint.Checkpoint) -> int:
        """Load the checkpoint; return the size that the metrics file had, in bytes."""
        try:
            self.fitter.load_tensors(saved.tensors)
            self.seconds = float(saved.facts["seconds"])
            offset = int(saved.facts["metrics_bytes"])
            if not (0 <= self.seconds < math.inf and offset >= 0 and self.fitter.updates >= 0):
                raise ValueError("its numbers are out of range")
        except (LookupError, TypeError, ValueError, OverflowError, RuntimeError) as error:
            if lacks_memory(error):
                raise
            raise InputError(
                f"checkpoint {saved.path} does not fit these data ({error}); delete "
                f"{self.directory.path} to begin again"
            ) from error
        done = counted(self.fitter.updates, "update")
        if self.fitter.updates < self.total:
            print(f"continuing after {done}")
        else:
            print(f"this fit had finished after {done}, so nothing was trained")
        return offset

    def _fit_model(self) -> bool:
        """Fit r_φ if the method has one; False if a stop was requested."""
        model = self.fitter.learner.model
        if model is not None:
            errors = fit_until_stopped(model, self.fitter.fit_model, self.stop)
            if errors is None:
                return False
            self._write("model", errors)
        if self.fitter.has_discriminator:  # the plot begins before the first update
            self._write("train", self.fitter.prior())
            self._write("probe", self.fitter.probe())
        self._keep()
        return True

    def _learn(self) -> None:
        fitter, every = self.fitter, min(_ESTIMATE_EVERY, max(1, self.total // _ESTIMATES))
        with Progress(
            total=self.total, initial=fitter.updates, desc=fitter.method, unit="update"
        ) as bar:
            while fitter.updates < self.total and not self.stop.requested:
                until = min(self.total, (fitter.updates // every + 1) * every)
                metrics = []
                while fitter.updates < until and not self.stop.requested:
                    metrics.append(fitter.learn(min(_AT_ONCE, until - fitter.updates)))
                    bar.update(fitter.updates - bar.n)
                if fitter.updates == until:
                    means = {n: fmean(row[n] for row in metrics) for n in metrics[0]}
                    self._write("train", means | fitter.learner.update_prior())
                    if until == self.total or until // every % 2 == 0:
                        self._write("probe", fitter.probe())
                        self._keep()
        if not fitter.has_discriminator:
            self._write("probe", fitter.probe())
        self._keep()

    def _keep(self) -> None:
        """Write a checkpoint and the reward as it is."""
        facts = {"seconds": self._clock(), "metrics_bytes": self.log.offset()}
        folder = self.directory.checkpoints
        checkpoint.write(folder, self.fitter.updates, self.fitter.tensors(), facts)
        self.fitter.learner.save(self.directory.reward)
        self._write_status("running")
        checkpoint.prune(folder, 1)

    def _write(self, kind: str, values: dict[str, float]) -> None:
        self.directory.check_place()
        self.log.write(kind, self.fitter.updates, values | {"seconds": self._clock()})

    def _write_status(self, state: str, **facts: Any) -> None:
        asked = {"updates": self.fitter.updates, "updates_asked": self.total}
        self.directory.write_status(state, **asked, **facts)

    def _clock(self) -> float:
        return self.seconds + time.monotonic() - self.began

    def _end(self, state: str) -> Fitted:
        fitter, path = self.fitter, self.directory.path
        verdict = None
        if state == "finished":
            rows = read_metrics(self.directory.metrics)
            verdict = fit_verdict(
                rows,
                fitter.method,
                held_out=fitter.held_out,
                logs=fitter.probed_logs,
                positives=fitter.positives,
                rewards=fitter.reward_range(),
                given=fitter.given,
            )
            draw_fit(fitter, path / "fit.png")
        told = {} if verdict is None else {"verdict": verdict.name, "sentence": verdict.sentence}
        made = made_with(fitter.logs.device)
        self._write_status(state, seconds=self._clock(), **told, made_with=made)
        return Fitted(path=path, state=state, updates=fitter.updates, verdict=verdict)
