# SPDX-License-Identifier: Apache-2.0
"""Lift on one GPU: control steps a second, with and without cameras, and where the time goes.

    python benchmarks/jaco_gpu.py --out results/simulation

Times whole `env.step` calls (physics, observation, reward, resets, frames) after kernels have
been compiled, and compares control steps with C MuJoCo from the same states. Writes jaco.json
after every row; a row that fails says why and the rest go on. `--device cpu` tries the script on
Warp's CPU device at toy sizes.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
import tyro

import pureward
import pureward.envs
from pureward.envs.sim.engine import SAVED, save_state
from pureward.envs.sim.mujoco_warp import WarpEngine
from pureward.envs.simulated import TaskEnv
from pureward.types import find_device
from simulation_gpu import milliseconds, synchronize, versions

TASK = "lift"
GRASPED = 75  # control steps after which the script has the banana in hand
COMPARED = (40, 60, 90, 110, 130, 150, 170, 200)  # steps of stacking: grasp, carry, place


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to measure, and where to write it."""

    out: Path = Path("results/simulation")
    device: str = "cuda"
    worlds: tuple[int, ...] = (128, 1024, 4096)
    commit: str = ""


def make(worlds: int, device: str, **options: Any) -> TaskEnv:
    return cast(TaskEnv, pureward.make(TASK, worlds, device, engine="warp", **options))


def ready(device: str) -> dict:
    """Seconds until the first step is done: compilation on a new machine, loading afterwards."""
    began = time.perf_counter()
    env = make(2, device, cameras=True)
    env.step(torch.zeros(2, env.action_size, device=env.device))
    synchronize(env.device)
    return {"seconds_until_first_step": round(time.perf_counter() - began, 2)}


def speed(worlds: int, device: str, cameras: bool, toy: bool) -> dict:
    """Random actions in worlds that are spread over their episodes."""
    env = make(worlds, device, cameras=cameras, stagger=True)
    action = torch.empty(worlds, env.action_size, device=env.device)

    def step() -> None:
        env.step(action.uniform_(-1.0, 1.0))

    for _ in range(2 if toy else 40):
        step()
    ms = milliseconds(step, env.device, repeats=1 if toy else 40, rounds=3)
    env.check()
    return {
        "worlds": worlds,
        "cameras": cameras,
        "ms_per_control_step": round(ms, 3),
        "control_steps_per_second": round(worlds / ms * 1e3),
        "bytes_per_world": env.engine.bytes_per_world(),
    }


def grasping(worlds: int, device: str, toy: bool, **options: Any) -> TaskEnv:
    """Worlds in which the script holds the banana."""
    env = make(worlds, device, **options)
    env.reset()
    script = env.script()
    for _ in range(2 if toy else GRASPED):
        env.step(script())
    return env


def parts(worlds: int, device: str, toy: bool) -> dict:
    """What a control step is made of, banana in hand."""
    env = grasping(worlds, device, toy, cameras=True)
    repeats = 1 if toy else 20
    assert env.cameras is not None
    step = milliseconds(env.engine.step, env.device, repeats, rounds=3)
    return {
        "worlds": worlds,
        "physics_ms": round(step, 3),
        "refresh_ms": round(milliseconds(env.engine.refresh, env.device, repeats, rounds=3), 3),
        "render_ms": round(milliseconds(env.cameras.render, env.device, repeats, rounds=3), 3),
        "observe_ms": round(
            milliseconds(lambda: env.task.observe(env.engine.state), env.device, repeats), 3
        ),
        "reward_ms": round(
            milliseconds(lambda: env.task.reward(env.engine.state), env.device, repeats), 3
        ),
    }


def what_if(worlds: int, device: str, toy: bool, iterations: int, conditional: bool) -> dict:
    """Physics alone under another limit of solver iterations, or with the loop unrolled."""
    env = grasping(worlds, device, toy)
    state = env.state_dict()
    other = make(worlds, device)
    engine = other.engine
    assert isinstance(engine, WarpEngine)
    for model in (engine.warp_model, engine._substep_model):
        model.opt.iterations = iterations
        model.opt.graph_conditional = conditional
    other.load_state_dict(state)
    ms = milliseconds(engine.step, env.device, 1 if toy else 20, rounds=3)
    return {
        "worlds": worlds,
        "iterations": iterations,
        "conditional": conditional,
        "physics_ms": round(ms, 3),
        "most_iterations_used": int(engine.field("solver_niter").max()),
    }


def loads(worlds: int, device: str, toy: bool) -> dict:
    """The most contacts and constraints over an episode of picking up and shaking."""
    env = make(worlds, device)
    env.reset()
    script = env.script()
    contacts = torch.zeros((), device=env.device)
    constraints = torch.zeros((), device=env.device)
    iterations = torch.zeros((), device=env.device)
    noise = torch.zeros(worlds, env.action_size, device=env.device)
    for index in range(2 if toy else 250):
        if index % 8 == 0:
            noise.normal_(std=0.4)
        env.step((script() + noise).clamp(-1.0, 1.0))
        contacts = torch.maximum(contacts, env.engine.field("nacon").max() / worlds)
        constraints = torch.maximum(constraints, env.engine.field("nefc").max())
        iterations += env.engine.field("solver_niter").float().mean()
    env.check()
    return {
        "worlds": worlds,
        "most_contacts_on_average": round(float(contacts), 1),
        "most_constraints_in_a_world": int(constraints),
        "mean_iterations": round(float(iterations) / (2 if toy else 250), 2),
        "limits": str(env.task.limits),
    }


def agreement(worlds: int, device: str, iterations: int) -> dict:
    """How far a control step in the middle of stacking ends from C MuJoCo's."""
    env = cast(TaskEnv, pureward.make("stack", worlds, "cpu", seed=1))
    env.reset()
    limits = replace(env.task.limits, iterations=iterations)
    engine = WarpEngine(
        env.engine.model,
        worlds,
        substeps=env.task.substeps,
        limits=limits,
        device=torch.device(device),
    )
    script, generator = env.script(), torch.Generator().manual_seed(0)
    noise = torch.zeros(worlds, env.action_size)
    errors, most = [], 0
    for index in range(COMPARED[-1] + 1):
        if index % 8 == 0:
            noise = 0.4 * torch.randn(noise.shape, generator=generator)
        action = (script() + noise).clamp(-1.0, 1.0)
        before = save_state(env.engine.state)
        env.step(action)
        if index in COMPARED:
            before["ctrl"] = env.engine.state.ctrl
            for name in SAVED:
                getattr(engine.state, name).copy_(before[name])
            engine.step()
            errors.append((engine.state.qpos.cpu() - env.engine.state.qpos).abs().amax(1))
            most = max(most, int(engine.field("solver_niter").max()))
    levels = torch.tensor((0.5, 0.9, 0.99, 1.0), dtype=torch.float64)
    return {
        "control_steps": worlds * len(COMPARED),
        "iterations": iterations,
        "most_iterations_used": most,
        "quantiles": levels.tolist(),
        "qpos_error": torch.cat(errors).double().quantile(levels).tolist(),
    }


def kernels(worlds: int, device: str, toy: bool, top: int = 25) -> dict:
    """Kernels of one control step by the time they take, from CUDA's own trace."""
    if toy:
        return {"skipped": "needs CUDA"}
    env = grasping(worlds, device, toy, cameras=True)
    activity = torch.profiler.ProfilerActivity.CUDA
    steps = 5
    action = torch.zeros(worlds, env.action_size, device=env.device)
    with torch.profiler.profile(activities=[activity]) as profile:
        for _ in range(steps):
            env.step(action)
        synchronize(env.device)
    rows = sorted(profile.key_averages(), key=lambda row: -row.self_device_time_total)
    return {
        "worlds": worlds,
        "launches": round(sum(row.count for row in rows) / steps),
        "busy_ms": round(sum(row.self_device_time_total for row in rows) / steps / 1e3, 3),
        "top": [
            {
                "kernel": row.key[:80],
                "launches": round(row.count / steps, 1),
                "ms": round(row.self_device_time_total / steps / 1e3, 4),
            }
            for row in rows[:top]
        ],
    }


def main(args: Args) -> None:
    device = str(find_device(args.device))
    toy = device == "cpu"
    few, middle = args.worlds[0], args.worlds[len(args.worlds) // 2]
    results: dict[str, Any] = {"versions": versions() | {"commit": args.commit}}
    args.out.mkdir(parents=True, exist_ok=True)

    def row(name: str, measure: Callable[..., dict], *arguments: Any) -> None:
        began = time.perf_counter()
        try:
            told: dict[str, Any] = measure(*arguments)
        except Exception as error:  # one row's failure is a result too
            told = {"failed": f"{type(error).__name__}: {error}", "arguments": str(arguments)}
        told["measured_in_s"] = round(time.perf_counter() - began, 1)
        results.setdefault(name, []).append(told)
        print(name, json.dumps(told), flush=True)
        (args.out / "jaco.json").write_text(json.dumps(results, indent=1) + "\n")

    row("ready", ready, device)
    for worlds in args.worlds:
        for cameras in (False, True):
            row("speed", speed, worlds, device, cameras, toy)
    row("parts", parts, few, device, toy)
    row("parts", parts, args.worlds[-1], device, toy)
    row("loads", loads, middle, device, toy)
    for iterations, conditional in ((12, True), (8, True), (8, False), (4, True)):
        row("what_if", what_if, few, device, toy, iterations, conditional)
    for iterations in (100, 12, 6):
        row("agreement", agreement, 48, device, iterations)
    row("kernels", kernels, few, device, toy)
    row("kernels", kernels, args.worlds[-1], device, toy)


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
