# SPDX-License-Identifier: Apache-2.0
"""Frames drawn on load: a stored state is set in the simulator and looked at again.

On the engine that collected the states the frames are the same to the last bit. The C engine
(float64) and MuJoCo Warp (float32) draw the same scene, with a few pixels of rounding apart.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from pureward.data.episodes import Episode
from pureward.envs import make
from pureward.errors import InputError


class Painter:
    """Draws frames of a task's stored states, a batch of worlds at a time."""

    def __init__(self, task: str, device: str = "cpu", *, worlds: int = 32):
        self._env = make(task, worlds, device, cameras=True)
        self.frame_shape = self._env.frame_shape

    def draw(self, episode: Episode) -> Episode:
        """The episode with frames: those it has, or new ones of its states."""
        if episode.frames is not None:
            return episode
        return replace(episode, frames=self.frames(episode, range(len(episode) + 1)))

    def frames(self, episode: Episode, instants: Sequence[int]) -> Tensor:
        """What is seen at some instants from 0 to T, uint8 (instants, 3·cameras, h, w)."""
        if episode.frames is not None:
            return episode.frames[list(instants)]
        fields = self._checked(episode)
        parts = []
        for start in range(0, len(instants), self._env.worlds):
            chosen = list(instants[start : start + self._env.worlds])
            rows = {name: value[chosen] for name, value in fields.items()}
            parts.append(self._env.draw(rows).cpu())
        return torch.cat(parts)

    def _checked(self, episode: Episode) -> dict[str, Tensor]:
        """The episode's simulator states, refused where they are of another model."""
        live = self._env.simulator_state()
        for name, value in live.items():
            needed, found = tuple(value.shape[1:]), episode.simulator.get(name)
            got = None if found is None else tuple(found.shape[1:])
            if got != needed:
                raise InputError(
                    f"drawing {self._env.name} needs {name} of shape {needed}, got {got}; "
                    "the episode is of another task or another version of it"
                )
        return {name: episode.simulator[name] for name in live}


def draw(episodes: Iterable[Episode], task: str, device: str = "cpu") -> list[Episode]:
    """The episodes with frames on the CPU, drawn on a device where they have none stored."""
    episodes = list(episodes)
    if all(episode.frames is not None for episode in episodes):
        return episodes
    painter = Painter(task, device, worlds=32 if device == "cpu" else 512)
    return [painter.draw(episode) for episode in episodes]
