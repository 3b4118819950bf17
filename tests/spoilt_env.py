"""Gymnasium environments with which something goes wrong, for tests."""

import os

import numpy as np
from gymnasium import spaces

from point_env import PointEnv

AFTER = 30  # steps of a world in which nothing goes wrong yet


class Spoilt(PointEnv):
    """Counts its steps."""

    taken = 0

    def step(self, action):
        self.taken += 1
        return super().step(action)


class Blind(PointEnv):
    def render(self):
        return None


class Deaf(PointEnv):
    def __init__(self):
        super().__init__()


class Growing(Spoilt):
    def render(self):
        image = super().render()
        return image[:80] if self.taken > AFTER else image


class Lost(Spoilt):
    def step(self, action):
        place, *others = super().step(action)
        return place * (np.nan if self.taken > AFTER else 1.0), *others


class Priceless(Spoilt):
    def step(self, action):
        place, reward, *others = super().step(action)
        return place, np.nan if self.taken > AFTER else reward, *others


class Hot(Spoilt):
    def step(self, action):
        if self.taken == AFTER:
            raise RuntimeError("the motor is too hot")
        return super().step(action)


class Mortal(Spoilt):
    def step(self, action):
        if self.taken == AFTER:
            os._exit(3)
        return super().step(action)


class Stepwise(PointEnv):
    def __init__(self, render_mode=None):
        super().__init__(render_mode)
        self.action_space = spaces.Discrete(3)
