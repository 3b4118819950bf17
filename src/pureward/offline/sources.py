# SPDX-License-Identifier: Apache-2.0
"""Episodes of any source with their frames in memory, within a bound."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from pureward.data.dataset import Dataset, in_another_order, in_memory, read_episodes
from pureward.data.draw import with_frames
from pureward.data.episodes import Episode
from pureward.data.replay.layout import claimable_bytes
from pureward.errors import InputError
from pureward.progress import Progress

if TYPE_CHECKING:
    from pureward.data.dataset import Source

_MOST_BYTES = 4 << 30  # of the frames of one source


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """The episodes of a source, with frames in memory."""

    name: str
    """What the source is for, such as "demonstrations"."""
    episodes: list[Episode]
    left_out: int
    """Episodes that did not fit into the bound."""
    lossy: bool
    frame_shape: tuple[int, ...]
    images: tuple[str, ...]
    """Names of the images that are stacked as channels; () if they have none."""

    def __str__(self) -> str:
        steps = sum(map(len, self.episodes))
        told = f"{self.name}: {len(self.episodes):,} episodes, {steps:,} frames"
        if self.left_out:
            told += f"; {self.left_out:,} more, chosen at random, do not fit into memory"
        return told


def describe(source: "Source") -> str:
    """Return the name of a source: its path, or how many episodes were given in memory."""
    if isinstance(source, Dataset):
        source = source.path or source.episodes
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    return f"{len(source)} episodes in memory"


def load(
    name: str,
    source: "Source",
    *,
    images: Sequence[str] = (),
    held_out: float = 0.2,
    device: torch.device | str = "cpu",
) -> Loaded:
    """Read episodes in a random order until a bound of memory is reached; keep their order.

    The bound is 4 GB of frames, or a third of the free memory if that is less.

    Args:
        name: what they are for.
        source: anything that `read_episodes` takes, or a dataset whose frames are drawn.
        images: names of the images to stack, if the source has several.
        held_out: share of the episodes to hold out, if the source has no splits.
        device: where frames are drawn, if the source has states only.
    """
    dataset = read_episodes(source, images=list(images) or None, held_out=held_out)
    free = claimable_bytes(torch.device("cpu"))
    room = _MOST_BYTES if free is None else min(_MOST_BYTES, free // 3)
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(0)).tolist()
    kept: dict[int, Episode] = {}
    bar = Progress(order, desc=f"reading {name}", unit="episode", leave=False)
    for index, episode in zip(bar, with_frames(dataset, order, device), strict=True):
        assert episode.frames is not None
        room -= torch.Size(episode.frames.shape).numel()
        if room < 0 and kept:
            break
        kept[index] = in_memory(episode)
    episodes = [kept[index] for index in sorted(kept)]
    first = episodes[0].frames
    assert first is not None
    return Loaded(
        name=name,
        episodes=episodes,
        left_out=len(dataset) - len(episodes),
        lossy=dataset.lossy,
        frame_shape=tuple(first.shape[1:]),
        images=dataset.images,
    )


def check_alike(loaded: Sequence[Loaded]) -> None:
    """Refuse sources whose frames have different shapes or channels; warn of loss on one side."""
    first = loaded[0]
    for other in loaded[1:]:
        if other.frame_shape != first.frame_shape:
            raise InputError(
                f"all frames must have one shape, got {first.frame_shape} in the {first.name} and "
                f"{other.frame_shape} in the {other.name}; choose the same --images in both"
            )
        if in_another_order(first.images, other.images):
            raise InputError(
                f"images must be in one order, got {list(first.images)} in the {first.name} and "
                f"{list(other.images)} in the {other.name}; choose the same --images in both"
            )
        if other.lossy != first.lossy:
            which = other if other.lossy else first
            print(
                f"warning: frames of the {which.name} were compressed with loss and the others "
                "were not, which a discriminator can learn; run `pureward check`"
            )
