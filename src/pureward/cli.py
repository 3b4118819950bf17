# SPDX-License-Identifier: Apache-2.0
"""The command line: one function a verb."""

import sys
from pathlib import Path
from typing import Annotated

import tyro

from pureward.errors import InputError, SimulationError

Task = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]


def tasks() -> None:
    """List the tasks with their sizes."""
    from pureward.env import make
    from pureward.tasks import TASKS

    line = "{:8} {:>5} {:>7} {:>7} {:>12}  {:11} {}"
    print(line.format("task", "state", "actions", "episode", "control step", "frames", "to do"))
    for name, task in TASKS.items():
        env = make(name, 1, "cpu")
        frames = f"{3 * len(task.cameras)}x64x64"
        seconds = f"{task.control_step(env.engine.model):g} s"
        row = (name, env.state_size, env.action_size, task.horizon, seconds, frames, task.summary)
        print(line.format(*row))


def show(
    task: Task,
    out: Path = Path("show"),
    worlds: int = 16,
    steps: int = 200,
    policy: str = "random",
    device: str = "auto",
    seed: int = 0,
    shadows: bool = False,
) -> None:
    """Watch a task: write a contact sheet (PNG) and a video (MP4) of a batch of worlds.

    For example: pureward show walker --out show --worlds 25

    Args:
        task: a name that `pureward tasks` lists.
        out: folder for TASK.png and TASK.mp4.
        worlds: how many environments to simulate and to tile in the video.
        steps: control steps to run.
        policy: "random", "zero", or MODULE:FUNCTION, a function of yours that turns states
            (worlds, state size) into actions (worlds, action size) in [-1, 1].
        device: "auto" (CUDA where there is one), "cpu" or "cuda".
        seed: of the first states and the random policy.
        shadows: draw shadows.
    """
    from pureward.show import show as run

    shown = run(
        task,
        out,
        worlds=worlds,
        steps=steps,
        policy=policy,
        device=device,
        seed=seed,
        shadows=shadows,
    )
    print(
        f"{task}: mean return {shown.mean_return:.1f} over {steps} steps with the {policy} policy"
    )
    print(f"  {shown.sheet}\n  {shown.video}")


def demo(out: Path = Path("demo")) -> None:
    """See the simulation at work: a batch of points and a batch of walkers.

    Args:
        out: folder for the pictures and videos.
    """
    for task, worlds in (("reach", 16), ("walker", 16)):
        show(task, out, worlds)
    print(f"Look at {out / 'walker.png'}, play {out / 'walker.mp4'}.")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; bad input ends in one sentence and exit code 2."""
    verbs = {"tasks": tasks, "show": show, "demo": demo}
    try:
        tyro.extras.subcommand_cli_from_dict(
            verbs,
            prog="pureward",
            description="Positive-Unlabeled Reward Learning: rewards from demonstrations or "
            "annotated episodes that stay alive and stay honest.",
            args=arguments,
        )
    except InputError as error:
        sys.exit(_complain(error, 2))
    except SimulationError as error:
        sys.exit(_complain(error, 1))
    except OSError as error:
        sys.exit(_complain(error, 1))


def _complain(error: Exception, code: int) -> int:
    print(f"pureward: {error}", file=sys.stderr)
    return code
