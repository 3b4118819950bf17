# SPDX-License-Identifier: Apache-2.0
"""`pureward train` on a Gymnasium environment, on a CPU: overhead, and speed beside SB3's SAC.

    pip install 'pureward[all,sb3]' 'gymnasium[classic-control]'
    python benchmarks/own_env.py

1. The share of the time of a whole `pureward.train` that is spent outside the environment, its
   rendering and the networks: replay, labels, logs, checkpoints. At most 20% is required.
2. Environment steps per second beside SB3's SAC on a `RewardVecEnv` with a `RewardReplayBuffer`.
   Both have the same environment, frames, number of worlds, updates of the policy per step, batch
   size, discriminator and updates of it; both learn while they are measured, and take turns in one
   process. At least 1.5 times is required.

Time is processor time of one thread, so that other processes change it little. The figures are
ratios of one run; the seconds depend on the machine.
"""

import json
import os
import platform
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame needs no display

import numpy as np
import torch
import tyro
from stable_baselines3 import SAC
from stable_baselines3.common.env_util import make_vec_env

import pureward
from pureward.agents.d4pg.agent import D4PG
from pureward.data.episodes import Episode
from pureward.data.writing import write_episodes
from pureward.envs.gymnasium_env import GymnasiumEnv
from pureward.files import write_json
from pureward.hooks.stable_baselines3 import (
    RecordFrames,
    RewardCallback,
    RewardReplayBuffer,
    RewardVecEnv,
)
from pureward.rewards.discriminator import Discriminator
from pureward.rewards.learned import LearnedReward
from pureward.runs.collect import rollout
from pureward.runs.directory import RunDirectory
from pureward.training.run import Run

MOST_OUTSIDE = 0.20
LEAST_RATIO = 1.5
WORLDS = 8
# Part of the time → the functions that it is spent in.
PARTS: dict[str, list[tuple[type, str]]] = {
    "environment and rendering": [(GymnasiumEnv, "step"), (GymnasiumEnv, "reset")],
    "networks": [
        (D4PG, "update"),
        (D4PG, "act"),
        (Discriminator, "update"),
        (Discriminator, "logits"),
        (LearnedReward, "__call__"),
        (LearnedReward, "scores"),
        (LearnedReward, "success_logits"),
    ],
}


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to measure."""

    environment: str = "Pendulum-v1"
    """A Gymnasium id; it must have continuous actions and render images."""
    steps: int = 1_600
    """Environment steps of the run whose overhead is measured."""
    rounds: int = 3
    """Turns of each of the two learners."""
    round_steps: int = 400
    """Environment steps of a turn."""
    out: Path | None = None
    """JSON file for the figures."""


@contextmanager
def charged(spent: dict[str, float]) -> Iterator[None]:
    """Add the time inside the functions of `PARTS`; a call inside another is not counted twice."""
    depth = [0]

    def timed(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            depth[0] += 1
            began = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                depth[0] -= 1
                if not depth[0]:
                    spent[part] += time.process_time() - began

        return call

    before = [(kind, name, getattr(kind, name)) for rows in PARTS.values() for kind, name in rows]
    for part, rows in PARTS.items():
        for kind, name in rows:
            setattr(kind, name, timed(part, getattr(kind, name)))
    try:
        yield
    finally:
        for kind, name, function in before:
            setattr(kind, name, function)


def record(environment: str, folder: Path) -> list[Episode]:
    """Write and return episodes of random actions: only the time counts here."""
    with pureward.make(f"gym:{environment}", 6, "cpu", cameras=True) as env:
        size = env.action_size
        episodes = rollout(env, lambda state: 2 * torch.rand(len(state), size) - 1)
    write_episodes(folder, episodes, task=f"gym:{environment}")
    return episodes


def settings(environment: str, demonstrations: Path, out: Path, **changes: Any) -> Any:
    # One image, and η at the same times as in SB3's callback.
    changes |= {"replay.frame_stack": 1, "prior": "0.3", "device": "cpu"}
    return pureward.preset(
        f"gym:{environment}",
        method="nn-pugail",
        demonstrations=str(demonstrations),
        out=str(out),
        worlds=WORLDS,
        **changes,
    )


def overhead(args: Args, demonstrations: Path, folder: Path) -> dict[str, Any]:
    """Measure one whole call of `train`."""
    # As many writes, probes and evaluated steps per step as in the preset's 50,000 steps.
    changes = {"env_steps": args.steps, "warmup_steps": args.steps // 25, "evaluate_every": 0}
    changes |= {"evaluate_episodes": max(1, args.steps // 500), "log_every": args.steps // 2}
    changes |= {"checkpoint_every": args.steps, "probe_every": args.steps}
    config = settings(args.environment, demonstrations, folder / "overhead", **changes)
    spent: dict[str, float] = defaultdict(float)
    with charged(spent):
        began = time.process_time()
        pureward.train(config)
        total = time.process_time() - began
    shares = {part: round(seconds / total, 3) for part, seconds in spent.items()}
    return {
        "seconds": round(total, 1),
        "shares": shares,
        "outside": round(1 - sum(shares.values()), 3),
    }


def our_turns(
    args: Args, demonstrations: Path, folder: Path, opened: ExitStack
) -> Callable[[int], None]:
    """Return a function that trains for so many environment steps by D4PG."""
    changes = {"env_steps": 10**6, "warmup_steps": 256}
    config = settings(args.environment, demonstrations, folder / "turns", **changes)
    directory = opened.enter_context(RunDirectory(folder / "turns"))
    run = Run(config, directory, None, opened)

    def turn(steps: int) -> None:
        for _ in range(steps // WORLDS):
            run.step()
        run.write_metrics()

    return turn


def sac_turns(args: Args, episodes: list[Episode]) -> Callable[[int], None]:
    """Return a function that trains for so many environment steps by SAC."""
    ours = pureward.preset(f"gym:{args.environment}", method="nn-pugail", demonstrations="unused")
    reward = pureward.OnlineReward(episodes, prior=0.3, config=ours.reward, device="cpu")
    options = {"render_mode": "rgb_array"}
    venv = make_vec_env(
        args.environment, WORLDS, seed=0, env_kwargs=options, wrapper_class=RecordFrames
    )
    model = SAC(
        "MlpPolicy",
        RewardVecEnv(venv, reward, frames="render"),
        batch_size=ours.batch,
        learning_starts=256,
        train_freq=1,
        gradient_steps=ours.updates_per_step,
        buffer_size=10_000,
        replay_buffer_class=RewardReplayBuffer,
        device="cpu",
        seed=0,
    )

    def turn(steps: int) -> None:
        callback = RewardCallback(reward, every=steps // 2, updates=steps // WORLDS // 2)
        callback._on_training_end = lambda: None  # no verdict after every turn
        model.learn(steps, callback=callback, reset_num_timesteps=False)

    return turn


def beside_sac(
    args: Args, demonstrations: Path, episodes: list[Episode], folder: Path, opened: ExitStack
) -> dict[str, Any]:
    """Let the two learners take turns."""
    learners = {
        "pureward": our_turns(args, demonstrations, folder, opened),
        "SAC": sac_turns(args, episodes),
    }
    times: dict[str, list[float]] = {name: [] for name in learners}
    for turn in learners.values():
        turn(320)  # random actions, and the first updates
    for _ in range(args.rounds):
        for name, turn in learners.items():
            began = time.process_time()
            turn(args.round_steps)
            times[name].append(time.process_time() - began)
    ratios = [sac / ours for ours, sac in zip(times["pureward"], times["SAC"], strict=True)]
    speeds = {name: round(args.round_steps / median(t), 1) for name, t in times.items()}
    return {"steps_per_second": speeds, "ratio_to_SAC": round(float(np.median(ratios)), 2)}


def main(args: Args) -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as opened:
        folder = Path(temporary)
        demonstrations = folder / "demonstrations"
        episodes = record(args.environment, demonstrations)
        report: dict[str, Any] = {
            "environment": args.environment,
            "torch": torch.__version__,
            "machine": platform.machine(),
            "overhead": overhead(args, demonstrations, folder),
            "beside_sac": beside_sac(args, demonstrations, episodes, folder, opened),
        }
    report |= {"outside_required": MOST_OUTSIDE, "ratio_required": LEAST_RATIO}
    print(json.dumps(report, indent=1))
    if args.out is not None:
        write_json(args.out, report)
    good = report["overhead"]["outside"] <= MOST_OUTSIDE
    raise SystemExit(not (good and report["beside_sac"]["ratio_to_SAC"] >= LEAST_RATIO))


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
