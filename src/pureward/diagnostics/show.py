# SPDX-License-Identifier: Apache-2.0
"""Shows what a task looks like: a contact sheet and a video of a batch of worlds."""

import re
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
import torch

from pureward.envs import BatchEnv, make
from pureward.envs.tasks import TASKS
from pureward.errors import InputError
from pureward.picture import cameras, contact_sheet, mosaic, save_image, video
from pureward.progress import Progress
from pureward.registry import import_function
from pureward.runs.config_file import read_config
from pureward.runs.directory import RunDirectory
from pureward.runs.policy import load_policy, random_policy
from pureward.types import Policy

_ROWS, _COLUMNS = 4, 8  # of the sheet; several cameras share the columns


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The files that `show` wrote, the policy, and the mean return of its episodes."""

    sheet: Path
    video: Path
    policy: str
    mean_return: float
    """Of the episodes that ended; if none did, of those that began."""
    ended: int
    """Episodes that ended."""


def show(
    task: str,
    out: Path,
    *,
    worlds: int = 16,
    steps: int = 200,
    policy: str = "random",
    device: str = "auto",
    seed: int = 0,
    shadows: bool = False,
    distractors: str = "",
    frames: str = "",
) -> Shown:
    """Run a batch of worlds and write OUT/TASK.png and OUT/TASK.mp4.

    Args:
        task: a task, an environment, or the directory of a run, whose policy then acts.
        out: folder of both files.
        worlds: number of environments.
        steps: control steps to run.
        policy: input of `find_policy`.
        device: "auto" (CUDA if available), "cpu" or "cuda".
        seed: of the first states and the random policy.
        shadows: draw shadows.
        distractors: shape of the other blocks, "cube" or "cuboid"; "" for the default.
        frames: of a Gymnasium environment, as in `pureward.make`; "" for the default.
    """
    if steps < 1:
        raise InputError(f"steps must be at least 1, got {steps}; pass 1 or more")
    options = {"seed": seed, "cameras": True, "shadows": shadows}
    chosen = {"distractors": distractors, "frames": frames}
    options |= {name: value for name, value in chosen.items() if value}
    if task not in TASKS and Path(task).is_dir():  # a folder may have a task's name
        config = read_config(RunDirectory(Path(task)))
        policy, task = (task if policy == "random" else policy), config.task
        env = config.make_env(worlds, device, **options)
    else:
        env = make(task, worlds, device, **options)
    name = re.sub(r"[^\w.-]+", "-", task)  # gym:ALE/Pong-v5 is no file name
    sheet, film = out / f"{name}.png", out / f"{name}.mp4"
    with env:
        act = find_policy(policy, env, seed)
        obs = env.reset()
        columns = max(1, _COLUMNS * 3 // (env.frame_shape or (3,))[0])
        shots = np.linspace(0, steps - 1, min(columns, steps)).astype(int)
        kept: list[np.ndarray] = []
        begun = torch.zeros(worlds, device=env.device)  # returns of the episodes under way
        ended: list[float] = []
        number = torch.ones(worlds, dtype=torch.int64, device=env.device)  # of each world's episode
        numbers: list[np.ndarray] = []
        with video(film, 1.0 / env.control_step) as write:
            for index in Progress(range(steps), desc=f"{task}, {worlds} worlds", unit="step"):
                assert obs.frames is not None, "made with cameras"
                images = np.concatenate(cameras(obs.frames), axis=2)
                write(mosaic(images))
                if index in shots:
                    kept.append(images[:_ROWS])
                    numbers.append(number[:_ROWS].cpu().numpy())
                step = env.step(act(obs.state))
                begun += step.reward
                over = step.terminated | step.truncated
                ended += begun[over].tolist()
                begun[over] = 0.0
                number = number + over  # not in place: `numbers` shares its memory
                obs = step.obs
        rows = [f"world {world}" for world in range(min(_ROWS, worlds))]
        times = [f"{index * env.control_step:.2f} s" for index in shots]
        seen = np.stack(numbers, axis=1)
        save_image(contact_sheet(np.stack(kept, axis=1), rows, times, episodes=seen), sheet)
        mean = fmean(ended or begun.tolist())
        return Shown(sheet=sheet, video=film, policy=policy, mean_return=mean, ended=len(ended))


def find_policy(name: str, env: BatchEnv, seed: int) -> Policy:
    """Return the policy "random", "zero" or "scripted", of a run, or a user's MODULE:FUNCTION."""
    if name == "random":
        return random_policy(env.action_size, env.device, seed)
    if name == "scripted":
        return env.script()
    if name == "zero":
        return lambda state: state.new_zeros(len(state), env.action_size)
    if name and Path(name).is_dir():
        own = load_policy(Path(name), device=str(env.device)).act
        own(torch.zeros(1, env.state_size, device=env.device))  # refused before a film is begun
        return own
    rule = "'random', 'zero', 'scripted' (lift and stack), a run directory or MODULE:FUNCTION"
    policy = import_function(name, f"policy must be {rule}")

    def act(state: torch.Tensor) -> torch.Tensor:
        try:
            return policy(state)
        except Exception as error:
            raise InputError(
                f"policy {name} must turn states (worlds, {state.shape[1]}) into actions, and "
                f"raised {type(error).__name__}: {error}; try it on torch.zeros{tuple(state.shape)}"
            ) from error

    return act
