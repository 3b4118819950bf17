# SPDX-License-Identifier: Apache-2.0
"""Walker on one GPU: control steps a second, with and without a camera, and how faithful they are.

    python benchmarks/simulation_gpu.py --out results/simulation

Times whole `env.step` calls (physics, observation, reward, resets, frames) after kernels have
been compiled, and compares control steps with C MuJoCo from the same states. Writes
simulation.json; `--device cpu` tries the script on Warp's CPU device at toy sizes.
"""

import json
import platform
import time
from dataclasses import dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import cast

import mujoco
import torch
import tyro
import warp as wp

import pureward
import pureward.envs
from pureward.envs.sim.engine import SAVED
from pureward.envs.sim.mujoco_cpu import CpuEngine
from pureward.envs.sim.mujoco_warp import WarpEngine
from pureward.envs.simulated import TaskEnv
from pureward.types import find_device

QUANTILES = (0.5, 0.9, 0.99, 0.999, 1.0)


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to measure, and where to write it."""

    out: Path = Path("results/simulation")
    device: str = "cuda"
    worlds: tuple[int, ...] = (128, 1024, 4096, 8192, 16384)
    commit: str = ""


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def milliseconds(work, device: torch.device, repeats: int, rounds: int = 5) -> float:
    work()
    times = []
    for _ in range(rounds):
        synchronize(device)
        began = time.perf_counter()
        for _ in range(repeats):
            work()
        synchronize(device)
        times.append((time.perf_counter() - began) / repeats * 1e3)
    return median(times)


def speed(worlds: int, device: str, cameras: bool) -> dict:
    began = time.perf_counter()
    env = cast(
        TaskEnv,
        pureward.make(
            "walker", worlds, device, engine="warp", cameras=cameras, stagger=True, seed=0
        ),
    )
    toy = env.device.type == "cpu"
    action = torch.empty(worlds, env.action_size, device=env.device)

    def step() -> None:
        env.step(action.uniform_(-1.0, 1.0))

    for _ in range(2 if toy else 100):
        step()
    synchronize(env.device)
    ready = time.perf_counter() - began
    ms = milliseconds(step, env.device, repeats=1 if toy else 100)
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
    env = cast(TaskEnv, pureward.make("walker", worlds, str(device), engine="warp", cameras=True))
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
    repeats = 1 if device.type == "cpu" else 50
    for engine in (env.engine, stepwise):
        engine.state.qpos.copy_(env.engine.state.qpos)
        engine.refresh()

    def moving(engine: WarpEngine) -> float:
        """Limbs thrashing at random, as under an untrained policy."""

        def step() -> None:
            engine.state.ctrl.uniform_(-1.0, 1.0)
            engine.step()

        for _ in range(2 if device.type == "cpu" else 60):
            step()
        return round(milliseconds(step, device, repeats), 4)

    def resting(engine: WarpEngine) -> float:
        """Lying on the ground with every capsule touching: the most constraint rows."""
        engine.state.ctrl.zero_()
        for _ in range(2 if device.type == "cpu" else 150):
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


def agreement(device: torch.device, fused: bool, worlds: int, steps: int) -> dict:
    """Deviation from C MuJoCo after one control step (ten substeps) from the same states."""
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


def versions() -> dict:
    def of(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return "unpacked"

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    packages = ("mujoco-warp", "warp-lang")
    return {
        "gpu": gpu,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "mujoco": mujoco.__version__,
    } | {name: of(name) for name in packages}


def main(args: Args) -> None:
    device = find_device(args.device)
    toy = device.type == "cpu"
    results = {
        "versions": versions() | {"commit": args.commit},
        "speed": [
            speed(worlds, args.device, cameras)
            for worlds in args.worlds
            for cameras in (False, True)
        ],
        "parts": [parts(worlds, device) for worlds in args.worlds[1:2] or args.worlds],
        "agreement": [
            agreement(device, fused, worlds=4 if toy else 256, steps=2 if toy else 100)
            for fused in (True, False)
        ],
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


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
