"""An environment whose states say which step of which episode they are, and a host for its actors.

Episodes of seed s have 3 to 8 steps. The state is (s, number of the episode, step), and all pixels
of a frame are the step.
"""

from collections import deque

import torch

from pureward.distributed.actors.worker import Actor
from pureward.envs import BatchEnv
from pureward.types import Observation, Step

HORIZON = 8


class Ticks(BatchEnv):
    def __init__(self, *, worlds: int, device, seed: int, cameras: bool, stagger: bool) -> None:
        self.name, self.worlds, self.device = "ticks", worlds, device
        self.state_size, self.action_size, self.horizon, self.control_step = 3, 2, HORIZON, 0.1
        self.frame_shape = (3, 64, 64) if cameras else None
        self.elapsed = torch.zeros(worlds, dtype=torch.int64)
        self.seed(seed)

    def seed(self, seed: int) -> None:
        self._seed = seed % 2**20

    def reset(self) -> Observation:
        self.episode = torch.zeros(self.worlds, dtype=torch.int64)
        self.elapsed.zero_()
        return self._observation()

    def step(self, action) -> Step:
        self.elapsed += 1
        length = 3 + (self._seed + self.episode + torch.arange(self.worlds)) % 6
        over = self.elapsed >= length
        final = self._observation()
        self.episode += over
        self.elapsed.masked_fill_(over, 0)
        return Step(
            obs=self._observation(),
            reward=final.state[:, 2],
            terminated=over & (length < HORIZON),
            truncated=over & (length == HORIZON),
            success=over,
            final_obs=final,
        )

    def _observation(self) -> Observation:
        seeds = torch.full((self.worlds,), self._seed)
        number = self.episode * self.worlds + torch.arange(self.worlds)
        state = torch.stack([seeds, number, self.elapsed], dim=1).float()
        frames = None
        if self.frame_shape is not None:
            frames = self.elapsed.to(torch.uint8)[:, None, None, None].expand(-1, 3, 64, 64)
        return Observation(state=state, frames=frames)


class Inline:
    """Actors in this process: one reply of each actor a call, unless it is slow, hung or dead."""

    every = (1,)
    """An actor replies at every n-th call, by its place among the first ones."""

    def __init__(self, address: str = "", actors: int = 0) -> None:
        self.actors: dict[int, Actor] = {}
        self.asked: dict[int, deque[bool]] = {}
        self.dead: set[int] = set()
        self.hung: set[int] = set()
        self.calls = self.most_asked = 0

    def publish(self, weights: bytes) -> None:
        self.weights = weights

    def start(self, spec) -> int:
        key = len(self.asked)
        self.actors[key], self.asked[key] = Actor(spec), deque()
        return key

    def ask(self, key: int, at_random: bool) -> None:
        self.asked[key].append(at_random)
        self.most_asked = max(self.most_asked, len(self.asked[key]))

    def replies(self, seconds: float):
        self.calls += 1
        found = []
        for key, actor in self.actors.items():
            if self.calls % self.every[key % len(self.every)] or key in self.hung:
                continue
            if key in self.dead:
                found.append((key, None))
            elif self.asked[key]:
                found.append((key, actor.advance(self.weights, self.asked[key].popleft())))
        return found

    def kill(self, key: int) -> None:
        del self.actors[key]

    def close(self) -> None:
        self.actors.clear()
