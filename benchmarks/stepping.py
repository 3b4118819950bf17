# SPDX-License-Identifier: Apache-2.0
"""Control steps a second and core: the walker against the control suite's own loop, and lift.

    python benchmarks/stepping.py

Both run in this process one after the other, several times in turn, and are charged for the
processor time of all their threads, so that the ratio holds whatever else the machine does. The
suite steps one world in Python; we step a batch on every core and observe and reward it, as a
learner would. Lift has no counterpart to be compared with, so it has a rate to reach: with random
actions, and under the script that has its banana in hand.
"""

import os
import time
from statistics import median

os.environ.setdefault("MUJOCO_GL", "disabled")  # before dm_control looks for a display

import numpy as np
import torch
from dm_control import suite

import pureward

WORLDS, STEPS, ROUNDS = 256, 25, 7
REQUIRED = 1.8
LIFT_WORLDS, LIFT_REQUIRED = 64, 1000.0


def suite_rate() -> float:
    env = suite.load("walker", "walk", task_kwargs={"random": 0})
    env.reset()
    actions = np.random.default_rng(0).uniform(-1, 1, (1500, 6))
    began = time.process_time()
    for action in actions:
        if env.step(action).last():
            env.reset()
    return len(actions) / (time.process_time() - began)


def our_rate(env: pureward.BatchEnv) -> float:
    actions = 2.0 * torch.rand(STEPS, env.worlds, env.action_size) - 1.0
    began = time.process_time()
    for action in actions:
        env.step(action)
    return STEPS * env.worlds / (time.process_time() - began)


def script_rate(env: pureward.BatchEnv) -> float:
    """Physics, observation and reward while the hand closes, lifts and holds."""
    env.reset()
    script, spent, counted = env.script(), 0.0, range(40, 100)
    for index in range(counted.stop):
        action = script()
        began = time.process_time()
        env.step(action)
        spent += time.process_time() - began if index in counted else 0.0
    return len(counted) * env.worlds / spent


def lift_is_fast_enough() -> bool:
    env = pureward.make("lift", LIFT_WORLDS, "cpu")
    rates = {
        "random actions": median(our_rate(env) for _ in range(ROUNDS)),
        "banana in hand": median(script_rate(env) for _ in range(3)),
    }
    print(f"lift, {LIFT_WORLDS} worlds, {len(os.sched_getaffinity(0))} cores")
    for name, rate in rates.items():
        print(f"  {name} {rate:8,.0f}  (at least {LIFT_REQUIRED:,.0f} required)")
    return min(rates.values()) >= LIFT_REQUIRED


def main() -> None:
    env = pureward.make("walker", WORLDS, "cpu")
    rounds = [(our_rate(env), suite_rate()) for _ in range(ROUNDS)]
    ours, theirs = (median(rates) for rates in zip(*rounds, strict=True))
    ratio = median(a / b for a, b in rounds)
    print(
        f"walker, {WORLDS} worlds, {len(os.sched_getaffinity(0))} cores, median of {ROUNDS} rounds"
    )
    print(f"  pureward      {ours:9,.0f} control steps a second of processor time")
    print(f"  control suite {theirs:9,.0f}")
    print(f"  ratio         {ratio:9.2f}  (at least {REQUIRED} required)")
    fast = lift_is_fast_enough()
    raise SystemExit(ratio < REQUIRED or not fast)


if __name__ == "__main__":
    main()
