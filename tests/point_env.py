"""A Gymnasium environment for tests: a point on a line, whose frames show where it is."""

from typing import ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces


class PointEnv(gymnasium.Env):
    """Move to the middle; the episode ends there, or after ten steps."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Box(-0.3, 0.3, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = self.np_random.uniform(-1.0, 1.0, 1).astype(np.float32), 0
        return self.place.copy(), {}

    def step(self, action):
        self.place, self.steps = np.clip(self.place + action, -1.0, 1.0), self.steps + 1
        there = bool(abs(self.place[0]) < 0.1)
        return self.place.copy(), float(there), there, self.steps >= 10, {"is_success": there}

    def render(self):
        columns = np.linspace(-1.0, 1.0, 96)
        row = np.where(np.abs(columns - self.place) < 0.1, 255, 0).astype(np.uint8)
        return np.broadcast_to(row[None, :, None], (96, 96, 3))


class Watched(PointEnv):
    """Observes an image beside the place."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        camera = spaces.Box(0, 255, (8, 8, 3), np.uint8)
        self.observation_space = spaces.Dict({"place": self.observation_space, "camera": camera})

    def reset(self, *, seed=None, options=None):
        place, info = super().reset(seed=seed)
        return {"place": place, "camera": np.zeros((8, 8, 3), np.uint8)}, info

    def step(self, action):
        place, *others = super().step(action)
        return {"place": place, "camera": np.zeros((8, 8, 3), np.uint8)}, *others


class Silent(PointEnv):
    """Does not report success."""

    def step(self, action):
        return *super().step(action)[:-1], {}


class Half(PointEnv):
    """Reports success in episodes that begin right of the middle."""

    def reset(self, *, seed=None, options=None):
        place, info = super().reset(seed=seed)
        self.right = bool(place[0] > 0)
        return place, info

    def step(self, action):
        return *super().step(action)[:-1], {"is_success": self.right}


class Easy(PointEnv):
    """Reports success at every step."""

    def step(self, action):
        return *super().step(action)[:-1], {"is_success": True}
