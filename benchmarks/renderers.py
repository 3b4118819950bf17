# SPDX-License-Identifier: Apache-2.0
"""The rasterizer against the ray caster: how much frames differ, and how fast each draws.

    python benchmarks/renderers.py --out results/renderers

Prints a row per measurement and writes renderers.json after each. A contact sheet per task,
TASK-SHAPE.png, shows the images that differ most: ray caster, rasterizer, difference. `--device
cpu` runs on Warp's CPU device; there pass fewer worlds and states.

A pixel is on a silhouette if the 3×3 pixels around it show more than one geom. It differs if a
colour differs by more than 24 grey levels of 255.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import mujoco_warp as mjw
import torch
import tyro
import warp as wp
from PIL import Image
from torch import Tensor

import pureward
from pureward.envs.sim.camera import Cameras, warp_model
from pureward.envs.simulated import TaskEnv
from pureward.kernels.sim import meshes
from pureward.types import find_device
from simulation import versions
from timing import milliseconds, synchronize

SCENES = (
    ("reach", ""), ("walker", ""), ("lift", "cube"), ("lift", "cuboid"),
    ("stack", "cube"), ("stack", "cuboid"),
)  # fmt: skip
MEAN, LEVELS, SHARE = 2.0, 24, 0.001  # the most that frames may differ
APART = 25  # control steps between the states of a world
SHEET = 12  # images on a contact sheet


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to measure, and where to write it."""

    out: Path = Path("results/renderers")
    device: str = "cuda"
    states: int = 1000
    """States of each task and shape to compare; 0 leaves the comparison out."""
    worlds: tuple[int, ...] = (1024, 4096, 8192)
    """Batches to time; none leaves the timing out."""
    rewards: tuple[Path, ...] = ()
    """Runs whose learned reward scores the frames of both renderers."""
    full_meshes: bool = False
    """Draw the meshes themselves instead of their coarse copies."""
    commit: str = ""
    """What is measured, where git cannot tell."""


def make(task: str, shape: str, worlds: int, device: str) -> TaskEnv:
    env = pureward.make(task, worlds, device, distractors=shape, stagger=True)
    return cast(TaskEnv, env)


def play(env: TaskEnv, rounds: int) -> Iterator[int]:
    """Yield after every `APART` control steps of the task's script, or nothing, plus noise."""
    env.reset()
    script = env.script() if env.task.script else None
    generator = torch.Generator(env.device).manual_seed(0)
    noise = torch.zeros(env.worlds, env.action_size, device=env.device)
    for index in range(rounds * APART):
        if index % 8 == 0:
            noise.normal_(std=0.4 if script else 1.0, generator=generator)
        env.step((noise + script()).clamp(-1.0, 1.0) if script else noise.clamp(-1.0, 1.0))
        if (index + 1) % APART == 0:
            yield index


def silhouettes(env: TaskEnv, cameras: Cameras, size: int = 64) -> Callable[[], Tensor]:
    """Return a function that tells which pixels (worlds, cameras, size, size) are on one."""
    data, names = cameras._data, env.task.cameras
    with wp.ScopedDevice(data.qpos.device):
        model = warp_model(env.engine)
        context = mjw.create_render_context(
            env.engine.model,
            nworld=data.nworld,
            cam_active=list(names),
            cam_res=(size, size),
            render_rgb=False,
            render_depth=False,
            render_seg=True,
        )

    def find() -> Tensor:
        synchronize(env.device)  # torch and Warp use different streams here
        with wp.ScopedDevice(data.qpos.device):
            mjw.refit_bvh(model, data, context)
            mjw.render(model, data, context)
        synchronize(env.device)
        geoms = wp.to_torch(context.seg_data)[..., 0].view(-1, len(names), size, size).float()
        most = torch.nn.functional.max_pool2d(geoms, 3, 1, 1)
        least = -torch.nn.functional.max_pool2d(-geoms, 3, 1, 1)
        return most != least

    return find


def difference(task: str, shape: str, states: int, device: str, sheet: Path | None) -> dict:
    """Return how much the frames of random states differ."""
    rounds = min(10, states)
    env = make(task, shape, -(-states // rounds), device)
    names = env.task.cameras
    reference = Cameras(env.engine, names, reference=True)
    other = Cameras(env.engine, names)
    find_edges = silhouettes(env, reference)
    total = edges = differing = inside = 0
    summed, worst = 0.0, []
    for _ in play(env, rounds):
        shape5 = (env.worlds, len(names), 3, 64, 64)
        one, two = reference.render().view(shape5), other.render().view(shape5)
        apart = (one.int() - two.int()).abs()
        edge = find_edges()
        far = apart.amax(dim=2) > LEVELS
        total += far.numel()
        edges += int(edge.sum())
        differing += int(far.sum())
        inside += int((far & ~edge).sum())
        summed += float(apart.double().mean(dim=2).sum())
        of_image = apart.double().mean(dim=(2, 3, 4))
        for index in of_image.flatten().argsort(descending=True)[:SHEET].tolist():
            pair = [frames.flatten(0, 1)[index].cpu() for frames in (one, two)]
            worst.append((float(of_image.flatten()[index]), *pair))
    worst = sorted(worst, key=lambda row: -row[0])[:SHEET]
    if sheet is not None:
        write_sheet(worst, sheet)
    return {
        "task": task,
        "distractors": shape,
        "images": total // 64**2,
        "mean_difference": round(summed / total, 4),
        "worst_image": round(worst[0][0], 3),
        "share_over_24": differing / total,
        "share_over_24_inside": inside / total,
        "share_on_silhouettes": round(edges / total, 4),
        "passed": summed / total <= MEAN and inside / total <= SHARE,
    }


def agreement(run: Path, states: int, device: str) -> dict:
    """Return how much a run's reward differs between the frames of both renderers."""
    reward = pureward.load_reward(run, device=device)
    task = json.loads((run / "config.json").read_text())["task"]
    rounds = min(10, states)
    env = make(task, "", -(-states // rounds), device)
    drawn = {
        name: Cameras(env.engine, env.task.cameras, reference=name == "ray caster")
        for name in ("ray caster", "rasterizer")
    }
    scores: dict[str, list[Tensor]] = {name: [] for name in drawn}
    for _ in play(env, rounds):
        for name, cameras in drawn.items():
            frames = cameras.render()
            scores[name].append(reward(frames.repeat(1, reward.spec.stack, 1, 1)).double().cpu())
    one, two = (torch.cat(scores[name]) for name in drawn)
    return {
        "run": run.name,
        "task": task,
        "frames": len(one),
        "mean_reward": round(float(one.mean()), 4),
        "mean_difference": round(float((one - two).abs().mean()), 5),
        "largest_difference": round(float((one - two).abs().max()), 4),
        "correlation": round(float(torch.corrcoef(torch.stack([one, two]))[0, 1]), 5),
    }


def write_sheet(worst: list[tuple[float, Tensor, Tensor]], path: Path) -> None:
    """Rows: ray caster, rasterizer, four times the difference; a column per image."""
    columns = [
        torch.cat([one, two, ((one.int() - two.int()).abs() * 4).clamp(max=255).byte()], dim=1)
        for _, one, two in worst
    ]
    sheet = torch.cat(columns, dim=2).permute(1, 2, 0).numpy()
    Image.fromarray(sheet).resize((sheet.shape[1] * 2, sheet.shape[0] * 2), 0).save(path)


def speed(env: TaskEnv, renderer: str) -> dict:
    """Control steps a second with random actions, and the milliseconds of drawing alone."""
    toy = env.device.type == "cpu"
    env.cameras = None
    synchronize(env.device)
    began, memory = time.perf_counter(), _used(env.device)
    if renderer != "none":
        env.cameras = Cameras(env.engine, env.task.cameras, reference=renderer == "ray caster")
        env.cameras.render()
    synchronize(env.device)
    ready, memory = time.perf_counter() - began, _used(env.device) - memory
    action = torch.empty(env.worlds, env.action_size, device=env.device)

    def step() -> None:
        env.step(action.uniform_(-1.0, 1.0))

    repeats = 1 if toy else 20
    for _ in range(repeats):
        step()
    ms = milliseconds(step, env.device, repeats, rounds=3)
    told = {
        "task": env.task.name,
        "worlds": env.worlds,
        "renderer": renderer,
        "ms_per_control_step": round(ms, 3),
        "control_steps_per_second": round(env.worlds / ms * 1e3),
    }
    if env.cameras is None:
        return told
    drawing = milliseconds(env.cameras.render, env.device, repeats, rounds=3)
    images = env.worlds * len(env.task.cameras)
    return told | {
        "render_ms": round(drawing, 3),
        "images_per_second": round(images / drawing * 1e3),
        "seconds_until_first_image": round(ready, 2),
        "device_bytes_per_image": memory // images,
    }


def _used(device: torch.device) -> int:
    """Bytes of the GPU in use by all libraries; 0 on a CPU."""
    if device.type == "cpu":
        return 0
    free, total = torch.cuda.mem_get_info(device)
    return total - free


def main(args: Args) -> None:
    device = str(find_device(args.device))
    results: dict[str, Any] = {"versions": versions(args.commit)}
    args.out.mkdir(parents=True, exist_ok=True)
    failed = False
    if args.full_meshes:
        meshes._copies = dict  # pyright: ignore[reportAttributeAccessIssue]

    def row(name: str, told: dict) -> None:
        results.setdefault(name, []).append(told)
        print(name, json.dumps(told), flush=True)
        (args.out / "renderers.json").write_text(json.dumps(results, indent=1) + "\n")

    for task in ("lift", "walker"):
        for worlds in args.worlds:
            env = make(task, "", worlds, device)
            for renderer in ("none", "ray caster", "rasterizer"):
                row("speed", speed(env, renderer))
            env.close()
    for task, shape in SCENES if args.states else ():
        sheet = args.out / f"{task}-{shape or 'plain'}.png"
        told = difference(task, shape, args.states, device, sheet)
        row("difference", told)
        failed |= not told["passed"]
    for run in args.rewards:
        row("agreement", agreement(run, max(args.states, 100), device))
    sys.exit(failed)


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
