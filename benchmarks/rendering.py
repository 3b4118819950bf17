# SPDX-License-Identifier: Apache-2.0
"""64×64 walker frames a second: our rasterizer against `mujoco.Renderer` on the same CPU.

    MUJOCO_GL=egl python benchmarks/rendering.py

The peer draws through OpenGL, which needs a system library that pureward does not (on Debian:
apt-get install libegl1 libgl1); without one the benchmark says so and stops. It is timed at the
model's own quality and again with shadows and multisampling off, in turn with ours.
"""

import os
import sys
import time
import warnings
from statistics import median
from typing import cast

import mujoco
import torch

import pureward
from pureward.envs.sim.camera import Cameras
from pureward.envs.simulated import TaskEnv

WORLDS, ROUNDS = 64, 5
REQUIRED = {"default quality": 20.0, "shadows and multisampling off": 5.0}


def our_rate(cameras: Cameras) -> float:
    began = time.perf_counter()
    for _ in range(3):
        cameras.render()
    return 3 * WORLDS / (time.perf_counter() - began)


def peer_rate(renderer: mujoco.Renderer, data: mujoco.MjData, frames: int) -> float:
    began = time.perf_counter()
    for _ in range(frames):
        renderer.update_scene(data, camera="side")
        renderer.render()
    return frames / (time.perf_counter() - began)


def peers() -> dict[str, mujoco.Renderer]:
    """The model's own settings, and the cheapest ones."""
    model = pureward.TASKS["walker"].build()
    default = mujoco.Renderer(model, 64, 64)
    cheap_model = pureward.TASKS["walker"].build()
    cheap_model.vis.quality.shadowsize = 0
    cheap_model.vis.quality.offsamples = 0
    cheap = mujoco.Renderer(cheap_model, 64, 64)
    cheap.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
    return dict(zip(REQUIRED, (default, cheap), strict=True))


def main() -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of GLFW, which finds no display
            renderers = peers()
    except Exception as error:  # any of half a dozen, one for each way GL can be missing
        backend = os.environ.get("MUJOCO_GL", "unset")
        print(f"skipped: mujoco.Renderer found no OpenGL here (MUJOCO_GL={backend}: {error})")
        return
    env = cast(TaskEnv, pureward.make("walker", WORLDS, "cpu"))
    for _ in range(20):
        env.step(2.0 * torch.rand(WORLDS, 6) - 1.0)
    cameras = Cameras(env.engine, env.task.cameras)
    cameras.render()  # compiles
    data = mujoco.MjData(env.engine.model)
    mujoco.mj_forward(env.engine.model, data)
    rounds = [
        [our_rate(cameras), *(peer_rate(renderer, data, 30) for renderer in renderers.values())]
        for _ in range(ROUNDS)
    ]
    print(f"64x64 frames a second on one thread, median of {ROUNDS} rounds")
    print(f"  pureward, {WORLDS} worlds a call: {median(row[0] for row in rounds):,.0f}")
    missed = False
    for column, (name, required) in enumerate(REQUIRED.items(), start=1):
        rate = median(row[column] for row in rounds)
        ratio = median(row[0] / row[column] for row in rounds)
        print(f"  mujoco.Renderer, {name}: {rate:,.0f}; ratio {ratio:.1f} (at least {required})")
        missed |= ratio < required
    sys.exit(missed)


if __name__ == "__main__":
    main()
