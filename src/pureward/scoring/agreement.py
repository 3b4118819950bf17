# SPDX-License-Identifier: Apache-2.0
"""How learned rewards agree with those that a dataset has."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pureward.data.episodes import Episode
from pureward.scoring.table import Scores

_FEWEST = 3  # values; two always lie on a line


def agreement(scores: Scores, episodes: Sequence[Episode]) -> str:
    """Return the correlation of learned and stored rewards in words; "" if there is none.

    It is Pearson's, over frames and over returns of episodes. Episodes without rewards are left
    out, and so are values that are all equal.
    """
    pairs = [
        (scores.of(number)["reward"][1:], episode.rewards.numpy())
        for number, episode in enumerate(episodes)
        if episode.rated
    ]
    if not pairs:
        return ""
    learned, stored = map(np.concatenate, zip(*pairs, strict=True))
    returns = np.array([(ours.sum(), theirs.sum()) for ours, theirs in pairs]).T
    found = {"frames": _pearson(learned, stored), "episode returns": _pearson(*returns)}
    told = [f"{value:.2f} over {name}" for name, value in found.items() if value is not None]
    return f"correlation with the dataset's rewards: {', '.join(told)}" if told else ""


def _pearson(first: NDArray, second: NDArray) -> float | None:
    if len(first) < _FEWEST or np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(np.corrcoef(first.astype(np.float64), second.astype(np.float64))[0, 1])
