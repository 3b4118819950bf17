# SPDX-License-Identifier: Apache-2.0
"""Control steps and frames per second on a CPU, against dm_control and `mujoco.Renderer`.

    MUJOCO_GL=egl python benchmarks/simulation_cpu.py

Steps: the walker against the control suite's own loop, and lift against a fixed rate. Rates are per
second of processor time of all threads, so that other programs change them little. The suite steps
one world in Python; we step a batch on every core, with observations and rewards.

Frames: 64×64 images of the walker against `mujoco.Renderer`, at the model's own quality and with
shadows and multisampling off. The peer needs OpenGL (on Debian: apt-get install libegl1 libgl1);
without it this part is skipped.

Each side runs in this process, in turn with its peer.
"""

import os
import sys
import time
import warnings
from statistics import median
from typing import cast

import mujoco
import numpy as np
import torch

import pureward
from pureward.envs.sim.camera import Cameras
from pureward.envs.simulated import TaskEnv

WORLDS, STEPS, ROUNDS = 256, 25, 7
LIFT_WORLDS, DRAWN_WORLDS, DRAWN_ROUNDS = 64, 64, 5
REQUIRED, LIFT_REQUIRED = 1.8, 1000.0
DRAWN_REQUIRED = {"default quality": 20.0, "shadows and multisampling off": 5.0}


def suite_rate() -> float:
    os.environ["MUJOCO_GL"] = "disabled"  # dm_control would look for a display
    from dm_control import suite

    env = suite.load("walker", "walk", task_kwargs={"random": 0})
    env.reset()
    actions = np.random.default_rng(0).uniform(-1, 1, (1500, 6))
    began = time.process_time()
    for action in actions:
        if env.step(action).last():
            env.reset()
    return len(actions) / (time.process_time() - began)


def step_rate(env: pureward.BatchEnv) -> float:
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


def walker_is_fast_enough() -> bool:
    env = pureward.make("walker", WORLDS, "cpu")
    rounds = [(step_rate(env), suite_rate()) for _ in range(ROUNDS)]
    ours, theirs = (median(rates) for rates in zip(*rounds, strict=True))
    ratio = median(a / b for a, b in rounds)
    print(
        f"walker, {WORLDS} worlds, {len(os.sched_getaffinity(0))} cores, median of {ROUNDS} rounds"
    )
    print(f"  pureward      {ours:9,.0f} control steps per second of processor time")
    print(f"  control suite {theirs:9,.0f}")
    print(f"  ratio         {ratio:9.2f}  (at least {REQUIRED} required)")
    return ratio >= REQUIRED


def lift_is_fast_enough() -> bool:
    env = pureward.make("lift", LIFT_WORLDS, "cpu")
    rates = {
        "random actions": median(step_rate(env) for _ in range(ROUNDS)),
        "banana in hand": median(script_rate(env) for _ in range(3)),
    }
    print(f"lift, {LIFT_WORLDS} worlds, {len(os.sched_getaffinity(0))} cores")
    for name, rate in rates.items():
        print(f"  {name} {rate:8,.0f}  (at least {LIFT_REQUIRED:,.0f} required)")
    return min(rates.values()) >= LIFT_REQUIRED


def frame_rate(cameras: Cameras) -> float:
    began = time.perf_counter()
    for _ in range(3):
        cameras.render()
    return 3 * DRAWN_WORLDS / (time.perf_counter() - began)


def peer_rate(renderer: mujoco.Renderer, data: mujoco.MjData, frames: int) -> float:
    began = time.perf_counter()
    for _ in range(frames):
        renderer.update_scene(data, camera="side")
        renderer.render()
    return frames / (time.perf_counter() - began)


def peers() -> dict[str, mujoco.Renderer]:
    """The model's own settings, and the cheapest ones."""
    default = mujoco.Renderer(pureward.TASKS["walker"].build(), 64, 64)
    cheap_model = pureward.TASKS["walker"].build()
    cheap_model.vis.quality.shadowsize = 0
    cheap_model.vis.quality.offsamples = 0
    cheap = mujoco.Renderer(cheap_model, 64, 64)
    cheap.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
    return dict(zip(DRAWN_REQUIRED, (default, cheap), strict=True))


def frames_are_fast_enough() -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of GLFW, which finds no display
            renderers = peers()
    except Exception as error:  # any of half a dozen, one for each way GL can be missing
        backend = os.environ.get("MUJOCO_GL", "unset")
        print(f"frames skipped: mujoco.Renderer found no OpenGL (MUJOCO_GL={backend}: {error})")
        return True
    env = cast(TaskEnv, pureward.make("walker", DRAWN_WORLDS, "cpu"))
    for _ in range(20):
        env.step(2.0 * torch.rand(DRAWN_WORLDS, 6) - 1.0)
    cameras = Cameras(env.engine, env.task.cameras)
    cameras.render()  # compiles
    data = mujoco.MjData(env.engine.model)
    mujoco.mj_forward(env.engine.model, data)
    rounds = [
        [frame_rate(cameras), *(peer_rate(renderer, data, 30) for renderer in renderers.values())]
        for _ in range(DRAWN_ROUNDS)
    ]
    print(f"64×64 frames per second on one thread, median of {DRAWN_ROUNDS} rounds")
    print(f"  pureward, {DRAWN_WORLDS} worlds a call: {median(row[0] for row in rounds):,.0f}")
    fast = True
    for column, (name, required) in enumerate(DRAWN_REQUIRED.items(), start=1):
        rate = median(row[column] for row in rounds)
        ratio = median(row[0] / row[column] for row in rounds)
        print(f"  mujoco.Renderer, {name}: {rate:,.0f}; ratio {ratio:.1f} (at least {required})")
        fast &= ratio >= required
    return fast


if __name__ == "__main__":
    fast = [frames_are_fast_enough(), walker_is_fast_enough(), lift_is_fast_enough()]
    sys.exit(not all(fast))
