"""Gymnasium environments for tests of hooks, and rewards of 32×32 frames."""

from dataclasses import replace
from typing import ClassVar

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

from pureward import LearnedReward, OnlineReward
from pureward.data.episodes import Episode
from pureward.online.online_reward import SMALL
from pureward.pixels import to_frames
from pureward.rewards.learned import RewardSpec
from pureward.rewards.network import NETWORKS

SIDE = 32
SIZE = (SIDE, SIDE)
CONFIG = replace(
    SMALL,
    batch=32,
    memory=0,
    learning_rate=3e-3,
    network=replace(SMALL.network, stage_channels=(4, 8)),
)


def counted(step: int, episode: int = 0) -> np.ndarray:
    """The frame of a step of an episode: where the bar is, and how bright."""
    frame = np.zeros((SIDE, SIDE, 3), np.uint8)
    frame[:, 4 * step : 4 * step + 4] = 100 + 50 * episode
    return frame


class CounterEnv(gymnasium.Env):
    """Counts steps; an episode terminates, or is truncated, at a given one. True rewards: 10·t."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, length=3, *, terminates=True, observes="dict", render_mode="rgb_array"):
        self.length, self.terminates, self.observes = length, terminates, observes
        self.render_mode, self.episode, self.count = render_mode, -1, 0
        image = spaces.Box(0, 255, (SIDE, SIDE, 3), np.uint8)
        state = spaces.Box(0.0, 100.0, (1,), np.float32)
        self.observation_space = {
            "dict": spaces.Dict(image=image, state=state),
            "image": image,
            "state": state,
        }[observes]
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.count = self.episode + 1, 0
        return self._seen(), {}

    def step(self, action):
        self.count += 1
        over = self.count == self.length
        ends = over and self.terminates
        return self._seen(), 10.0 * self.count, ends, over and not ends, {}

    def render(self):
        return counted(self.count, self.episode % 3)

    def _seen(self):
        state = np.array([self.count], np.float32)
        parts = {"image": self.render(), "state": state}
        return parts if self.observes == "dict" else parts[self.observes]


def bar(place: float) -> np.ndarray:
    """The frame of a place in [−1, 1]: bright up to there, uint8 (32, 32, 3)."""
    columns = np.linspace(-1.0, 1.0, SIDE)
    row = np.where(columns <= place, 255, 0).astype(np.uint8)
    return np.broadcast_to(row[None, :, None], (SIDE, SIDE, 3)).copy()


class SlideEnv(gymnasium.Env):
    """A point on a line; 1 is paid at the right end, for 20 steps."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}
    length = 20

    def __init__(self, render_mode="rgb_array"):
        self.render_mode = render_mode
        self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-0.9, 0.3, 1).astype(np.float32)
        self.steps = 0
        return self.place.copy(), {}

    def step(self, action):
        self.place = np.clip(self.place + 0.2 * action, -1.0, 1.0).astype(np.float32)
        self.steps += 1
        there = float(self.place[0] > 0.7)
        return self.place.copy(), there, False, self.steps >= self.length, {}

    def render(self):
        return bar(float(self.place[0]))


def slide_demonstrations(episodes: int = 20) -> list[Episode]:
    """Episodes that stay at the right end; a fifth of them is held out."""
    rng = np.random.default_rng(0)
    return [
        Episode(
            frames=to_frames(np.stack([bar(x) for x in rng.uniform(0.75, 1.0, 21)]), size=SIZE),
            rewards=torch.zeros(SlideEnv.length),
            split="train" if k % 5 else "held-out",
        )
        for k in range(episodes)
    ]


def slide_reward(**changes) -> OnlineReward:
    """A reward that learns from `slide_demonstrations`."""
    given = {"config": CONFIG, "prior": 0.1, "device": "cpu"} | changes
    return OnlineReward(slide_demonstrations(), **given)


def frozen(seed: int = 0) -> LearnedReward:
    """A reward of random weights, as from `load_reward`: other frames, other rewards."""
    torch.manual_seed(seed)
    network = replace(CONFIG.network, frame_channels=3, height=SIDE, width=SIDE)
    spec = RewardSpec(reward="imitation", network=network, ceiling=10.0)
    built = NETWORKS[network.kind](network)
    with torch.no_grad():
        built.head.weight.mul_(20)
    return LearnedReward(spec, discriminator=built)


def online(**changes) -> OnlineReward:
    """A reward that learns, from frames that `CounterEnv` never shows."""
    given = {"config": replace(CONFIG, batch=8), "method": "gail", "device": "cpu"} | changes
    return OnlineReward([np.full((4, SIDE, SIDE, 3), 250, np.uint8)] * 6, **given)
