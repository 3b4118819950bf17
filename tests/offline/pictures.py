"""Episodes of a square that moves over noise, for tests of fits and checks."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pureward.data.episodes import TRAIN, Episode


def episode(
    seed: int,
    *,
    solved: bool,
    split: str = TRAIN,
    steps: int = 8,
    side: int = 32,
    rated: bool = True,
) -> Episode:
    """A dark picture with a square that turns from blue to red early if the episode succeeds."""
    rng = torch.Generator().manual_seed(seed)
    frames = torch.randint(40, 60, (steps + 1, 3, side, side), dtype=torch.uint8, generator=rng)
    top, left = torch.randint(0, side - 20, (2,), generator=rng).tolist()
    rewards = torch.zeros(steps)
    for at in range(steps + 1):
        done = solved and at > 1
        frames[at, 0 if done else 2, top : top + 20, left + at % 2 : left + at % 2 + 19] = 240
        if done:
            rewards[at - 1] = 1.0
    return Episode(frames=frames, rewards=rewards, success=rewards > 0.5, split=split, rated=rated)


def demonstrations(count: int = 20, held_out: int = 5) -> list[Episode]:
    """Solved episodes, some of them held out."""
    return [
        episode(n, solved=True, split="held-out" if n < held_out else TRAIN, rated=False)
        for n in range(count)
    ]


def logs(count: int = 20, solved: int = 10) -> list[Episode]:
    """Episodes of which the first so many are solved."""
    return [episode(1000 + n, solved=n < solved, rated=False) for n in range(count)]


def firsts(episodes: Sequence[Episode]) -> Tensor:
    """The first frame of each episode."""
    return torch.stack([e.frames[0] for e in episodes if isinstance(e.frames, Tensor)])
