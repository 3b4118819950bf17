# SPDX-License-Identifier: Apache-2.0
"""Frames drawn from stored simulator states.

The engine that collected the states draws bit-identical frames. The C engine (float64) and MuJoCo
Warp (float32) differ in a few pixels by rounding.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pureward.data.episodes import Episode
from pureward.data.reader import Dataset
from pureward.errors import InputError

if TYPE_CHECKING:
    from pureward.envs import BatchEnv


class Painter:
    """Draws frames of an environment's stored states, a batch of worlds at a time."""

    def __init__(self, env: "str | BatchEnv", device: str = "cpu", *, worlds: int = 0):
        """Make an environment with cameras, or use one.

        Args:
            env: a task, or an environment with cameras.
            device: of a task's environment.
            worlds: of a task's environment; 0 for 32 on a CPU and 512 on a GPU.
        """
        from pureward.envs import make  # imports the simulator

        worlds = worlds or (32 if device == "cpu" else 512)
        self._env = make(env, worlds, device, cameras=True) if isinstance(env, str) else env
        self.frame_shape = self._env.frame_shape

    def draw(self, episode: Episode) -> Episode:
        """Return the episode with frames, drawn if it has none."""
        if episode.frames is not None:
            return episode
        return replace(episode, frames=self.frames(episode, range(len(episode) + 1)))

    def frames(self, episode: Episode, instants: Sequence[int]) -> Tensor:
        """Return the frames at some instants.

        Args:
            episode: with frames, or with simulator states of this task.
            instants: each from 0 to T.

        Returns:
            uint8 (instants, 3·cameras, height, width).
        """
        if episode.frames is not None:
            return episode.frames[list(instants)]
        stored, needed = episode.simulator, self._env.simulator_state()
        for name, value in needed.items():
            wanted = tuple(value.shape[1:])
            got = tuple(stored[name].shape[1:]) if name in stored else None
            if got != wanted:
                raise InputError(
                    f"drawing {self._env.name} needs {name} of shape {wanted}, got {got}; "
                    "the episode is of another task or another version of it"
                )
        parts = []
        for start in range(0, len(instants), self._env.worlds):
            chosen = list(instants[start : start + self._env.worlds])
            parts.append(self._env.draw({name: stored[name][chosen] for name in needed}).cpu())
        return torch.cat(parts)


def draw(episodes: Iterable[Episode], task: str, device: str = "cpu") -> list[Episode]:
    """Return the episodes with frames on the CPU, drawn on a device if they have none."""
    dataset = Dataset(path=None, task=task, episodes=tuple(episodes))
    return list(with_frames(dataset, device=device))


def with_frames(
    dataset: Dataset, numbers: Sequence[int] | None = None, device: torch.device | str = "cpu"
) -> Iterator[Episode]:
    """Yield the episodes of a dataset; those of our tasks without frames are drawn.

    Args:
        dataset: with frames, or with simulator states of one of our tasks.
        numbers: of the episodes; None for all.
        device: where frames are drawn.
    """
    painter = None
    for number in range(len(dataset)) if numbers is None else numbers:
        episode = dataset[number]
        if episode.frames is None:
            painter = painter or painter_of(dataset, device)
            episode = painter.draw(episode)
        yield episode


def painter_of(dataset: Dataset, device: torch.device | str = "cpu", *, worlds: int = 0) -> Painter:
    """Return what draws the frames of a dataset that has states only; `worlds` as in `Painter`."""
    from pureward.envs.tasks import TASKS  # imports the simulator

    # `make` would import what the file of an untrusted dataset names MODULE:FUNCTION.
    if dataset.task is None or dataset.task not in TASKS:
        raise InputError(
            f"{dataset.path or 'data'} must hold frames, or states of a task that can be drawn "
            f"({', '.join(TASKS)}), got no frames and the task {dataset.task!r}; record it with "
            "frames"
        )
    return Painter(dataset.task, str(device), worlds=worlds)
