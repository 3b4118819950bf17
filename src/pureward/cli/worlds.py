# SPDX-License-Identifier: Apache-2.0
"""Verbs about tasks: list them, watch one."""

from pathlib import Path

from pureward.cli.arguments import Task, announce


def tasks() -> None:
    """List the tasks with their sizes."""
    from pureward.envs import make
    from pureward.envs.tasks import TASKS

    line = "{:8} {:>5} {:>7} {:>7} {:>12}  {:11} {}"
    print(line.format("task", "state", "actions", "episode", "control step", "frames", "to do"))
    for name, task in TASKS.items():
        env = make(name, 1, "cpu")
        frames = f"{3 * len(task.cameras)}x64x64"
        seconds = f"{env.control_step:g} s"
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
    distractors: str | None = None,
) -> None:
    """Watch a task: write a contact sheet (PNG) and a video (MP4) of a batch of worlds.

    For example: pureward show walker --out show --worlds 25

    Args:
        task: a name that `pureward tasks` lists.
        out: folder for TASK.png and TASK.mp4.
        worlds: how many environments to simulate and to tile in the video.
        steps: control steps to run.
        policy: "random", "zero", "scripted" (lift and stack), a run directory, or
            MODULE:FUNCTION, a function of yours that turns states (worlds, state size) into
            actions (worlds, action size) in [-1, 1].
        device: "auto" (CUDA where there is one), "cpu" or "cuda".
        seed: of the first states and the random policy.
        shadows: draw shadows.
        distractors: shape of the blocks that are not the task's: "cube" or "cuboid" (lift, stack).
    """
    from pureward.diagnostics.show import show as run

    announce(device)
    shown = run(
        task,
        out,
        worlds=worlds,
        steps=steps,
        policy=policy,
        device=device,
        seed=seed,
        shadows=shadows,
        distractors=distractors,
    )
    print(
        f"{task}: mean return {shown.mean_return:.1f} over {steps} steps with the {policy} policy"
    )
    print(f"  {shown.sheet}\n  {shown.video}")
