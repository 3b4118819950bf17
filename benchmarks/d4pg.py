# SPDX-License-Identifier: Apache-2.0
"""Updates of D4PG, and draws from its replay.

    python benchmarks/d4pg.py                        # on a CPU, beside Stable-Baselines3's TD3
    python benchmarks/d4pg.py --device cuda          # in CUDA graphs, plain and fused
    python benchmarks/d4pg.py --filled 0.01 0.1 1    # on either, by how full the replay is

The replay holds made-up steps of the walker's sizes: 24 states, 6 actions. On a CPU both learners
draw their batches from their own replay and take turns in one process; sizes and batch are equal:
actor 300-200, critics 400-300. TD3 trains two critics on scalars and its actor every second time,
D4PG one critic of 51 atoms and its actor every time.

With --filled, replays of a million steps take turns, so that they share what else the machine does.
Their times must not grow. --frames stores frames too (37 GB), and draws stacks of two.
"""

import json
import platform
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
import torch
import tyro
from torch import Tensor

from pureward.agents.d4pg.agent import D4PG, Arithmetic, Batch, D4PGConfig
from pureward.capture import CapturedCall
from pureward.data.replay.replay import Replay, ReplayConfig
from pureward.types import Observation, Step
from timing import milliseconds, synchronize

STATE, ACTION, FRAME, WORLDS = 24, 6, (3, 64, 64), 1000
REQUIRED = 1.5  # times TD3's updates per second


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to measure."""

    device: Literal["cpu", "cuda"] = "cpu"
    """"cpu" for the ratio to TD3, "cuda" for updates per second in a graph."""
    filled: tuple[float, ...] = ()
    """Shares of a replay that are full: measures draws and updates by them, and nothing else."""
    frames: bool = False
    """With `--filled`, store 64×64 frames too."""
    batch: int = 256
    """Batch size on the CPU, and with `--filled`."""
    batches: tuple[int, ...] = (256, 2048)
    """Batch sizes on CUDA."""
    rounds: int = 15
    """Times each is measured on the CPU, and with `--filled`."""
    repeats: int = 20
    """Calls in such a round."""
    unroll: int = 8
    """Updates in a graph on CUDA."""
    smoke: bool = False
    """With `--device cuda`, run at toy size on the CPU to check this script."""
    out: Path | None = None
    """JSON file for the figures."""


def filled_replay(
    device: torch.device, steps: int, *, capacity: int = 0, frames: bool = False
) -> Replay:
    """A replay with this many steps; without a capacity it is full."""
    replay = Replay(
        ReplayConfig(capacity=capacity or steps, frame_stack=2),
        worlds=WORLDS,
        horizon=1000,
        state_size=STATE,
        action_size=ACTION,
        frame_shape=FRAME if frames else None,
        device=device,
    )
    rng = torch.Generator(device).manual_seed(0)
    never = torch.zeros(WORLDS, dtype=torch.bool, device=device)
    shown = None
    if frames:
        shown = torch.randint(256, (WORLDS, *FRAME), generator=rng, device=device).to(torch.uint8)
    for _ in range(round(steps / WORLDS)):
        state = torch.randn(WORLDS, STATE, generator=rng, device=device)
        obs = Observation(state=state, frames=shown)
        step = Step(
            obs=obs,
            reward=torch.rand(WORLDS, generator=rng, device=device),
            terminated=never,
            truncated=never,
            success=never,
            final_obs=obs,
        )
        replay.add(obs, torch.rand(WORLDS, ACTION, generator=rng, device=device), step)
    return replay


def d4pg(device: torch.device, arithmetic: Arithmetic = "auto", **changes: Any) -> D4PG:
    config = D4PGConfig(**changes)
    sizes = {"state_size": STATE, "action_size": ACTION}
    return D4PG(config, **sizes, device=device, arithmetic=arithmetic)


def drawn(replay: Replay, batch: int, rng: torch.Generator) -> Batch:
    windows = replay.sample(batch, rng)
    return Batch(
        state=windows.state,
        action=windows.action,
        reward=windows.n_step_return(windows.task_reward),
        discount=windows.discount,
        next_state=windows.next_state,
    )


def calls(
    replay: Replay, agent: D4PG, batch: int, rng: torch.Generator
) -> dict[str, Callable[[], Tensor]]:
    """What is timed: an update on one batch, a draw, and both."""
    fixed = drawn(replay, batch, rng)
    return {
        "update": lambda: agent.update(fixed)["critic/loss"],
        "draw": lambda: drawn(replay, batch, rng).reward,
        "draw_and_update": lambda: agent.update(drawn(replay, batch, rng))["critic/loss"],
    }


def repeated(
    call: Callable[[], Tensor], times: int, agent: D4PG, rng: torch.Generator
) -> Callable[[], object]:
    """The call so many times: captured in a CUDA graph, or as it is on a CPU."""

    def several() -> Tensor:
        for _ in range(times - 1):
            call()
        return call()

    if rng.device.type == "cpu":
        return several
    kept = [tensor for _, tensor in agent.tensors()]
    return CapturedCall(several, (), kept=kept, generators=[rng]).graph.replay


# On a CPU.


def td3(batch: int) -> Callable[[int], None]:
    """Stable-Baselines3's `train()`, its replay full of as many steps."""
    import gymnasium
    from stable_baselines3 import TD3  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.logger import Logger  # pyright: ignore[reportMissingImports]

    class Nothing(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (STATE,), np.float32)
        action_space = gymnasium.spaces.Box(-1, 1, (ACTION,), np.float32)

    learner = TD3(
        "MlpPolicy",
        Nothing(),
        learning_rate=1e-4,
        batch_size=batch,
        buffer_size=100_000,
        policy_kwargs={"net_arch": {"pi": [300, 200], "qf": [400, 300]}},
        device="cpu",
        seed=0,
    )
    learner.set_logger(Logger(None, []))
    rng = np.random.default_rng(0)
    buffer: Any = learner.replay_buffer
    for table in (buffer.observations, buffer.next_observations, buffer.actions, buffer.rewards):
        table[:] = rng.uniform(-1, 1, table.shape)
    buffer.full = True
    return lambda updates: learner.train(updates, batch)


def beside_td3(args: Args) -> dict[str, Any]:
    device = torch.device("cpu")
    replay, agent = filled_replay(device, 100_000), d4pg(device)
    rng = torch.Generator().manual_seed(1)

    def ours(updates: int) -> None:
        for _ in range(updates):
            agent.update(drawn(replay, args.batch, rng))

    learners = {"TD3": td3(args.batch), "D4PG": ours}
    times: dict[str, list[float]] = {name: [] for name in learners}
    charged = dict.fromkeys(learners, 0.0)
    for learn in learners.values():
        learn(5)
    for _ in range(args.rounds):
        for name, learn in learners.items():
            start, began = time.perf_counter(), time.process_time()
            learn(args.repeats)
            charged[name] += time.process_time() - began
            times[name].append((time.perf_counter() - start) / args.repeats)
    # Taking turns, both see the same machine, yet two threads that wait for each other suffer
    # from whatever else runs: the bar is meant for a quiet one.
    ratios = [a / b for a, b in zip(times["TD3"], times["D4PG"], strict=True)]
    row: dict[str, Any] = {"batch": args.batch, "threads": torch.get_num_threads()}
    for name, seconds in times.items():
        row[f"{name}_updates_per_second"] = round(1 / median(seconds), 1)
        row[f"{name}_updates_per_second_best"] = round(1 / min(seconds), 1)
    row["ratio_of_processor_time"] = round(charged["TD3"] / charged["D4PG"], 2)
    row["ratio_of_best"] = round(min(times["TD3"]) / min(times["D4PG"]), 2)
    return row | {"ratio_median": round(median(ratios), 2), "ratio_required": REQUIRED}


# By how full the replay is.


def by_fullness(args: Args) -> Iterator[dict[str, Any]]:
    """A row for each share, in microseconds."""
    device, capacity = torch.device(args.device), 1_000_000
    lines = []
    for share in args.filled:
        steps = round(share * capacity)
        replay = filled_replay(device, steps, capacity=capacity, frames=args.frames)
        agent, rng = d4pg(device), torch.Generator(device).manual_seed(0)
        own = calls(replay, agent, args.batch, rng)
        del own["update"]  # draws nothing
        if args.frames:
            own["draw_with_frames"] = lambda replay=replay, rng=rng: replay.arrival_frames(
                replay.sample(args.batch, rng).steps
            )
        runs = {name: repeated(call, 1, agent, rng) for name, call in own.items()}
        lines.append((len(replay), runs, {name: [] for name in runs}))
    for _ in range(args.rounds):
        for _, runs, times in lines:
            for name, run in runs.items():
                times[name].append(1e3 * milliseconds(run, device, args.repeats, rounds=1))
    for steps, _, times in lines:
        medians = {f"{name}_us": round(median(found), 1) for name, found in times.items()}
        yield {"steps": steps, **medians}


# On CUDA: what each improvement gains, and which kernels take the time.


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to run an update: a row of the table."""

    name: str
    arithmetic: Arithmetic = "fused"
    tf32: bool = False
    """Let torch's own matrix products round to TF32."""
    precision: str = "tf32"
    """Of the fused kernels' products."""


VARIANTS = [
    Variant(name="plain float32", arithmetic="plain"),
    Variant(name="plain TF32", arithmetic="plain", tf32=True),
    Variant(name="fused TF32"),
    Variant(name="auto", arithmetic="auto"),
    Variant(name="fused TF32×3", precision="tf32x3"),
]
AGENTS = {
    "paper": {},
    "fast": {"norm_first": True, "polyak": 0.005, "actor_rate": 3e-4, "critic_rate": 3e-4},
}


def by_variant(args: Args) -> Iterator[dict[str, Any]]:
    """A row for each batch size, agent and variant; one that fails says why."""
    device = torch.device("cpu" if args.smoke else "cuda")
    replay = filled_replay(device, WORLDS * (2 if args.smoke else 1000))
    for batch in (64,) if args.smoke else args.batches:
        for kind, changes in AGENTS.items():
            for variant in VARIANTS[:1] if args.smoke else VARIANTS:
                row: dict[str, Any] = {"batch": batch, "agent": kind, "variant": variant.name}
                try:
                    with switched(variant, replay):
                        agent = d4pg(device, variant.arithmetic, **changes)
                        measure(row, replay, agent, batch, args.unroll, variant)
                except Exception as error:  # the other rows are still wanted
                    traceback.print_exc()
                    row["failed"] = f"{type(error).__name__}: {error}"[:500]
                yield row


@contextmanager
def switched(variant: Variant, replay: Replay) -> Iterator[None]:
    """What a variant switches outside of the agent, put back afterwards."""
    precision, sampler = torch.get_float32_matmul_precision(), replay._sampler
    plain, decided = variant.arithmetic == "plain", sampler._fused
    torch.set_float32_matmul_precision("high" if variant.tf32 else "highest")
    if plain:
        sampler._fused = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        if plain:
            sampler._fused = decided


def measure(
    row: dict[str, Any], replay: Replay, agent: D4PG, batch: int, unroll: int, variant: Variant
) -> None:
    """Fill a row figure by figure, so that a later failure leaves the earlier ones."""
    rng = torch.Generator(agent.device).manual_seed(0)
    if agent.arithmetic == "fused":
        from pureward.kernels.d4pg.update import FusedUpdate

        agent._fused[batch] = FusedUpdate(agent, batch, precision=variant.precision)
    own = calls(replay, agent, batch, rng)
    started = time.perf_counter()
    update = repeated(own["update"], unroll, agent, rng)
    row["set_up_seconds"] = round(time.perf_counter() - started, 1)
    row["update_us"] = microseconds(update, unroll, 0.2)
    row["updates_per_second"] = round(1e6 / row["update_us"])
    row["draw_us"] = microseconds(repeated(own["draw"], unroll, agent, rng), unroll, 0.1)
    both = repeated(own["draw_and_update"], unroll, agent, rng)
    row["draw_and_update_us"] = microseconds(both, unroll, 0.2)
    row["drawn_updates_per_second"] = round(1e6 / row["draw_and_update_us"])
    if agent.arithmetic == "auto":
        # Whether the kernels have been found to agree on this machine.
        row["fused"] = agent._fused.get(batch) is not None
        row["fused_sampler"] = bool(replay._sampler._fused)
    if agent.device.type == "cuda":
        row["kernels"] = kernels(both, unroll)
        row["nodes"] = round(sum(one["count"] for one in row["kernels"]))


def microseconds(run: Callable[[], object], times: int, seconds: float, rounds: int = 5) -> float:
    """Median over rounds of the time of one call, of which a run has `times`."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    run()
    found = []
    for _ in range(rounds):
        synchronize(device)
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < seconds / rounds:
            for _ in range(5):
                run()
                count += times
            synchronize(device)
        found.append((time.perf_counter() - start) / count)
    return round(1e6 * median(found), 1)


def kernels(run: Callable[[], object], times: int, replays: int = 5) -> list[dict[str, Any]]:
    """Kernels of one call by their time, in microseconds."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        for _ in range(replays):
            run()
        torch.cuda.synchronize()
    each = replays * times
    rows = [
        {
            "kernel": event.key[:80],
            "count": round(event.count / each, 2),
            "us": round(event.self_device_time_total / each, 2),
        }
        for event in seen.key_averages()
    ]
    return sorted(rows, key=lambda row: -row["us"])


def main(args: Args) -> None:
    report: dict[str, Any] = {"torch": torch.__version__, "machine": platform.machine()}
    if args.device == "cuda" and not args.smoke:
        report["gpu"] = torch.cuda.get_device_name()
    if args.device == "cpu" and not args.filled:
        report |= beside_td3(args)
        print(json.dumps(report))
        write(report, args.out)
        raise SystemExit(report["ratio_median"] < REQUIRED)
    rows = report["rows"] = []
    for row in by_fullness(args) if args.filled else by_variant(args):
        rows.append(row)
        told = {name: value for name, value in row.items() if name != "kernels"}
        print(json.dumps(told, ensure_ascii=False), flush=True)
        write(report, args.out)


def write(report: dict[str, Any], out: Path | None) -> None:
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
