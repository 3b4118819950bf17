# SPDX-License-Identifier: Apache-2.0
"""Collect, learn, evaluate: one process, one device, and nothing lost when it stops."""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pureward.envs import BatchEnv, make
from pureward.errors import InputError, lacks_memory
from pureward.progress import Progress
from pureward.rewards.methods import METHODS
from pureward.rewards.regression import Pass
from pureward.runs import checkpoint
from pureward.runs.config import RunConfig
from pureward.runs.config_file import check_config, write_config
from pureward.runs.directory import RunDirectory, kept_steps, step_name, step_of
from pureward.runs.log import MetricsLog, read_metrics
from pureward.runs.machine import made_with
from pureward.runs.policy import write_snapshot
from pureward.training.evaluate import evaluate, film
from pureward.training.learner import Learner
from pureward.training.restored import check_tensors, read_progress
from pureward.training.stopping import StopSignal
from pureward.training.stopwatch import Stopwatch
from pureward.training.supervision import check_supervision
from pureward.training.truth import Truth

_FILMED_WORLDS = 4
# Evaluation draws its own first states, the same at every evaluation of a run.
_EVALUATION_SEED = 1_000_003


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """How a run ended."""

    path: Path
    state: str
    """ "finished", or "interrupted" by a signal or by its time budget."""
    env_steps: int
    evaluation: dict[str, float]
    """The last evaluation's summary; empty if there was none."""


def train(config: RunConfig, *, resume: bool = False) -> RunResult:
    """Train as configured in `config.out`; with `resume`, go on from its newest checkpoint."""
    if not isinstance(config, RunConfig):
        raise InputError(
            f"a run is trained by its RunConfig, got {type(config).__name__}; "
            "make one with pureward.preset"
        )
    with RunDirectory(Path(config.out)) as directory, StopSignal() as stop:
        saved = _open(directory, config, resume)
        run: _Run | None = None
        try:
            check_supervision(config)
            run = _Run(config, directory, saved)
            write_config(directory, config)
            return run.to_the_end(stop)
        except BaseException as error:
            refused = isinstance(error, InputError)
            learned = resume or (run is not None and run.learner.updates > 0)
            with suppress(OSError, InputError):  # a full disk must not hide what went wrong
                if not (resume and refused):  # a run that is not gone on with stands as it stood
                    directory.write_status("failed", error=f"{type(error).__name__}: {error}")
                if not learned and isinstance(error, Exception) and not isinstance(error, OSError):
                    directory.forget()  # so that a corrected command may begin here
            raise


def _open(directory: RunDirectory, config: RunConfig, resume: bool) -> checkpoint.Checkpoint | None:
    check_config(directory, config, resume)
    if not resume:
        return None
    directory.checkpoints.mkdir(exist_ok=True)
    saved = checkpoint.read_newest(directory.checkpoints)
    kept = saved is None and directory.metrics.exists()
    measured = (
        max((row["step"] for row in read_metrics(directory.metrics)), default=0) if kept else 0
    )
    if measured:  # beginning anew would delete what was measured
        raise InputError(
            f"{directory.path} has measured up to step {measured:,} and holds no complete "
            "checkpoint to go on from; bring its checkpoints back or choose another directory"
        )
    return saved


class _StoppedError(Exception):
    """Somebody asked the run to end."""


class _Run:
    """The state of a run between two steps, and how it goes on."""

    def __init__(
        self, config: RunConfig, directory: RunDirectory, saved: checkpoint.Checkpoint | None
    ):
        self.config = config
        self.directory = directory
        seen = config.needs_frames
        self.env = self._make(config.worlds, seed=config.seed, cameras=seen, stagger=True)
        self.learner = Learner(config, self.env)
        self.judge = self._make(config.evaluate_episodes, cameras=seen)
        self.obs = self.env.reset()
        self.fresh = saved is None
        self.control_steps = 0
        self.clock = Stopwatch(self.env.device)
        self.evaluation: dict[str, float] = {}
        self.evaluated_at = -1
        self.truth = Truth(
            rows=self.learner.replay.layout.rows,
            worlds=self.env.worlds,
            device=self.env.device,
            staggered=self.env.stagger,
            remembers=METHODS[config.method].has_discriminator and config.reward.memory > 0,
        )
        measured = self._restore(saved) if saved else 0
        self.log = MetricsLog(
            directory.metrics,
            directory.events,
            offset=measured,
            step=self.env_steps,
        )

    def _make(self, worlds: int, **options: Any) -> BatchEnv:
        """Worlds of the run's task, with what lies about in them."""
        config = self.config
        lying_about = config.distractors or None
        return make(config.task, worlds, config.device, distractors=lying_about, **options)

    @property
    def env_steps(self) -> int:
        return self.control_steps * self.config.worlds

    def to_the_end(self, stop: StopSignal) -> RunResult:
        """Train until the run has its steps, its return or its time, or is asked to stop."""
        began = time.monotonic()
        self.directory.write_status("running", env_steps=self.env_steps)
        print(self.learner.replay.describe())
        with self.log:
            if self.fresh and not self._prepare(stop):
                return self._end("interrupted")
            return self._end("finished" if self._learn(stop, began) else "interrupted")

    def _prepare(self, stop: StopSignal) -> bool:
        """Fit what is fitted before, and keep it; not where that was stopped half-way."""
        with self.clock.paused():
            self._fit(stop)
        if not stop.asked:
            self._snapshot()
            self._checkpoint()
        return not stop.asked

    def _learn(self, stop: StopSignal, began: float) -> bool:
        """Step and learn; whether the run came to its end."""
        config = self.config
        with self._progress() as bar:
            while not (stop.asked or self._came_to_its_end()):
                self._step()
                bar.update(config.worlds)
                self._due(config.log_every, self._log)
                self._due(config.probe_every, self._probe)
                self._due(config.snapshot_every, self._snapshot)
                self._due(config.evaluate_every, lambda: self._evaluate(bar))
                self._due(config.checkpoint_every, self._checkpoint)
                if config.budget_seconds and time.monotonic() - began > config.budget_seconds:
                    break
            if not stop.asked and self.evaluated_at != self.env_steps:
                self._evaluate(bar)
            self._snapshot()
            self._checkpoint()
        return self._came_to_its_end()

    def _end(self, state: str) -> RunResult:
        self.directory.write_status(
            state,
            env_steps=self.env_steps,
            **self.evaluation,
            made_with=made_with(self.env.device),
        )
        return RunResult(
            path=self.directory.path,
            state=state,
            env_steps=self.env_steps,
            evaluation=self.evaluation,
        )

    def _step(self) -> None:
        """One control step of every world, and the updates that go with it."""
        warm = self.env_steps >= self.config.warmup_steps
        action = self.learner.act(self.obs.state, at_random=not warm)
        step = self.env.step(action)
        self.learner.remember(self.obs, action, step)
        self.obs = step.obs
        self.truth.count(step)
        self.control_steps += 1
        # Counted in the replay: a run resumed without one fills it again before it learns.
        if self.learner.replay.steps_added >= self.config.warmup_steps:
            self.learner.learn()
        else:
            self.learner.prepare()

    def _came_to_its_end(self) -> bool:
        goal = self.config.stop_at_return
        good_enough = bool(goal) and self.evaluation.get("return", -math.inf) >= goal
        return good_enough or self.env_steps >= self.config.env_steps

    def _due(self, every: int, act: Callable[[], Any]) -> None:
        """Act when this step crossed a multiple of so many env steps."""
        if every and self.env_steps // every > (self.env_steps - self.config.worlds) // every:
            with self.clock.paused():
                act()

    def _fit(self, stop: StopSignal) -> None:
        """Train what the method trains before the policy: its reward model, unless stopped."""
        method = METHODS[self.config.method]
        if not method.has_reward_model:
            return
        total = self.config.reward.model.epochs * method.members
        with Progress(total=total, desc="reward model", unit="pass", leave=False) as bar:

            def show(done: Pass) -> None:
                bar.update()
                bar.set_postfix(error=done.fitting_error, held_out=done.held_out_error)
                held_out = {} if done.held_out_error is None else {"held_out": done.held_out_error}
                values = {"member": done.member, "epoch": done.epoch, "error": done.fitting_error}
                self._write("fit", values | held_out)
                if stop.asked:
                    raise _StoppedError

            try:
                report = self.learner.reward.fit(show)
            except _StoppedError:
                return
        torch.cuda.empty_cache()  # what the fit took is for the runs beside; on a CPU, nothing
        if report is not None:
            held_out = report.held_out_error
            told = "" if held_out is None else f", {held_out:.4f} on episodes it never saw"
            print(f"reward model: mean squared error {report.train_error:.4f}{told}")

    def _probe(self) -> None:
        solved = self.truth.solved_frames(self.learner.replay, self.config.probe_frames)
        found = self.learner.reward.probe(solved)
        if found:
            self._write("probe", found | {"seconds": self.clock.read()})

    def _log(self) -> None:
        values = self.learner.read_metrics()
        values |= self.learner.reward.follow(min(1.0, self.env_steps / self.config.env_steps))
        values |= self.truth.read()
        values["updates"] = self.learner.updates
        values["seconds"] = self.clock.read()
        self._write("train", values)

    def _write(self, kind: str, values: dict[str, float]) -> None:
        self.directory.check_place()
        self.log.write(kind, self.env_steps, values)

    def _evaluate(self, bar: Progress) -> None:
        greedy, seconds = self.learner.agent.act, self.clock.read()
        result = evaluate(
            self.judge,
            greedy,
            seed=self.config.seed + _EVALUATION_SEED,
            reward=self.learner.reward.learned,
            frame_stack=self.config.replay.frame_stack,
        )
        self.evaluation = result.summary()
        learned = self.learner.reward.learned
        if learned is not None and learned.members:
            self.evaluation |= result.reward_error(learned.zero)
        self.evaluated_at = self.env_steps
        values = self.evaluation | {"updates": self.learner.updates, "seconds": seconds}
        self._write("eval", values)
        bar.set_postfix_str(f"return {self.evaluation['return']:.1f}")
        if self.config.videos:
            self.directory.check_place()
            stage = self._make(_FILMED_WORLDS, cameras=True)
            path = self.directory.videos / f"{step_name(self.env_steps)}.mp4"
            film(stage, greedy, path, seed=self.config.seed)

    def _snapshot(self) -> None:
        self.directory.check_place()
        write_snapshot(self.directory.snapshots, self.env_steps, self.learner.agent)

    def _progress(self) -> Progress:
        return Progress(
            total=self.config.env_steps,
            initial=self.env_steps,
            desc=f"{self.config.task} {self.config.method}",
            unit="step",
            unit_scale=True,
            smoothing=0.05,
        )

    def _checkpoint(self) -> None:
        """Everything there is to go on from; refuses to keep numbers that are none."""
        self.directory.check_place()
        self.learner.check()
        self.env.check()
        facts = {
            "control_steps": self.control_steps,
            "seconds": self.clock.read(),
            "evaluation": self.evaluation,
            "evaluated_at": self.evaluated_at,
            "metrics_bytes": self.log.offset(),
        }
        folder = self.directory.checkpoints
        checkpoint.write(folder, self.env_steps, self._tensors(), facts)
        self.learner.reward.save(self.directory.reward)
        checkpoint.prune(folder, self.config.keep_checkpoints)

    def _tensors(self) -> dict[str, Tensor]:
        """All tensors of a checkpoint, by name."""
        return {
            **checkpoint.flattened("learner", self.learner.state_dict()),
            **checkpoint.flattened("env", self.env.state_dict()),
            **self.truth.tensors(with_replay=self.config.save_replay),
        }

    def _forget_the_future(self) -> None:
        """Delete policies and films from after the checkpoint: this run will not have made them."""
        for folder in (self.directory.snapshots, self.directory.videos):
            for path in kept_steps(folder):
                if (step_of(path) or 0) > self.env_steps:
                    path.unlink()

    def _restore(self, saved: checkpoint.Checkpoint) -> int:
        """Go on from a checkpoint; returns the size that the metrics had there."""
        check_tensors(saved, self._tensors(), self.learner, self.env)
        tensors = saved.tensors
        try:
            done = read_progress(saved, self.config.worlds)
            self.learner.load_state_dict(checkpoint.under("learner", tensors))
            self.obs = self.env.load_state_dict(checkpoint.under("env", tensors))
            self.truth.load_tensors(tensors)
        except (KeyError, TypeError, ValueError, OverflowError, RuntimeError) as error:
            if lacks_memory(error):
                raise
            raise InputError(
                f"checkpoint {saved.path} does not fit the run's settings ({error}); restore the "
                "config.json it was written with, or delete it to go on from an older one"
            ) from error
        self.control_steps, self.evaluated_at = done.control_steps, done.evaluated_at
        self.evaluation = done.evaluation
        self.clock.set(done.seconds)
        self._forget_the_future()
        return done.metrics_bytes
