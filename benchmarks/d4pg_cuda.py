# SPDX-License-Identifier: Apache-2.0
"""D4PG updates in CUDA graphs: what each improvement gains, and which kernels take the time.

A part of `d4pg.py --device cuda`. A variant that fails is a row that says why.
"""

import json
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor

from learners import WORLDS, d4pg, drawn, filled_replay
from pureward.agents.d4pg.agent import D4PG, Arithmetic
from pureward.capture import CapturedCall
from pureward.data.replay.replay import Replay

AGENTS = {
    "paper": {},
    "fast": {"norm_first": True, "polyak": 0.005, "actor_rate": 3e-4, "critic_rate": 3e-4},
}


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to run an update: a row of the table."""

    name: str
    arithmetic: Arithmetic = "plain"
    tf32: bool = False
    """Let torch's own matrix products round to TF32."""
    precision: str = "tf32"
    """Of the fused kernels' products."""
    fused_sampler: bool = False


VARIANTS = [
    Variant(name="plain float32"),
    Variant(name="plain TF32", tf32=True),
    Variant(name="fused TF32", arithmetic="fused", fused_sampler=True),
    Variant(name="auto", arithmetic="auto", fused_sampler=True),
    Variant(name="fused TF32×3", arithmetic="fused", precision="tf32x3", fused_sampler=True),
]


class Repeated:
    """Work to be timed: a CUDA graph of several calls, or the calls themselves on a CPU."""

    def __init__(self, call: Callable[[], Tensor], times: int, kept: list[Tensor], rng):
        def several() -> Tensor:
            for _ in range(times - 1):
                call()
            return call()

        self.run: Callable[[], object] = several
        if rng.device.type == "cuda":
            self.run = CapturedCall(several, (), kept=kept, generators=[rng]).graph.replay
        self.times = times

    def microseconds(self, seconds: float, rounds: int = 5) -> float:
        """Median over rounds of the time of one call."""
        self.run()
        found = []
        for _ in range(rounds):
            _wait()
            start, count = time.perf_counter(), 0
            while time.perf_counter() - start < seconds / rounds:
                for _ in range(5):
                    self.run()
                    count += self.times
                _wait()
            found.append((time.perf_counter() - start) / count)
        return round(1e6 * median(found), 1)

    def kernels(self, replays: int = 5) -> list[dict[str, Any]]:
        """Kernels of one call by their time, in microseconds."""
        cuda = torch.profiler.ProfilerActivity.CUDA
        with torch.profiler.profile(activities=[cuda]) as seen:
            for _ in range(replays):
                self.run()
            _wait()
        calls = replays * self.times
        rows = [
            {
                "kernel": event.key[:80],
                "count": round(event.count / calls, 2),
                "us": round(event.self_device_time_total / calls, 2),
            }
            for event in seen.key_averages()
        ]
        return sorted(rows, key=lambda row: -row["us"])


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def table(batches: tuple[int, ...], unroll: int, smoke: bool) -> Iterator[dict[str, Any]]:
    """Rows of variants, each printed when it is known."""
    device = torch.device("cpu" if smoke else "cuda")
    replay = filled_replay(device, WORLDS * (2 if smoke else 1000))
    for batch in (64,) if smoke else batches:
        for kind, changes in AGENTS.items():
            for variant in VARIANTS[:1] if smoke else VARIANTS:
                row: dict[str, Any] = {"batch": batch, "agent": kind, "variant": variant.name}
                try:
                    with _set(variant, replay):
                        agent = d4pg(device, variant.arithmetic, **changes)
                        _measure(row, replay, agent, batch, unroll, variant)
                except Exception as error:  # told in the row; the others are still wanted
                    traceback.print_exc()
                    row["failed"] = f"{type(error).__name__}: {error}"[:500]
                told = {name: value for name, value in row.items() if name != "kernels"}
                print(json.dumps(told, ensure_ascii=False), flush=True)
                yield row


@contextmanager
def _set(variant: Variant, replay: Replay) -> Iterator[None]:
    """What a variant switches outside of the agent, put back afterwards."""
    precision, sampler = torch.get_float32_matmul_precision(), replay._sampler
    decided = sampler._fused
    torch.set_float32_matmul_precision("high" if variant.tf32 else "highest")
    if not variant.fused_sampler:
        sampler._fused = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        if not variant.fused_sampler:
            sampler._fused = decided


def _measure(
    row: dict[str, Any], replay: Replay, agent: D4PG, batch: int, unroll: int, variant: Variant
) -> None:
    """Fill a row figure by figure, so that a later failure leaves the earlier ones."""
    rng = torch.Generator(agent.device).manual_seed(0)
    if agent.arithmetic == "fused":
        from pureward.kernels.d4pg.update import FusedUpdate

        agent._fused[batch] = FusedUpdate(agent, batch, precision=variant.precision)
    fixed = drawn(replay, batch, rng)
    kept = [tensor for _, tensor in agent.tensors()]

    def update() -> Tensor:
        return agent.update(fixed)["critic/loss"]

    def draw() -> Tensor:
        return drawn(replay, batch, rng).reward

    def both() -> Tensor:
        return agent.update(drawn(replay, batch, rng))["critic/loss"]

    started = time.perf_counter()
    several = Repeated(update, unroll, kept, rng)
    row["set_up_seconds"] = round(time.perf_counter() - started, 1)
    row["update_us"] = several.microseconds(0.2)
    row["updates_per_second"] = round(1e6 / row["update_us"])
    row["draw_us"] = Repeated(draw, unroll, kept, rng).microseconds(0.1)
    drawing = Repeated(both, unroll, kept, rng)
    row["draw_and_update_us"] = drawing.microseconds(0.2)
    row["drawn_updates_per_second"] = round(1e6 / row["draw_and_update_us"])
    if agent.arithmetic == "auto":
        # Whether the kernels have been found to agree on this machine.
        row["fused"] = agent._fused.get(batch) is not None
        row["fused_sampler"] = bool(replay._sampler._fused)
    if agent.device.type == "cuda":
        row["kernels"] = drawing.kernels()
        row["nodes"] = round(sum(one["count"] for one in row["kernels"]))
