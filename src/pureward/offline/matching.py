# SPDX-License-Identifier: Apache-2.0
"""Pairs of frames of two datasets that show nearly the same state."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pureward.data.episodes import Episode
from pureward.errors import InputError

_STEPS = 40  # of an episode that are compared
_MOST_EPISODES = 256  # of either side
#: Largest distance of a pair, in standard deviations of the states (root mean square).
CLOSE = 0.25


def state_of(episode: Episode) -> Tensor | None:
    """Return the policy's or the simulator's states, (T + 1, size); None without either."""
    if episode.state is not None:
        return episode.state.float()
    parts = [value.flatten(1).float() for value in episode.simulator.values()]
    return torch.cat(parts, dim=1) if parts else None


def match_states(
    first: Sequence[Tensor], second: Sequence[Tensor], *, seed: int = 0
) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return pairs of instants with nearly the same state, one for an episode of either side.

    Args:
        first: states of each episode of a dataset, (T + 1, size).
        second: the same of the other one.
        seed: of the order in which episodes choose their partners.

    Returns:
        For each pair the number of an episode and an instant, of both sides.
    """
    sizes = {states.shape[1] for states in (*first, *second)}
    if len(sizes) != 1:
        raise InputError(
            f"states must have one size to be matched, got {sorted(sizes)}; leave states out"
        )
    rng = torch.Generator().manual_seed(seed)
    ours, theirs = (_sampled(states, rng) for states in (first, second))
    both = torch.cat([*(states for states, _ in ours.values()), *(s for s, _ in theirs.values())])
    spread = both.std(0).clamp(min=1e-6) * both.shape[1] ** 0.5
    pool = torch.cat([states for states, _ in theirs.values()]) / spread
    owner = torch.cat([torch.full((len(s),), n) for n, (s, _) in theirs.items()])
    instant = torch.cat([at for _, at in theirs.values()])
    free = torch.ones(len(pool), dtype=torch.bool)
    pairs = []
    for number, (states, at) in ours.items():
        distance = torch.cdist(states / spread, pool).masked_fill(~free, float("inf"))
        row, column = divmod(int(distance.argmin()), len(pool))
        if float(distance[row, column]) <= CLOSE:
            partner = int(owner[column])
            pairs.append(((number, int(at[row])), (partner, int(instant[column]))))
            free &= owner != partner
    return pairs


def _sampled(episodes: Sequence[Tensor], rng: torch.Generator) -> dict[int, tuple[Tensor, Tensor]]:
    """States of some instants of some episodes, and the instants, by number of the episode."""
    chosen = torch.randperm(len(episodes), generator=rng)[:_MOST_EPISODES].tolist()
    found = {}
    for number in chosen:
        at = torch.randperm(len(episodes[number]), generator=rng)[:_STEPS].sort().values
        found[number] = (episodes[number][at], at)
    return found
