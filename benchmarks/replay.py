# SPDX-License-Identifier: Apache-2.0
"""Time of replay and update by how full the ring is: they must not grow with it.

    python benchmarks/replay.py                          # states only
    python benchmarks/replay.py --device cuda --frames   # in CUDA graphs; 37 GB

Three rings, filled to 1%, 10% and 100%, take turns round by round, so that they share what else
the machine does. Timed are a draw, a draw with its arrival frames (five steps of two stacked
frames) and a D4PG update with its draw; and, while filling, the adding of a row.
"""

import json
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

import torch
import tyro
from torch import Tensor

from pureward.agents.d4pg.agent import D4PG, Batch, D4PGConfig
from pureward.capture import CapturedCall
from pureward.data.replay.replay import Replay, ReplayConfig
from pureward.types import Observation, Step

STATE, ACTION, FRAME = 24, 6, (3, 64, 64)
HORIZON = 1000


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to measure."""

    device: Literal["cpu", "cuda"] = "cpu"
    """Where replay and agent live."""
    capacity: int = 1_000_000
    """Steps in the ring."""
    worlds: int = 1000
    """Worlds that step together."""
    batch: int = 256
    """Windows in a draw."""
    frames: bool = False
    """Keep 64×64 frames too."""
    shares: tuple[float, ...] = (0.01, 0.1, 1.0)
    """How full the ring is at each measurement."""
    rounds: int = 15
    """Times each is measured; the median is shown."""
    repeats: int = 20
    """Calls in a round."""
    out: Path | None = None
    """JSON file for the figures."""


class Bench:
    """A ring filled to a share, and an agent."""

    def __init__(self, args: Args, share: float):
        self.args = args
        self.device = torch.device(args.device)
        self.rng = torch.Generator(self.device).manual_seed(0)
        self.replay = Replay(
            ReplayConfig(capacity=args.capacity, frame_stack=2),
            worlds=args.worlds,
            horizon=HORIZON,
            state_size=STATE,
            action_size=ACTION,
            frame_shape=FRAME if args.frames else None,
            device=self.device,
        )
        self.agent = D4PG(D4PGConfig(), state_size=STATE, action_size=ACTION, device=self.device)
        self.add_us = self.fill(share)
        self.runs = self._runs()
        self.times: dict[str, list[float]] = {name: [] for name in self.runs}

    def fill(self, share: float) -> float:
        """Fill the ring up to a share of it; returns the microseconds of one `add`."""
        obs, action, step = self._made_up()
        self._wait()
        start = time.perf_counter()
        while len(self.replay) < share * self.replay.layout.steps:
            self.replay.add(obs, action, step)
        self._wait()
        rows = self.replay.steps_added // self.args.worlds
        return round(1e6 * (time.perf_counter() - start) / rows, 1)

    def _runs(self) -> dict[str, Callable[[], object]]:
        """What is timed, captured on CUDA."""
        calls = {"draw": self._draw, "draw_and_update": self._update}
        if self.args.frames:
            calls["draw_with_frames"] = self._frames
        if self.device.type == "cpu":
            return dict(calls)
        kept = [tensor for _, tensor in self.agent.tensors()]
        return {
            name: CapturedCall(call, (), kept=kept, generators=[self.rng]).graph.replay
            for name, call in calls.items()
        }

    def round(self, repeats: int) -> None:
        """Time each once more."""
        for name, run in self.runs.items():
            run()
            self._wait()
            start = time.perf_counter()
            for _ in range(repeats):
                run()
            self._wait()
            self.times[name].append(1e6 * (time.perf_counter() - start) / repeats)

    def row(self) -> dict[str, object]:
        """Medians of the rounds, in microseconds."""
        medians = {f"{name}_us": round(median(times), 1) for name, times in self.times.items()}
        return {"steps": len(self.replay), "add_us": self.add_us, **medians}

    def _made_up(self) -> tuple[Observation, Tensor, Step]:
        worlds, device = self.args.worlds, self.device
        frames = None
        if self.args.frames:
            frames = torch.randint(256, (worlds, *FRAME), device=device, generator=self.rng)
            frames = frames.to(torch.uint8)
        state = torch.randn(worlds, STATE, device=device, generator=self.rng)
        obs = Observation(state=state, frames=frames)
        never = torch.zeros(worlds, dtype=torch.bool, device=device)
        action = torch.rand(worlds, ACTION, device=device, generator=self.rng)
        step = Step(
            obs=obs,
            reward=torch.rand(worlds, device=device, generator=self.rng),
            terminated=never,
            truncated=never,
            success=never,
            final_obs=obs,
        )
        return obs, action, step

    def _draw(self) -> Tensor:
        return self.replay.sample(self.args.batch, self.rng).next_state

    def _frames(self) -> Tensor:
        windows = self.replay.sample(self.args.batch, self.rng)
        return self.replay.arrival_frames(windows.steps)

    def _update(self) -> Tensor:
        windows = self.replay.sample(self.args.batch, self.rng)
        batch = Batch(
            state=windows.state,
            action=windows.action,
            reward=windows.n_step_return(windows.task_reward),
            discount=windows.discount,
            next_state=windows.next_state,
        )
        return self.agent.update(batch)["critic/loss"]

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def main(args: Args) -> None:
    benches = [Bench(args, share) for share in args.shares]
    description = benches[0].replay.describe()
    print(description)
    for _ in range(args.rounds):
        for bench in benches:
            bench.round(args.repeats)
    report: dict[str, object] = {"torch": torch.__version__, "machine": platform.machine()}
    if args.device == "cuda":
        report["gpu"] = torch.cuda.get_device_name()
    rows = [bench.row() for bench in benches]
    for row in rows:
        print(json.dumps(row))
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        report |= {"replay": description, "batch": args.batch, "rows": rows}
        args.out.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Args))
