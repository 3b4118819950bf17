# SPDX-License-Identifier: Apache-2.0
"""Control steps and frames per second of the simulated tasks.

    MUJOCO_GL=egl python benchmarks/simulation.py     # on a CPU, against dm_control and MuJoCo
    python benchmarks/simulation.py --device cuda     # the walker on a GPU, and how faithful it is

On a CPU, steps are the walker's against the control suite's own loop, and lift's against a fixed
rate. Rates are per second of processor time of all threads, so that other programs change them
little. The suite steps one world in Python; we step a batch on every core, with observations and
rewards. Frames are 64×64 images of the walker against `mujoco.Renderer`, at the model's own quality
and with shadows and multisampling off. That peer needs OpenGL (on Debian: apt-get install libegl1
libgl1); without it this part is skipped. Each side runs in this process, in turn with its peer.

On CUDA, whole `env.step` calls are timed (physics, observation, reward, resets, frames) after
kernels have been compiled, and control steps are compared with C MuJoCo from the same states.
Figures go to simulation.json.
"""

import json
import os
import platform
import sys
import time
import warnings
from dataclasses import dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any, Literal, cast

import mujoco
import numpy as np
import torch
import tyro
import warp as wp

import pureward
from pureward.envs.sim.camera import Cameras
from pureward.envs.sim.engine import SAVED
from pureward.envs.sim.mujoco_cpu import CpuEngine
from pureward.envs.sim.mujoco_warp import WarpEngine
from pureward.envs.simulated import TaskEnv
from timing import commit, milliseconds, synchronize

WORLDS, STEPS, ROUNDS = 256, 25, 7
LIFT_WORLDS, DRAWN_WORLDS, DRAWN_ROUNDS = 64, 64, 5
REQUIRED, LIFT_REQUIRED = 1.8, 1000.0
DRAWN_REQUIRED = {"default quality": 20.0, "shadows and multisampling off": 5.0}
QUANTILES = (0.5, 0.9, 0.99, 0.999, 1.0)


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to measure, and where to write it."""

    device: Literal["cpu", "cuda"] = "cpu"
    """"cpu" for ratios to peers, "cuda" for the speed on a GPU."""
    worlds: tuple[int, ...] = (128, 1024, 4096, 8192, 16384)
    """Batches, on CUDA."""
    out: Path = Path("results/simulation")
    """Folder for simulation.json, on CUDA."""
    commit: str = ""
    """What is measured, where git cannot tell."""
    smoke: bool = False
    """With `--device cuda`, run at toy size on Warp's CPU device to check this script."""


# On a CPU.


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
    cores = len(os.sched_getaffinity(0))
    print(f"walker, {WORLDS} worlds, {cores} cores, median of {ROUNDS} rounds")
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


# On CUDA.


def walker(worlds: int, device: torch.device, **options: Any) -> TaskEnv:
    env = pureward.make("walker", worlds, str(device), engine="warp", **options)
    return cast(TaskEnv, env)


def speed(worlds: int, device: torch.device, cameras: bool) -> dict:
    began = time.perf_counter()
    env = walker(worlds, device, cameras=cameras, stagger=True, seed=0)
    toy = device.type == "cpu"
    action = torch.empty(worlds, env.action_size, device=env.device)

    def step() -> None:
        env.step(action.uniform_(-1.0, 1.0))

    for _ in range(2 if toy else 100):
        step()
    synchronize(device)
    ready = time.perf_counter() - began
    ms = milliseconds(step, device, repeats=1 if toy else 100)
    env.check()
    return {
        "worlds": worlds,
        "cameras": cameras,
        "ms_per_control_step": round(ms, 4),
        "control_steps_per_second": round(worlds / ms * 1e3),
        "seconds_until_ready": round(ready, 2),
        "bytes_per_world": bytes_per_world(cast(WarpEngine, env.engine)),
        "fused": getattr(env.engine, "fused", False),
    }


def bytes_per_world(engine: WarpEngine) -> int:
    """Return the memory of the batch's arrays divided by its worlds."""
    groups = (engine.warp_data, engine.warp_data.contact, engine.warp_data.efc)
    arrays = [getattr(group, field.name) for group in groups for field in fields(group)]
    return sum(a.capacity for a in arrays if isinstance(a, wp.array)) // engine.worlds


def parts(worlds: int, device: torch.device) -> dict:
    """Where a control step's time goes."""
    env = walker(worlds, device, cameras=True)
    assert isinstance(env.engine, WarpEngine)
    assert env.cameras is not None
    stepwise = WarpEngine(
        env.engine.model,
        worlds,
        substeps=env.task.substeps,
        limits=env.task.limits,
        device=device,
        fused=False,
    )
    toy = device.type == "cpu"
    repeats = 1 if toy else 50
    for engine in (env.engine, stepwise):
        engine.state.qpos.copy_(env.engine.state.qpos)
        engine.refresh()

    def moving(engine: WarpEngine) -> float:
        """Limbs thrashing at random, as under an untrained policy."""

        def step() -> None:
            engine.state.ctrl.uniform_(-1.0, 1.0)
            engine.step()

        for _ in range(2 if toy else 60):
            step()
        return round(milliseconds(step, device, repeats), 4)

    def resting(engine: WarpEngine) -> float:
        """Lying on the ground with every capsule touching: the most constraint rows."""
        engine.state.ctrl.zero_()
        for _ in range(2 if toy else 150):
            engine.step()
        return round(milliseconds(engine.step, device, repeats), 4)

    return {
        "worlds": worlds,
        "physics_fused_ms": moving(env.engine),
        "physics_mujoco_warp_ms": moving(stepwise),
        "physics_fused_at_rest_ms": resting(env.engine),
        "physics_mujoco_warp_at_rest_ms": resting(stepwise),
        "refresh_ms": round(milliseconds(env.engine.refresh, device, repeats), 4),
        "render_ms": round(milliseconds(env.cameras.render, device, repeats), 4),
    }


def agreement(device: torch.device, fused: bool) -> dict:
    """Deviation from C MuJoCo after one control step (ten substeps) from the same states."""
    worlds, steps = (4, 2) if device.type == "cpu" else (256, 100)
    task = pureward.TASKS["walker"]
    model = task.build()
    reference = CpuEngine(model, worlds, substeps=task.substeps)
    engine = WarpEngine(
        model, worlds, substeps=task.substeps, limits=task.limits, device=device, fused=fused
    )
    generator = torch.Generator().manual_seed(0)
    reference.state.qpos.copy_(task.reset(model, torch.device("cpu"))(worlds, generator)["qpos"])
    reference.refresh()
    errors, rewards = [], []
    for _ in range(steps):
        ctrl = 2.0 * torch.rand(worlds, model.nu, generator=generator) - 1.0
        reference.state.ctrl.copy_(ctrl)
        for name in SAVED:
            getattr(engine.state, name).copy_(getattr(reference.state, name))
        reference.step()
        engine.step()
        errors.append((engine.state.qpos.cpu() - reference.state.qpos).abs().amax(1))
        rewards.append((task.reward(engine.state).cpu() - task.reward(reference.state)).abs())
    levels = torch.tensor(QUANTILES, dtype=torch.float64)
    return {
        "engine": "fused" if fused else "mujoco_warp",
        "control_steps": worlds * steps,
        "quantiles": QUANTILES,
        "qpos_error": torch.cat(errors).quantile(levels).tolist(),
        "reward_error": torch.cat(rewards).quantile(levels).tolist(),
    }


def versions(measured: str) -> dict[str, str]:
    """What the figures were made with; `measured` is the commit, where git cannot tell."""
    found = {
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "mujoco": mujoco.__version__,
    }
    for package in ("mujoco-warp", "warp-lang"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unpacked"
    return found | {"commit": measured or commit()}


def on_gpu(args: Args) -> None:
    device = torch.device("cpu" if args.smoke else "cuda")
    batches = (2, 4) if args.smoke else args.worlds
    results = {
        "versions": versions(args.commit),
        "speed": [speed(n, device, cameras) for n in batches for cameras in (False, True)],
        "parts": [parts(n, device) for n in batches[1:2] or batches],
        "agreement": [agreement(device, fused) for fused in (True, False)],
    }
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "simulation.json").write_text(json.dumps(results, indent=1) + "\n")
    for row in results["speed"]:
        print(
            f"{row['worlds']:6} worlds, {'camera' if row['cameras'] else 'no camera':9}: "
            f"{row['ms_per_control_step']:8.3f} ms a control step, "
            f"{row['control_steps_per_second']:10,} a second, {row['bytes_per_world']:,} bytes"
        )
    for row in results["parts"] + results["agreement"]:
        print(json.dumps(row))


def main(args: Args) -> None:
    if args.device == "cuda":
        on_gpu(args)
        return
    fast = [frames_are_fast_enough(), walker_is_fast_enough(), lift_is_fast_enough()]
    sys.exit(not all(fast))


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
