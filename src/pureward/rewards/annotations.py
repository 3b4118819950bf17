# SPDX-License-Identifier: Apache-2.0
"""Checks of annotated frames, and the split into training and held-out episodes."""

import torch
from torch import Tensor

from pureward.errors import InputError
from pureward.rewards.network import FrameNetwork, check_stored
from pureward.types import checked_tensor

# Fixed, so that a second fit on the same data holds out the same episodes.
SPLIT_SEED = 0
_LARGE = 10.0  # rewards of a step are about 1 in the settings of pureward


def check_shapes(
    network: FrameNetwork, frames: Tensor, rewards: Tensor, episodes: Tensor | None = None
) -> None:
    """Check types and shapes of annotations, without a host sync."""
    check_stored(frames)
    network.check_frames(frames)
    count = len(frames)
    if count == 0:
        raise InputError("annotated frames must not be empty, got none; check the dataset")
    columns = {"rewards": rewards} | ({} if episodes is None else {"episodes": episodes})
    for name, column in columns.items():
        rule = f"{name} must be a tensor of shape ({count},), one per frame"
        shape = tuple(checked_tensor(column, rule).shape)
        if shape != (count,):
            raise InputError(f"{rule}, got {shape}; flatten episodes into frames")


def finite_rewards(rewards: Tensor, episodes: Tensor | None = None) -> Tensor:
    """Return rewards in float32; raise `InputError` unless all are finite (a host sync)."""
    rounded = rewards.detach().to(torch.float32)
    finite = rounded.isfinite()
    if not finite.all():
        row = int((~finite).nonzero()[0])
        where = "" if episodes is None else f" (episode {int(episodes[row])})"
        raise InputError(
            f"rewards must be finite in float32, got {float(rewards[row])} at frame {row}{where}; "
            "drop or repair that episode"
        )
    return rounded


def reward_problem(name: str, low: float, high: float) -> str:
    """Return what is wrong with rewards from `low` to `high`, with its remedy; "" if nothing is."""
    largest = max(abs(low), abs(high))
    if low == high:
        return (
            f"{name}: all rewards are {low:g}, and a reward model can learn nothing from them; "
            "annotate failures too, or use the episodes as demonstrations"
        )
    if largest > _LARGE:
        return (
            f"{name}: rewards reach {low:g} and {high:g}, and about 1 per step is expected; divide "
            f"them by {largest:g}"
        )
    return ""


def split_by_episode(count: int, episodes: Tensor | None, share: float) -> tuple[Tensor, Tensor]:
    """Return the rows to train on and those held out, with no episode in both.

    Args:
        count: number of frames.
        episodes: (count,) episode of each frame; None holds nothing out.
        share: of the episodes to hold out, at least one unless it is 0.
    """
    rows = torch.arange(count)
    if episodes is None or share == 0:
        return rows, rows[:0]
    labels = episodes.cpu().unique()
    if len(labels) < 2:
        raise InputError(
            f"holding out an episode needs at least 2, got {len(labels)}; pass held_out=0, "
            "on the command line --reward.model.held-out 0"
        )
    held = min(len(labels) - 1, max(1, round(share * len(labels))))
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(SPLIT_SEED))
    is_held = torch.isin(episodes.cpu(), labels[order[:held]])
    return rows[~is_held], rows[is_held]
