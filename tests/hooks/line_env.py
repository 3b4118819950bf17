"""A Gymnasium environment for tests of hooks: a point on a line, whose frames show where it is."""

from typing import ClassVar

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

from pureward import OnlineReward
from pureward.data.episodes import Episode
from tiny import ONLINE_REWARD

CELLS, LENGTH = 8, 12
CONFIG = ONLINE_REWARD


def image(place: int) -> np.ndarray:
    """The frame of a place: a bright column, uint8 (32, 32, 3)."""
    frame = np.zeros((32, 32, 3), np.uint8)
    frame[:, 4 * place : 4 * place + 4] = 255
    return frame


class LineEnv(gymnasium.Env):
    """Action 1 moves right, 0 left; the reward is 1 in the last cell. Begins in the first.

    `ends` is the cell in which an episode terminates; otherwise it is truncated after `length`.
    """

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, render_mode="rgb_array", *, length=LENGTH, ends=None) -> None:
        self.render_mode, self.length, self.ends = render_mode, length, ends
        self.observation_space = spaces.Dict(
            pixels=spaces.Box(0, 255, (32, 32, 3), np.uint8),
            place=spaces.Box(0.0, 1.0, (CELLS,), np.float32),
        )
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = 0, 0
        return self._seen(), {}

    def step(self, action):
        self.place = int(np.clip(self.place + (1 if int(action) == 1 else -1), 0, CELLS - 1))
        self.steps += 1
        reward = float(self.place == CELLS - 1)
        return self._seen(), reward, self.place == self.ends, self.steps >= self.length, {}

    def render(self):
        return image(self.place)

    def _seen(self):
        return {"pixels": image(self.place), "place": np.eye(CELLS, dtype=np.float32)[self.place]}


def online(**changes) -> OnlineReward:
    """A reward of 32×32 frames, from episodes that stay in the last cell."""
    frames = torch.as_tensor(np.stack([image(CELLS - 1)] * (LENGTH + 1))).permute(0, 3, 1, 2)
    episode = Episode(frames=frames.contiguous(), rewards=torch.zeros(LENGTH))
    given = {"method": "gail", "config": CONFIG, "device": "cpu"} | changes
    return OnlineReward([episode] * 10, **given)
