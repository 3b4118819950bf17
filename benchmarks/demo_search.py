# SPDX-License-Identifier: Apache-2.0
"""One run of the demo with other settings, on the data of a demo that has been run.

    make demo && python benchmarks/demo_search.py nn-pugail seed=1 worlds=16 prior=0.2

Frames are looked up in a table of all positions 5 mm apart, drawn once: the picture of `reach` is
a function of where its point is, and drawing is half of a run on a CPU. Prints the returns of the
evaluations, what D says at the end, and the verdict.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor

import pureward.envs.making
from pureward.demo import TASK, Size, run_config
from pureward.diagnostics.history import read_history
from pureward.envs.tasks.reach import ARENA
from pureward.runs.config import RunConfig
from pureward.train.loop import train

_STEP = 0.005  # metres; a pixel is wider
_EACH_SIDE = round(ARENA / _STEP) + 2
_WORK = Path("runs/demo-search")


def grid_line() -> Tensor:
    """Coordinates of the grid along either side of the arena."""
    return torch.arange(-_EACH_SIDE, _EACH_SIDE + 1) * _STEP


def drawn_positions() -> Tensor:
    """Frames of every position of the grid, uint8 (side, side, 3, 64, 64)."""
    file = _WORK / "frames.pt"
    if file.exists():
        return torch.load(file, weights_only=True, mmap=True)
    env = pureward.envs.make(TASK, 256, "cpu", cameras=True)
    assert env.cameras is not None
    line = grid_line()
    parts = []
    for rows in torch.cartesian_prod(line, line).split(env.worlds):
        env.engine.state.qpos[: len(rows)].copy_(rows)
        env.engine.refresh()
        parts.append(env.cameras.render()[: len(rows)].clone())
    table = torch.cat(parts).unflatten(0, (len(line), len(line)))
    _WORK.mkdir(parents=True, exist_ok=True)
    torch.save(table, file)
    return table


class LookedUp:
    """Cameras that look frames up."""

    table: Tensor

    def __init__(self, engine: Any, names: tuple[str, ...], **_: Any) -> None:
        self._engine = engine
        self.frames = torch.zeros(engine.worlds, *self.table.shape[2:], dtype=torch.uint8)

    def render(self) -> Tensor:
        """Frames of the present state."""
        at = (self._engine.state.qpos / _STEP).round().long().clamp(-_EACH_SIDE, _EACH_SIDE)
        row, column = (at + _EACH_SIDE).unbind(1)
        return self.frames.copy_(self.table[row, column])


def main(method: str, *settings: str) -> None:
    """Train and tell."""
    torch.set_num_threads(1)
    LookedUp.table = drawn_positions()
    pureward.envs.making.Cameras = LookedUp
    flags = [part for setting in settings for part in f"--{setting}".split("=", 1)]
    config = tyro.cli(RunConfig, args=flags, default=run_config(method, Path("demo"), Size()))
    out = _WORK / "-".join([method, *settings]).replace("/", "_")
    train(replace(config, out=str(out)))
    run = read_history(out)
    print(", ".join(f"{value:.0f}" for value in run.series("eval", "return")[:, 1]))
    print(run.verdict())


if __name__ == "__main__":
    main(*sys.argv[1:])
