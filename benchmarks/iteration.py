# SPDX-License-Identifier: Apache-2.0
"""Where the time of a training iteration goes: each part alone, and all of them together.

    python benchmarks/iteration.py lift --data datasets --out iteration.json
    python benchmarks/iteration.py lift --at-once 6     # env steps/s of six runs that share the GPU

An iteration is one control step of every world with the updates that go with it, in the preset
`fast`. A part is timed alone, with the device idle before and after. In the whole iteration the
simulation goes on beside the learning, so the whole may be shorter than the sum.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from queue import Empty
from typing import Annotated, Literal

import torch
import tyro

from pureward.distributed.children import CONTEXT
from pureward.envs.simulated import TaskEnv
from pureward.files import write_json
from pureward.runs.config_file import with_settings
from pureward.runs.directory import RunDirectory
from pureward.runs.machine import made_with
from pureward.training.presets import preset
from pureward.training.run import Run
from timing import milliseconds, synchronize


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is measured."""

    task: Annotated[str, tyro.conf.Positional]
    """Task that has a dataset DATA/TASK/demonstrations."""
    method: str = "nn-pugail"
    """A method of imitation."""
    data: Path = Path("datasets")
    """Folder of datasets."""
    iterations: int = 100
    """Of every measurement."""
    device: Literal["cpu", "cuda"] = "cuda"
    worlds: int = 0
    """0 for the preset's."""
    at_once: int = 1
    """Above 1: this many processes step together, and only their speed is measured."""
    out: Path | None = None
    """JSON file for the figures."""


def main(settings: Settings) -> None:
    """Print the time of the parts of an iteration, or the speed of several runs at once."""
    if settings.at_once > 1:
        _measure_together(settings)
        return
    began = time.perf_counter()
    with _ready_run(settings) as run:
        device, worlds = settings.device, run.config.worlds
        print(f"ready after {time.perf_counter() - began:.1f} s")
        _warm_up(run)
        parts = _parts(run)
        figures = {
            name: milliseconds(call, device, settings.iterations, rounds=1)
            for name, call in parts.items()
        }
        figures["sum of the parts"] = sum(figures.values()) - figures["simulation and cameras"]
        figures["iteration"] = milliseconds(run.step, device, settings.iterations, rounds=1)
        made = made_with(run.env.device)
    speed = 1000 * worlds / figures["iteration"]
    for name, taken in figures.items():
        print(f"{name:36} {taken:8.2f} ms")
    print(f"{worlds} worlds: {speed:,.0f} env steps/s")
    if settings.out is not None:
        times = {name: round(taken, 3) for name, taken in figures.items()}
        facts = {"task": settings.task, "method": settings.method, "worlds": worlds}
        facts |= {"made_with": made, "env_steps_per_second": round(speed), "milliseconds": times}
        write_json(settings.out, facts)


@contextmanager
def _ready_run(settings: Settings) -> Iterator[Run]:
    """A run after its first step."""
    demonstrations = str(settings.data / settings.task / "demonstrations")
    config = preset(settings.task, method=settings.method, demonstrations=demonstrations)
    worlds = settings.worlds or config.worlds
    changes = {"worlds": worlds, "warmup_steps": 10 * worlds, "evaluate_episodes": 2}
    with ExitStack() as opened:
        folder = opened.enter_context(tempfile.TemporaryDirectory())
        changes |= {"out": folder, "device": settings.device}
        config = with_settings(config, changes)
        directory = opened.enter_context(RunDirectory(Path(folder)))
        run = Run(config, directory, None, opened)
        opened.enter_context(run.log)
        run.step()
        synchronize(settings.device)
        yield run


def _warm_up(run: Run) -> None:
    while run.env_steps < run.config.warmup_steps + 10 * run.config.worlds:
        run.step()


def _measure_together(settings: Settings) -> None:
    """Print the env steps per second of several processes that start together."""
    barrier, speeds = CONTEXT.Barrier(settings.at_once, timeout=300), CONTEXT.Queue()
    arguments = (settings, barrier, speeds)
    runs = [
        CONTEXT.Process(target=_step, args=arguments, daemon=True) for _ in range(settings.at_once)
    ]
    for each in runs:
        each.start()
    found = []
    while len(found) < len(runs):
        try:
            found.append(speeds.get(timeout=1))
        except Empty:
            if any(each.exitcode for each in runs):
                raise SystemExit("a run failed; its message is above") from None
    for each in runs:
        each.join()
    print(f"{settings.at_once} at once: {sum(found):,.0f} env steps/s")
    if settings.out is not None:
        facts = {"task": settings.task, "method": settings.method, "at_once": settings.at_once}
        made = made_with(torch.device(settings.device))
        write_json(settings.out, facts | {"made_with": made, "env_steps_per_second": found})


def _step(settings: Settings, barrier: Barrier, speeds: "Queue[float]") -> None:
    """Put the env steps per second of one of several runs."""
    with _ready_run(settings) as run:
        _warm_up(run)
        barrier.wait()
        taken = milliseconds(run.step, settings.device, 2 * settings.iterations, rounds=1)
        speeds.put(1000 * run.config.worlds / taken)
        barrier.wait()  # none may end before all are measured


def _parts(run: Run) -> dict[str, Callable[[], object]]:
    """The parts of an iteration, in order."""
    learner, env, state = run.learner, run.env, run.obs.state
    assert isinstance(env, TaskEnv)
    assert env.cameras is not None
    action = learner.act(state)
    step = env.step(action)
    return {
        "actions": lambda: learner.act(state),
        "simulation": env.engine.step,
        "cameras": env.cameras.render,
        "simulation and cameras": lambda: env.step(action),
        "new steps stored and scored": lambda: learner.add(run.obs, action, step),
        "updates of D": learner.update_discriminator,
        "older steps scored again": learner.refresh_scores,
        "updates of the policy": learner.update_policy,
    }


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
