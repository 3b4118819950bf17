# SPDX-License-Identifier: Apache-2.0
"""How actors scale: env steps per second with an environment that sleeps 5 ms a step.

    python benchmarks/actors.py --actors 1 2 4 8 --out actors.json

Each row takes steps for some seconds from N actors of one world, after all have answered once, with
no updates, so that actors and messages are measured and not the learner. `of_linear` is the speed
over N times that of the first row per actor. Below the table: the processor time of an actor for
one step, for policy, exploration and messages, with an environment that does not sleep. Where all
actors together need more than the machine's cores, more of them are not faster.
"""

import json
import os
import time
from pathlib import Path
from typing import Annotated, Any

os.environ["OMP_NUM_THREADS"] = "1"

import gymnasium
import numpy as np
import tyro
from gymnasium import spaces
from safetensors.torch import load

import pureward
from pureward.agents import AGENTS
from pureward.data.replay.replay import ReplayConfig
from pureward.distributed.actors import Actors
from pureward.distributed.actors.worker import Actor, Spec, pack_policy
from pureward.files import write_json
from pureward.runs.config_file import to_json
from pureward.runs.machine import made_with

SLEEP = 0.005


class Sleeper(gymnasium.Env):
    """Sleeps at each step, like a robot; episodes of 50 steps, frames of noise."""

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = spaces.Box(-1.0, 1.0, (24,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (6,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin an episode."""
        super().reset(seed=seed)
        self.at = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        """Sleep."""
        time.sleep(SLEEP)
        self.at += 1
        return self._seen(), 0.0, False, self.at >= 50, {}

    def render(self) -> Any:
        """Return a frame."""
        return np.full((64, 64, 3), self.at, np.uint8)

    def _seen(self) -> np.ndarray:
        return np.full(24, self.at / 50, np.float32)


def measure(actors: int, seconds: float, *, frames: bool, executor: str, address: str) -> dict:
    """Return the figures of a number of actors."""
    config = pureward.RunConfig(
        task="actors:Sleeper",
        method="gail" if frames else "truth",
        demonstrations="unused" if frames else "",
        worlds=actors,
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
        received, began, busy = source.counts["received"], time.monotonic(), time.process_time()
        while time.monotonic() - began < seconds:
            take()
        passed = time.monotonic() - began
        speed = (source.counts["received"] - received) / passed
        values = source.read()
    return {
        "actors": actors,
        "steps_per_second": speed,
        "learner_busy": (time.process_time() - busy) / passed,
        **{name.removeprefix("actors/"): value for name, value in values.items()},
    }


def cost(steps: int = 2_000) -> float:
    """Return the processor time of an actor for a step without sleep, in milliseconds."""
    global SLEEP
    before, SLEEP = SLEEP, 0.0
    config = pureward.RunConfig(task="__main__:Sleeper", worlds=1, actors=1, device="cpu")
    spec = Spec(version=pureward.__version__, config=json.dumps(to_json(config)), worlds=1, seed=0)
    actor, policy = Actor(spec), AGENTS["d4pg"].policy(config.agent, 24, 6)
    weights = pack_policy(policy.state_dict(), 0)
    actor.advance(weights, False)
    made, began = 0, time.process_time()
    while made < steps:
        made += len(load(actor.advance(weights, False))["reward"])
    SLEEP = before
    return 1e3 * (time.process_time() - began) / made


def main(
    actors: Annotated[tuple[int, ...], tyro.conf.arg(help="numbers of actors")] = (1, 2, 4, 8),
    seconds: float = 10.0,
    frames: bool = False,
    executor: str = "local",
    address: str = "",
    out: Path | None = None,
) -> None:
    """Measure each number of actors, print a table, and write it as JSON."""
    rows: list[dict] = []
    line = "{:>6} {:>10} {:>10} {:>8} {:>10} {:>10}"
    print(line.format("actors", "steps/s", "of linear", "waited", "staleness", "MB/s"))
    for number in actors:
        row = measure(number, seconds, frames=frames, executor=executor, address=address)
        each = (rows or [row])[0]
        share = row["steps_per_second"] / number * each["actors"] / each["steps_per_second"]
        rows.append(row | {"of_linear": share})
        cells = (number, f"{row['steps_per_second']:.0f}", f"{share:.2f}", f"{row['waited']:.2f}")
        stale = f"{row.get('staleness', 0.0):.0f}"
        print(line.format(*cells, stale, f"{row['bytes_per_second'] / 1e6:.2f}"), flush=True)
    print(f"an actor needs {cost():.2f} ms of a core for a step, beside a sleeping environment")
    if out is not None:
        facts = {"sleep": SLEEP, "frames": frames, "executor": executor, "load": os.getloadavg()}
        made = made_with(pureward.make("reach", 1, "cpu").device)
        write_json(out, {"made with": made, **facts, "rows": rows})


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
