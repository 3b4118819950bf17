# SPDX-License-Identifier: Apache-2.0
"""What a plan will take: time by rates that were measured, memory by the size of the replay."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pureward.data.replay.layout import Layout, claimable_bytes, readable
from pureward.diagnostics.history import read_history
from pureward.diagnostics.reading import trained_for
from pureward.distributed.training import Training, wall_seconds
from pureward.envs import find_device, make
from pureward.envs.tasks import TASKS
from pureward.paper.plan import Plan, Step
from pureward.rewards.methods import METHODS
from pureward.runs.config import RunConfig
from pureward.runs.directory import RunDirectory, steps_made
from pureward.runs.machine import machine_name


@dataclass(frozen=True, kw_only=True)
class Rate:
    """How fast a run was, its start, evaluations and reward model included."""

    steps_per_second: float
    source: str
    """Where it was measured."""


_H200 = "NVIDIA H200"
# By task, kind of reward and machine. Nothing is guessed: what is not here is unknown.
RATES: dict[tuple[str, str, str], Rate] = {
    ("reach", "truth", "cpu"): Rate(
        steps_per_second=667, source="results/README.md, two Neoverse-N1 cores"
    ),
    ("walker", "truth", _H200): Rate(
        steps_per_second=153_000, source="results/expert/expert.json, one at a time"
    ),
    ("walker", "imitation", _H200): Rate(
        steps_per_second=14_400, source="results/paper, some nine at once"
    ),
    ("walker", "regression", _H200): Rate(
        steps_per_second=20_600, source="results/paper, prl, some nine at once"
    ),
    ("walker", "gated", _H200): Rate(
        steps_per_second=12_200, source="results/paper, some nine at once"
    ),
    ("lift", "imitation", _H200): Rate(
        steps_per_second=5_500, source="results/paper, some nine at once"
    ),
    ("lift", "regression", _H200): Rate(
        steps_per_second=6_300, source="results/paper, some nine at once"
    ),
    ("lift", "gated", _H200): Rate(
        steps_per_second=4_900, source="results/paper, some nine at once"
    ),
    ("lift", "truth", _H200): Rate(
        steps_per_second=36_000, source="results/jaco/experts.json, nine at once"
    ),
    ("stack", "truth", _H200): Rate(
        steps_per_second=31_000, source="results/jaco/experts.json, nine at once"
    ),
}


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a step will take."""

    step: Step
    done: bool
    seconds: float | None
    """Of what is left of it; None where nobody has measured it."""
    source: str
    bytes: int
    """Of the replay, and with it of nearly everything."""


def estimate(plan: Plan, device: str) -> list[Estimate]:
    """Estimate every step of a plan on this machine."""
    place = find_device(device)
    machine = machine_name(place)
    rates = _measured_on(machine, plan)
    known_as = machine if place.type == "cuda" else "cpu"  # in RATES
    return [_estimate(step, known_as, rates) for step in plan.steps]


def told(plan: Plan, estimates: Sequence[Estimate], at_once: int, device: str) -> str:
    """A table of all steps, the totals, and whether processes can share a GPU well."""
    lines = [f"{'step':44} {'env steps':>12} {'replay':>10} {'time':>10}  measured in"]
    for one in estimates:
        name = str(one.step.out.relative_to(plan.out))
        steps = f"{one.step.config.env_steps:,}" if isinstance(one.step, Training) else "–"
        memory = readable(one.bytes) if one.bytes else "–"
        time = "done" if one.done else _clock(one.seconds)
        lines.append(f"{name:44} {steps:>12} {memory:>10} {time:>10}  {one.source}")
    left = [one for one in estimates if not one.done]
    total = f"{len(left)} of {len(estimates)} steps are left"
    if whole := _together(left, at_once):
        total += f": {_clock(whole)} with {at_once} at once, if they do not slow each other"
    if unknown := sum(one.seconds is None for one in left):
        total += f", {unknown} of them of unknown length"
    largest = sorted((one.bytes for one in left), reverse=True)[:at_once]
    lines += [total, f"replays of the {len(largest)} largest together: {readable(sum(largest))}"]
    place = find_device(device)
    spare = claimable_bytes(place)
    if spare is not None:
        where = "a GPU" if place.type == "cuda" else "this machine"
        lines[-1] += f"; {where} has {readable(spare)} to spare"
    if place.type == "cuda":
        lines.append(_mps_told())
    return "\n".join(lines)


def _together(left: Sequence[Estimate], at_once: int) -> float:
    """Seconds of the steps beside each other: some wait for others, and all for a free place."""
    ends: dict[Path, float] = {}
    for one in left:  # each comes after those it waits for
        begin = max((ends.get(path, 0.0) for path in one.step.after), default=0.0)
        ends[one.step.out] = begin + (one.seconds or 0.0)
    whole = sum(one.seconds or 0.0 for one in left)
    return max([*ends.values(), whole / at_once])


def mps_runs() -> bool:
    """Whether NVIDIA's multi-process service is at work, so that processes share a GPU well."""
    folder = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))
    try:
        os.kill(int((folder / "nvidia-cuda-mps-control.pid").read_text()), 0)
    except PermissionError:
        return True  # somebody else's
    except (OSError, ValueError):
        return False
    return True


def _mps_told() -> str:
    if mps_runs():
        return "NVIDIA MPS is running: processes share a GPU at the same time"
    return (
        "NVIDIA MPS is not running: processes would take turns on a GPU; "
        "start it with `nvidia-cuda-mps-control -d`"
    )


def _estimate(step: Step, machine: str, rates: dict[tuple[str, str], Rate]) -> Estimate:
    if not isinstance(step, Training):
        # Data takes seconds beside runs of minutes, and is not counted.
        return Estimate(step=step, done=step.finished(), seconds=0.0, source="", bytes=0)
    config = step.config
    method = METHODS[config.method]
    rate = rates.get((config.task, config.method))
    if rate is None and method.members == 1:  # fitting an ensemble takes its own time
        rate = RATES.get((config.task, method.reward, machine))
    left = max(0, config.env_steps - steps_made(RunDirectory(step.out).read_status()))
    seconds = None if rate is None else left / rate.steps_per_second
    return Estimate(
        step=step,
        done=step.finished(),
        seconds=seconds,
        source="" if rate is None else rate.source,
        bytes=replay_bytes(config),
    )


def replay_bytes(config: RunConfig) -> int:
    """Bytes of a run's replay, and of what its discriminator remembers besides."""
    states, actions = _sizes(config.task)
    frames = (3 * len(TASKS[config.task].cameras), 64, 64) if config.needs_frames else None
    remembered = config.reward.memory * config.replay.frame_stack * math.prod(frames or (0,))
    layout = Layout(
        rows=config.replay.capacity // config.worlds,
        worlds=config.worlds,
        horizon=TASKS[config.task].horizon,
        state_size=states,
        action_size=actions,
        frame_shape=frames,
    )
    return layout.bytes + remembered


@cache
def _sizes(task: str) -> tuple[int, int]:
    env = make(task, 1, "cpu")
    return env.state_size, env.action_size


def _measured_on(machine: str, plan: Plan) -> dict[tuple[str, str], Rate]:
    """Rates of the runs that are there already and were made on such a one, by task and method."""
    found: dict[tuple[str, str], Rate] = {}
    for step in plan.steps:
        if isinstance(step, Training) and step.finished() and _made_on(step.out) in ("", machine):
            seconds = wall_seconds(step.out)
            if seconds > 0 and (steps := trained_for(read_history(step.out))[0]):
                rate = Rate(steps_per_second=steps / seconds, source=str(step.out))
                found[step.config.task, step.config.method] = rate
    return found


def _made_on(run: Path) -> str:
    """The machine a run was made on, empty where it does not say."""
    told = RunDirectory(run).read_status().get("made_with")
    return str(told.get("machine", "")) if isinstance(told, dict) else ""


def _clock(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    if math.isclose(seconds, 0.0):
        return "–"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
