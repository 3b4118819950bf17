# SPDX-License-Identifier: Apache-2.0
"""D4PG updates per second.

    python benchmarks/d4pg.py                   # on a CPU, beside Stable-Baselines3's TD3
    python benchmarks/d4pg.py --device cuda     # captured in CUDA graphs, by batch size

On a CPU both learners draw their batches from their own replay and take turns in one process,
round by round; sizes and batch are equal: actor 300-200, critics 400-300, 24 states and 6
actions as the walker has. TD3 trains two critics on scalars and its actor every second time,
D4PG one critic of 51 atoms and its actor every time.
"""

import json
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
import torch
import tyro
from torch import Tensor

from pureward.agent.categorical import Support, project, support
from pureward.agent.d4pg import D4PG, Batch, D4PGConfig
from pureward.capture import CapturedCall
from pureward.data.replay import Replay, ReplayConfig
from pureward.types import Observation, Step

STATE, ACTION = 24, 6
WORLDS = 1000
REQUIRED = 1.5


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to measure."""

    device: Literal["cpu", "cuda"] = "cpu"
    """"cpu" for the ratio to TD3, "cuda" for updates per second in a graph."""
    batch: int = 256
    """Batch size on the CPU."""
    batches: tuple[int, ...] = (256, 2048, 8192, 32768)
    """Batch sizes on CUDA."""
    rounds: int = 15
    """Times each is measured; the table shows the best and the median."""
    updates: int = 20
    """Updates a round, on the CPU."""
    unroll: int = 8
    """Updates in the larger of the graphs on CUDA."""
    smoke: bool = False
    """With `--device cuda`, run at toy size on the CPU to check this script."""
    out: Path | None = None
    """JSON file for the figures."""


def filled_replay(device: torch.device, steps: int = 100_000) -> Replay:
    replay = Replay(
        ReplayConfig(capacity=steps),
        worlds=WORLDS,
        horizon=1000,
        state_size=STATE,
        action_size=ACTION,
        device=device,
    )
    rng = torch.Generator(device).manual_seed(0)
    never = torch.zeros(WORLDS, dtype=torch.bool, device=device)
    for _ in range(steps // WORLDS):
        obs = Observation(
            state=torch.randn(WORLDS, STATE, generator=rng, device=device), frames=None
        )
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


def d4pg(device: torch.device, **changes: Any) -> D4PG:
    config = D4PGConfig(**changes)
    return D4PG(config, state_size=STATE, action_size=ACTION, device=device)


def drawn(replay: Replay, batch: int, rng: torch.Generator) -> Batch:
    windows = replay.sample(batch, rng)
    return Batch(
        state=windows.state,
        action=windows.action,
        reward=windows.n_step_return(windows.task_reward),
        discount=windows.discount,
        next_state=windows.next_state,
    )


def td3(batch: int) -> Callable[[int], None]:
    """Stable-Baselines3's `train()`, its replay full of as many steps."""
    import gymnasium
    from stable_baselines3 import TD3
    from stable_baselines3.common.logger import Logger

    class Nothing(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (STATE,), np.float32)
        action_space = gymnasium.spaces.Box(-1, 1, (ACTION,), np.float32)

    layers = {"pi": [300, 200], "qf": [400, 300]}
    learner = TD3(
        "MlpPolicy",
        Nothing(),
        learning_rate=1e-4,
        batch_size=batch,
        buffer_size=100_000,
        policy_kwargs={"net_arch": layers},
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


def beside_td3(args: Args) -> dict[str, object]:
    device = torch.device("cpu")
    replay, agent, rng = filled_replay(device), d4pg(device), torch.Generator().manual_seed(1)

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
            learn(args.updates)
            charged[name] += time.process_time() - began
            times[name].append((time.perf_counter() - start) / args.updates)
    # Taking turns, both see the same machine, yet two threads that wait for each other suffer
    # from whatever else runs: the bar is meant for a quiet one.
    ratios = [a / b for a, b in zip(times["TD3"], times["D4PG"], strict=True)]
    row: dict[str, object] = {"batch": args.batch, "threads": torch.get_num_threads()}
    for name, seconds in times.items():
        row[f"{name}_updates_per_second"] = round(1 / median(seconds), 1)
        row[f"{name}_updates_per_second_best"] = round(1 / min(seconds), 1)
    row["ratio_of_processor_time"] = round(charged["TD3"] / charged["D4PG"], 2)
    row["ratio_of_best"] = round(min(times["TD3"]) / min(times["D4PG"]), 2)
    return row | {"ratio_median": round(median(ratios), 2), "ratio_required": REQUIRED}


class Repeated:
    """Work to be timed: a CUDA graph of several calls, or the calls themselves on a CPU."""

    def __init__(self, call: Callable[[], Tensor], times: int, kept: list[Tensor], rng):
        def several() -> Tensor:
            for _ in range(times - 1):
                call()
            return call()

        self.run: Callable[[], object] = several
        if rng.device.type == "cuda":
            graph = CapturedCall(several, (), kept=kept, generators=[rng])
            self.run = graph.graph.replay
        self.times = times

    def microseconds(self, rounds: int, seconds: float = 0.3) -> float:
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
        return 1e6 * median(found)


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def in_graphs(args: Args) -> list[dict[str, object]]:
    device = torch.device("cpu" if args.smoke else "cuda")
    replay = filled_replay(device, WORLDS * (2 if args.smoke else 1000))
    rows: list[dict[str, object]] = []
    for precision in ("highest", "high"):
        torch.set_float32_matmul_precision(precision)  # "high" is TF32
        for batch in (64,) if args.smoke else args.batches:
            for kind, changes in AGENTS.items():
                row = {"precision": precision, "batch": batch, "agent": kind}
                rows.append(row | graph_row(replay, d4pg(device, **changes), batch, args))
                print(json.dumps(rows[-1]), flush=True)
    return rows


AGENTS = {"paper": {}, "fast": {"norm_first": True, "polyak": 0.005}}


def graph_row(replay: Replay, agent: D4PG, batch: int, args: Args) -> dict[str, object]:
    rng = torch.Generator(agent.device).manual_seed(0)
    fixed = drawn(replay, batch, rng)
    kept = [tensor for _, tensor in agent.tensors()]
    cases = {
        "update": (lambda: agent.update(fixed)["critic/loss"], 1),
        f"update_of_{args.unroll}": (lambda: agent.update(fixed)["critic/loss"], args.unroll),
        f"sample_and_update_of_{args.unroll}": (
            lambda: agent.update(drawn(replay, batch, rng))["critic/loss"],
            args.unroll,
        ),
        "sample": (lambda: replay.sample(batch, rng).discount, 1),
    }
    row: dict[str, object] = {}
    for name, (call, times) in cases.items():
        row[f"{name}_us"] = round(Repeated(call, times, kept, rng).microseconds(args.rounds), 1)
    row |= projection_row(batch, rng, args)
    first = row[f"update_of_{args.unroll}_us"]
    assert isinstance(first, float)
    return row | {"updates_per_second": round(1e6 / first)}


def projection_row(batch: int, rng: torch.Generator, args: Args) -> dict[str, object]:
    """The projection as it is, by scattering, and as a dense kernel over pairs of atoms."""
    z = support(0.0, 100.0, 51, rng.device)
    p = torch.rand(batch, 51, generator=rng, device=rng.device).softmax(dim=-1)
    reward = torch.rand(batch, generator=rng, device=rng.device)
    discount = torch.full_like(reward, 0.95)
    return {
        f"project_{name}_us": round(
            Repeated(lambda how=how: how(p, reward, discount, z), 8, [], rng).microseconds(
                args.rounds
            ),
            1,
        )
        for name, how in (("scattered", project), ("dense", project_dense))
    }


def project_dense(p: Tensor, reward: Tensor, discount: Tensor, support: Support) -> Tensor:
    moved = (reward[:, None] + discount[:, None] * support.atoms).clamp(support.low, support.high)
    apart = (moved[:, None, :] - support.atoms[:, None]).abs_()
    near = apart.div_(-support.gap).add_(1.0).clamp_(min=0.0)
    return torch.bmm(near, p[:, :, None])[..., 0]


def main(args: Args) -> None:
    report: dict[str, object] = {"torch": torch.__version__, "machine": platform.machine()}
    if args.device == "cpu":
        report |= beside_td3(args)
        print(json.dumps(report))
    else:
        if not args.smoke:
            report["gpu"] = torch.cuda.get_device_name()
        report["rows"] = in_graphs(args)
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(report, indent=2) + "\n")
    ratio = report.get("ratio_median", REQUIRED)
    assert isinstance(ratio, float)
    raise SystemExit(ratio < REQUIRED)


if __name__ == "__main__":
    main(tyro.cli(Args))
