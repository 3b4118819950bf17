# SPDX-License-Identifier: Apache-2.0
"""Annotated frames: what is accepted, and which episodes are held out."""

import torch
from torch import Tensor

from pureward.errors import InputError
from pureward.rewards.network import FrameNetwork, check_stored
from pureward.types import checked_tensor

# Which episodes are held out depends on the data alone, so that a second fit agrees.
SPLIT_SEED = 0


def checked_annotations(
    network: FrameNetwork, frames: Tensor, rewards: Tensor, episodes: Tensor | None
) -> Tensor:
    """Refuse annotations no reward can be learned from; return the rewards in float32."""
    check_shapes(network, frames, rewards, episodes)
    return finite_rewards(rewards, episodes)


def check_shapes(
    network: FrameNetwork, frames: Tensor, rewards: Tensor, episodes: Tensor | None = None
) -> None:
    """Refuse annotations that are no tensors or do not belong together, reading no values."""
    check_stored(frames)
    network.check_frames(frames)
    count = len(frames)
    if count == 0:
        raise InputError("annotated frames must not be empty, got none; check the dataset")
    for name, column in (("rewards", rewards), ("episodes", episodes)):
        if name == "episodes" and column is None:
            continue
        rule = f"{name} must be a tensor of shape ({count},), one per frame"
        shape = tuple(checked_tensor(column, rule).shape)
        if shape != (count,):
            raise InputError(
                f"{name} must have shape ({count},), one per frame, got {shape}; "
                "flatten episodes into frames"
            )


def finite_rewards(rewards: Tensor, episodes: Tensor | None = None) -> Tensor:
    """Return rewards in float32; refuse what is not finite there, for which the host must wait."""
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


def split_by_episode(count: int, episodes: Tensor | None, share: float) -> tuple[Tensor, Tensor]:
    """Return the rows to train on and those held out, no episode in both.

    Args:
        count: number of frames.
        episodes: (count,) episode of each frame; None holds nothing out.
        share: of the episodes to hold out, at least one unless it is 0.
    """
    everything = torch.arange(count)
    if episodes is None or share == 0:
        return everything, everything[:0]
    names = episodes.cpu().unique()
    if len(names) < 2:
        raise InputError(
            f"holding out an episode needs at least 2, got {len(names)}; pass held_out=0"
        )
    held = min(len(names) - 1, max(1, round(share * len(names))))
    order = torch.randperm(len(names), generator=torch.Generator().manual_seed(SPLIT_SEED))
    is_held = torch.isin(episodes.cpu(), names[order[:held]])
    return everything[~is_held], everything[is_held]
