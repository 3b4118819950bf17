# SPDX-License-Identifier: Apache-2.0
"""Where the time of a training iteration goes: each part alone, and all of them together.

    python benchmarks/iteration.py lift --data datasets --out iteration.json

An iteration is one control step of every world with the updates that go with it, in the preset
`fast`. A part is timed alone, with the device idle before and after. In the whole iteration the
simulation goes on beside the learning, so the whole may be shorter than the sum.
"""

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import torch
import tyro

from pureward.envs.simulated import TaskEnv
from pureward.files import write_json
from pureward.runs.config_file import with_settings
from pureward.runs.directory import RunDirectory
from pureward.runs.machine import made_with
from pureward.training.presets import preset
from pureward.training.run import Run


def main(
    task: Annotated[str, tyro.conf.Positional],
    method: str = "nn-pugail",
    data: Path = Path("datasets"),
    iterations: int = 100,
    device: str = "cuda",
    worlds: int = 0,
    out: Path | None = None,
) -> None:
    """Time the parts of an iteration.

    Args:
        task: that has a dataset DATA/TASK/demonstrations.
        method: of imitation.
        data: folder of datasets.
        iterations: of every measurement.
        device: "cuda" or "cpu".
        worlds: 0 for the preset's.
        out: JSON file for the figures.
    """
    with ExitStack() as opened:
        folder = opened.enter_context(tempfile.TemporaryDirectory())
        config = preset(task, method=method, demonstrations=str(data / task / "demonstrations"))
        changes = {"out": folder, "device": device, "evaluate_episodes": 2}
        changes |= {"worlds": worlds or config.worlds}
        config = with_settings(config, changes | {"warmup_steps": 10 * changes["worlds"]})
        directory = opened.enter_context(RunDirectory(Path(folder)))
        began = time.perf_counter()
        run = Run(config, directory, None, opened)
        opened.enter_context(run.log)
        run.step()
        _sync(device)
        print(f"ready after {time.perf_counter() - began:.1f} s")
        while run.env_steps < config.warmup_steps + 10 * config.worlds:
            run.step()
        figures = {name: _time(call, iterations, device) for name, call in _parts(run).items()}
        figures["sum of the parts"] = sum(figures.values()) - figures["simulation and cameras"]
        figures["iteration"] = _time(run.step, iterations, device)
        made = made_with(run.env.device)
    speed = config.worlds / figures["iteration"]
    for name, seconds in figures.items():
        print(f"{name:36} {1000 * seconds:8.2f} ms")
    print(f"{config.worlds} worlds: {speed:,.0f} env steps/s")
    if out is not None:
        times = {name: round(1000 * seconds, 3) for name, seconds in figures.items()}
        facts = {"task": task, "method": method, "worlds": config.worlds, "made_with": made}
        write_json(out, facts | {"env_steps_per_second": round(speed), "milliseconds": times})


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


def _time(call: Callable[[], object], times: int, device: str) -> float:
    """Seconds of one call, from several without a sync between them."""
    call()
    _sync(device)
    began = time.perf_counter()
    for _ in range(times):
        call()
    _sync(device)
    return (time.perf_counter() - began) / times


def _sync(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    tyro.cli(main)
