# SPDX-License-Identifier: Apache-2.0
"""Where would a reward regressed on parts of the demo's data send an agent? Asks it everywhere.

make demo && python benchmarks/reach_delusions.py
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

import pureward.envs.making
from demo_search import LookedUp, drawn_positions, grid_line
from pureward.data.dataset import read_dataset
from pureward.data.draw import draw
from pureward.data.episodes import TRAIN, Episode
from pureward.data.frames import FrameBank
from pureward.demo import TASK, Size, run_config
from pureward.envs.tasks.reach import ARENA, TARGET_RADIUS
from pureward.rewards.regression import RewardModel

_FAR = 0.15  # metres from the disc's centre
_EVERY = 7  # positions; neighbours look alike
_FRAMES_SEEN = 10_000  # at least, in a fit: small cuts are passed over more often


def fitted(episodes: Sequence[Episode]) -> RewardModel:
    """r_φ as the demo's runs fit it."""
    settings = run_config("prl", Path("demo"), Size()).reward
    bank = FrameBank(episodes)
    epochs = max(settings.model.epochs, min(10, _FRAMES_SEEN // len(bank)))
    model = RewardModel(replace(settings.model, network=settings.network, epochs=epochs))
    model.fit(bank.every(), bank.rewards, episodes=bank.episodes)
    return model


def trained_on(name: str) -> list[Episode]:
    """Episodes of one of the demo's datasets, with frames."""
    episodes = [e for e in read_dataset(Path("demo") / name).episodes if e.split == TRAIN]
    return draw(episodes, TASK, "cpu")


def main() -> None:
    """Fit every cut and print what it says near the disc and far from it."""
    torch.set_num_threads(1)
    LookedUp.table = drawn_positions()
    pureward.envs.making.Cameras = LookedUp
    positions = torch.cartesian_prod(grid_line(), grid_line())
    seen = (positions.abs() < ARENA).all(1).nonzero().squeeze(1)[::_EVERY]
    distance = positions[seen].norm(dim=1)
    frames = LookedUp.table.flatten(0, 1)[seen]
    for name in ("annotations", "demonstrations"):
        whole = trained_on(name)
        cuts = {
            f"{len(whole)} {name}": whole,
            "every fourth of them": whole[::4],
            "their first half": whole[: len(whole) // 2],
            "those that begin on the right": [e for e in whole if e.simulator["qpos"][0, 0] > 0],
        }
        for cut, episodes in cuts.items():
            predicted = fitted(episodes).predict(frames)
            near, far = predicted[distance < TARGET_RADIUS], predicted[distance > _FAR]
            print(f"{cut}: disc {near.mean():.2f}, far {far.mean():.2f}, at most {far.max():.2f}")


if __name__ == "__main__":
    main()
