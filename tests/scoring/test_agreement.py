"""The correlation of learned and stored rewards, by hand."""

from dataclasses import replace

import numpy as np
import torch

from pureward.data.episodes import Episode
from pureward.scoring.agreement import agreement
from pureward.scoring.table import Scores

LEARNED = ([9, 1, 2], [9, 3], [9, 0, 4])  # the first frame of each has no stored reward
STORED = ([1, 3], [2], [0, 4])


def made(learned, stored):
    episodes = np.repeat(np.arange(len(learned)), [len(values) for values in learned])
    scores = Scores(episodes, {"reward": np.concatenate(learned).astype(np.float32)})
    return scores, [Episode(rewards=torch.tensor(values).float()) for values in stored]


def test_frames_and_returns_are_correlated():
    """9 / √(10 · 10) over frames; (6/9) / √(6/9 · 24/9) over the returns 3, 3, 4 and 4, 2, 4."""
    scores, episodes = made(LEARNED, STORED)
    told = "correlation with the dataset's rewards: 0.90 over frames, 0.50 over episode returns"
    assert agreement(scores, episodes) == told


def test_what_cannot_be_correlated_is_left_out():
    scores, episodes = made(LEARNED, STORED)
    unrated = [replace(one, rated=False) for one in episodes]
    assert agreement(scores, unrated) == ""
    two = [*episodes[:1], unrated[1], episodes[2]]  # 1, 2, 0, 4 and 1, 3, 0, 4: 9 / √(8.75 · 10)
    assert agreement(scores, two).endswith("rewards: 0.96 over frames")
    assert agreement(scores, [replace(one, rewards=one.rewards * 0) for one in episodes]) == ""
