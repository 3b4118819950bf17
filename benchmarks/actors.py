# SPDX-License-Identifier: Apache-2.0
"""How actors scale: env steps per second with an environment that sleeps 5 ms a step.

    python benchmarks/actors.py --actors 1 2 4 8 --out actors.json
    python benchmarks/actors.py --actors 1 2 4 --worlds-each 16

Each row takes steps for some seconds from N actors, after all have answered once, with no updates,
so that actors and messages are measured and not the learner. An actor with several worlds steps
them in threads. `of linear` is the speed over that of as many single worlds, which the first row
measures with one actor of one world. CPU times are those of the processes, which depend little on
what else the machine does. `predicted` is the model of docs/concepts/scaling.md.
"""

import os
import time
from pathlib import Path
from typing import Annotated, Any

os.environ["OMP_NUM_THREADS"] = "1"

import gymnasium
import numpy as np
import tyro
from gymnasium import spaces

import pureward
from pureward.agents import AGENTS
from pureward.data.replay.replay import ReplayConfig
from pureward.distributed.actors import Actors
from pureward.distributed.actors.hosts import Processes
from pureward.distributed.threads import ThreadVectorEnv
from pureward.files import write_json
from pureward.runs.machine import made_with

_SLEEP = "PUREWARD_BENCHMARK_SLEEP"  # actors are other processes
_WAKE_SECONDS = 0.15e-3  # time.sleep(0.005) takes 5.15 ms on idle Neoverse-N1 cores


class Sleeper(gymnasium.Env):
    """Sleeps at each step, like a robot; episodes of 50 steps, grey frames."""

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode, self.seconds = render_mode, float(os.environ[_SLEEP])
        self.observation_space = spaces.Box(-1.0, 1.0, (24,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (6,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin an episode."""
        super().reset(seed=seed)
        self.at = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        """Sleep."""
        time.sleep(self.seconds)
        self.at += 1
        return self._seen(), 0.0, False, self.at >= 50, {}

    def render(self) -> Any:
        """Return a frame."""
        return np.full((64, 64, 3), self.at, np.uint8)

    def _seen(self) -> np.ndarray:
        return np.full(24, self.at / 50, np.float32)


def sleepers(num_envs: int, render_mode: str | None = None) -> ThreadVectorEnv:
    """Return environments that sleep at the same time."""
    return ThreadVectorEnv([lambda: Sleeper(render_mode)] * num_envs)


def measure(
    actors: int, worlds_each: int, seconds: float, *, frames: bool, executor: str, address: str
) -> dict:
    """Return the figures of a number of actors."""
    config = pureward.RunConfig(
        task="actors:Sleeper" if worlds_each == 1 else "actors:sleepers",
        method="gail" if frames else "truth",
        demonstrations="unused" if frames else "",
        worlds=actors * worlds_each,
        actors=actors,
        executor=executor,
        address=address,
        device="cpu",
        actor_timeout=600.0,
        replay=ReplayConfig(capacity=1_000_000),
        batch=256,
    )
    with Actors(config) as source:
        policy = AGENTS["d4pg"].policy(config.agent, source.state_size, source.action_size)
        weights = policy.state_dict()
        version = 0

        def take() -> None:
            nonlocal version
            version += 1  # as many updates as control steps
            source.take(version, lambda: weights, at_random=False)

        while not all(actor.answered for actor in source._actors) or not version:
            take()
        for _ in range(100):  # past the start, when all episodes end at once
            take()
        source.read()
        received, began = source.counts["received"], time.monotonic()
        learner, others = time.process_time(), actors_cpu(source)
        while time.monotonic() - began < seconds:
            take()
        passed = time.monotonic() - began
        steps = source.counts["received"] - received
        learner, others = time.process_time() - learner, actors_cpu(source) - others
        values = source.read()
    return {
        "actors": actors,
        "worlds": actors * worlds_each,
        "steps_per_second": steps / passed,
        "actor_cpu": others / steps,
        "learner_cpu": learner / steps,
        "bytes_per_step": values.pop("actors/bytes_per_second") * passed / steps,
        **{name.removeprefix("actors/"): value for name, value in values.items()},
    }


def actors_cpu(source: Actors) -> float:
    """Return the CPU seconds of all actors so far; NaN on Ray, which has their processes."""
    host = source._host
    if not isinstance(host, Processes):
        return float("nan")
    pids = [process.pid or 0 for process, _ in host._actors.values()]
    return sum(time.clock_gettime((~pid << 3) | 2) for pid in pids)  # Linux: CPU clock of a process


def predict(row: dict, sleep: float, cores: int) -> float:
    """Return the steps per second of a row by the model, from its CPU times."""
    each = row["worlds"] / row["actors"]
    waits = row["worlds"] / (sleep + _WAKE_SECONDS + each * row["actor_cpu"])
    return min(waits, cores / (row["actor_cpu"] + row["learner_cpu"]), 1 / row["learner_cpu"])


def main(
    actors: Annotated[tuple[int, ...], tyro.conf.arg(help="numbers of actors")] = (1, 2, 4, 8),
    worlds_each: Annotated[int, tyro.conf.arg(help="worlds of an actor")] = 1,
    sleep_ms: Annotated[float, tyro.conf.arg(help="of a step")] = 5.0,
    seconds: float = 10.0,
    frames: bool = False,
    executor: str = "local",
    address: str = "",
    out: Path | None = None,
) -> None:
    """Measure each number of actors, print a table, and write it as JSON."""
    os.environ[_SLEEP] = str(sleep_ms / 1e3)
    cores = len(os.sched_getaffinity(0))
    rows: list[dict] = []
    line = "{:>6} {:>6} {:>8} {:>9} {:>9} {:>9} {:>10} {:>10} {:>9} {:>7}"
    head = ("steps/s", "of linear", "predicted", "actor µs", "learner µs", "bytes/step")
    print(line.format("actors", "worlds", *head, "staleness", "waited"))
    # The first row is one world alone, which the others are compared with.
    for number, each in [(1, 1), *((n, worlds_each) for n in actors if (n, worlds_each) != (1, 1))]:
        row = measure(number, each, seconds, frames=frames, executor=executor, address=address)
        alone = (rows or [row])[0]["steps_per_second"]
        row["of_linear"] = row["steps_per_second"] / row["worlds"] / alone
        row["predicted"] = predict(row, sleep_ms / 1e3, cores)
        rows.append(row)
        cells = (row["steps_per_second"], row["of_linear"], row["predicted"])
        times = (1e6 * row["actor_cpu"], 1e6 * row["learner_cpu"], row["bytes_per_step"])
        numbers = [f"{value:.{2 * (n == 1)}f}" for n, value in enumerate((*cells, *times))]
        rest = f"{row.get('staleness', 0.0):.0f}", f"{row['waited']:.2f}"
        print(line.format(number, row["worlds"], *numbers, *rest), flush=True)
    if out is not None:
        facts = {"sleep": sleep_ms / 1e3, "frames": frames, "executor": executor, "cores": cores}
        made = made_with(pureward.make("reach", 1, "cpu").device)
        write_json(out, {"made with": made, **facts, "load": os.getloadavg(), "rows": rows})


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
