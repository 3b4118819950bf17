# SPDX-License-Identifier: Apache-2.0
"""The training loop, and the entry point `train`."""

import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from pureward.data.guard import check_outside
from pureward.envs.making import check_importable
from pureward.errors import InputError
from pureward.files import write_json
from pureward.progress import Progress
from pureward.runs import checkpoint
from pureward.runs.config import RunConfig
from pureward.runs.config_file import check_config, to_json
from pureward.runs.directory import RunDirectory, step_of
from pureward.runs.log import read_metrics
from pureward.runs.machine import made_with
from pureward.runs.references import write_references
from pureward.training.run import Run
from pureward.training.stopping import StopSignal
from pureward.training.supervision import check_supervision


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """How a run ended."""

    path: Path
    state: str
    """ "finished", or "interrupted" by a signal or by its time budget."""
    env_steps: int
    evaluation: dict[str, float]
    """Summary of the last evaluation; empty if there was none."""


def train(config: RunConfig, *, resume: bool = False) -> RunResult:
    """Train a run in the directory `config.out`.

    Args:
        config: settings, for example from `pureward.preset`.
        resume: continue from the newest checkpoint of the directory.

    Raises:
        InputError: for bad settings, data or checkpoints.
        TrainingError: if a loss or a weight is NaN or infinite.
        SimulationError: if the simulation fails.
    """
    if not isinstance(config, RunConfig):
        raise InputError(
            f"a run is trained by its RunConfig, got {type(config).__name__}; "
            "make one with pureward.preset"
        )
    check_importable(config.task)  # before the directory is made
    for source in filter(None, (config.demonstrations, config.annotations, config.failures)):
        check_outside(Path(config.out), source)  # probes write images and videos
    directory = RunDirectory(Path(config.out))
    with directory, StopSignal() as stop, ExitStack() as opened:
        saved = _read_checkpoint(directory, config, resume)
        run: Run | None = None
        try:
            check_supervision(config)
            run = Run(config, directory, saved, opened)
            del saved  # an open file takes space on the disk even after it is pruned
            write_json(directory.config, to_json(config))
            write_references(directory, config)
            with run.log:
                state = "finished" if _loop(run, stop) else "interrupted"
            steps, found, made = run.env_steps, run.evaluation, made_with(run.env.device)
            directory.write_status(state, env_steps=steps, **found, made_with=made)
            return RunResult(path=directory.path, state=state, env_steps=steps, evaluation=found)
        except BaseException as error:
            learned = resume or (run is not None and run.learner.updates > 0)
            with suppress(OSError, InputError):  # a full disk must not hide the error
                if not (resume and isinstance(error, InputError)):
                    directory.write_status("failed", error=f"{type(error).__name__}: {error}")
                if not learned and isinstance(error, Exception) and not isinstance(error, OSError):
                    directory.clear()  # so that a corrected command can start here
            raise


def _loop(run: Run, stop: StopSignal) -> bool:
    """Train until the run is finished, stopped or out of time; return whether it is finished."""
    config, began = run.config, time.monotonic()

    def over() -> bool:
        budget = config.budget_seconds
        return stop.requested or bool(budget and time.monotonic() - began > budget)

    run.directory.write_status("running", env_steps=run.env_steps)
    print(run.learner.replay.describe())
    if run.is_new:
        with run.clock.paused():
            run.fit_reward_model(stop)
            if stop.requested:  # a partly fitted model is not saved
                return False
            run.write_snapshot()
            run.write_checkpoint()
    with Progress(
        total=config.env_steps,
        initial=run.env_steps,
        desc=f"{config.task} {config.method}",
        unit="step",
        unit_scale=True,
        smoothing=0.05,
    ) as bar:
        while not (stop.requested or run.finished()):
            if not run.step(over):
                break
            bar.update(config.worlds)
            run.every(config.log_every, run.write_metrics)
            run.every(config.probe_every, run.probe)
            run.every(config.snapshot_every, run.write_snapshot)
            run.every(config.evaluate_every, lambda: run.evaluate(bar))
            run.every(config.checkpoint_every, run.write_checkpoint)
            if over():
                break
        with run.clock.paused():
            if not stop.requested and run.evaluated_at != run.env_steps:
                run.evaluate(bar)
            if not stop.requested and config.probe_every and run.probed_at != run.env_steps:
                run.probe(apart=True)  # a verdict needs one
            run.write_snapshot()
            run.write_checkpoint()
    return run.finished()


def _read_checkpoint(
    directory: RunDirectory, config: RunConfig, resume: bool
) -> checkpoint.Checkpoint | None:
    """The checkpoint to resume from; None to start anew."""
    check_config(directory, config, resume)
    if not resume:
        return None
    directory.checkpoints.mkdir(exist_ok=True)
    saved = checkpoint.read_newest(directory.checkpoints)
    made = 0 if saved is None else step_of(saved.path) or 0
    if config.env_steps < made:
        raise InputError(
            f"env-steps must be at least the {made:,} that {directory.path} has made, got "
            f"{config.env_steps:,}; raise it"
        )
    if saved is None and directory.metrics.exists():
        measured = max((row["step"] for row in read_metrics(directory.metrics)), default=0)
        if measured:  # starting anew would delete the metrics
            raise InputError(
                f"{directory.path} has measured up to step {measured:,} and holds no complete "
                "checkpoint to resume from; restore its checkpoints or choose another directory"
            )
    return saved
