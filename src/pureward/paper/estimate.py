# SPDX-License-Identifier: Apache-2.0
"""What a plan will take: time by the speed of finished runs, memory by the size of the replay."""

import math
import os
from functools import cache
from itertools import accumulate
from pathlib import Path

from pureward.data.replay.layout import Layout, claimable_bytes, readable
from pureward.diagnostics.history import read_history, trained_for
from pureward.distributed.training import Training, wall_seconds
from pureward.envs import make
from pureward.envs.tasks import TASKS
from pureward.paper.plan import Plan
from pureward.runs.config import RunConfig
from pureward.runs.directory import RunDirectory, steps_made
from pureward.runs.machine import machine_name
from pureward.types import find_device


def dry_run(plan: Plan, at_once: int, device: str) -> str:
    """Return a table of a plan's steps with memory and time, and the totals of unfinished ones.

    Args:
        plan: of a figure.
        at_once: number of steps that run in parallel.
        device: of the runs.
    """
    place = find_device(device)
    speeds = _speeds(plan, machine_name(place))
    lines = [f"{'step':44} {'env steps':>12} {'replay':>10} {'time':>10}"]
    ends: dict[Path, float] = {}
    times: list[float | None] = []
    sizes: list[int] = []
    for step in plan.steps:
        steps, size, seconds = "–", 0, 0.0  # collecting data takes seconds and is not counted
        if isinstance(step, Training):
            goal, size = step.config.env_steps, replay_bytes(step.config)
            left = max(0, goal - steps_made(RunDirectory(step.out).read_status()))
            speed = speeds.get((step.config.task, step.config.method))
            steps, seconds = f"{goal:,}", None if speed is None else left / speed
        memory, time = readable(size) if size else "–", "done"
        if not step.finished():
            time = _clock(seconds)
            start = max((ends.get(path, 0.0) for path in step.after), default=0.0)
            ends[step.out] = start + (seconds or 0.0)
            times.append(seconds)
            sizes.append(size)
        lines.append(f"{step.out.relative_to(plan.out)!s:44} {steps:>12} {memory:>10} {time:>10}")
    total = f"{len(times)} of {len(plan.steps)} steps are left"
    # The longest chain of steps that wait for each other, or all steps spread over the workers.
    if whole := max([*ends.values(), sum(time or 0.0 for time in times) / at_once]):
        total += f": {_clock(whole)} with {at_once} at once, if they do not slow each other"
    if unknown := times.count(None):
        total += (
            f", {unknown} of them of unknown length until one of the same task and method has "
            "finished here; docs/how-to/data.md has times that were measured"
        )
    largest = sorted(sizes, reverse=True)[:at_once]
    memory = f"replays of the {len(largest)} largest together: {readable(sum(largest))}"
    if (free := claimable_bytes(place)) is not None:
        where = "a GPU" if place.type == "cuda" else "this machine"
        memory += f"; {where} has {readable(free)} to spare"
        fitting = sum(part <= free for part in accumulate(largest))
        if fitting < len(largest):
            remedy = f"pass --at-once {fitting}" if fitting else "use a machine with more"
            memory += f", so they do not fit: {remedy}"
    lines += [total, memory]
    if place.type == "cuda":
        state = "is running" if mps_runs() else "is not; start it with `nvidia-cuda-mps-control -d`"
        lines.append(f"processes take turns on a GPU unless NVIDIA MPS is running: it {state}")
    return "\n".join(lines)


def mps_runs() -> bool:
    """Whether NVIDIA's multi-process service is running."""
    folder = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))
    try:
        os.kill(int((folder / "nvidia-cuda-mps-control.pid").read_text()), 0)
    except PermissionError:
        return True  # another user's process
    except (OSError, ValueError):
        return False
    return True


def replay_bytes(config: RunConfig) -> int:
    """Return the bytes of a run's replay and of its discriminator's memory."""
    frames = (3 * len(TASKS[config.task].cameras), 64, 64) if config.needs_frames else None
    env = _env(config.task)
    layout = Layout(
        rows=config.replay.capacity // config.worlds,
        worlds=config.worlds,
        horizon=TASKS[config.task].horizon,
        state_size=env.state_size,
        action_size=env.action_size,
        frame_shape=frames,
    )
    remembered = config.reward.memory * config.replay.frame_stack * math.prod(frames or (0,))
    return layout.bytes + remembered


@cache
def _env(task: str):
    return make(task, 1, "cpu")


def _speeds(plan: Plan, machine: str) -> dict[tuple[str, str], float]:
    """Env steps per second of the plan's finished runs on such a machine, by task and method."""
    speeds = {}
    for step in plan.steps:
        if isinstance(step, Training) and step.finished():
            made_with = RunDirectory(step.out).read_status().get("made_with")
            own = made_with.get("machine", "") if isinstance(made_with, dict) else ""
            steps, seconds = trained_for(read_history(step.out))[0], wall_seconds(step.out)
            if own in ("", machine) and steps and seconds:
                speeds[step.config.task, step.config.method] = steps / seconds
    return speeds


def _clock(seconds: float | None) -> str:
    if not seconds:
        return "unknown" if seconds is None else "–"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
