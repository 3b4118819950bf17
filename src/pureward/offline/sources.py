# SPDX-License-Identifier: Apache-2.0
"""Episodes of any source with their frames in memory, within a bound."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from pureward.data.arrays import given_episodes
from pureward.data.dataset import Dataset, in_another_order, in_memory, read_episodes
from pureward.data.draw import with_frames
from pureward.data.episodes import Episode
from pureward.data.replay.layout import claimable_bytes
from pureward.errors import InputError, warn
from pureward.progress import Progress

if TYPE_CHECKING:
    from pureward.data.dataset import Source

_MOST_BYTES = 4 << 30  # of the frames of one source


def describe(source: "Source") -> str:
    """Return the name of a source: its path, or how many episodes were given in memory."""
    path = source.path if isinstance(source, Dataset) else source
    if isinstance(path, str | os.PathLike):
        return str(Path(path))
    found = source if isinstance(source, Dataset) else given_episodes(source)
    return f"{len(found)} episodes in memory"


def load(
    name: str,
    source: "Source",
    *,
    images: Sequence[str] = (),
    held_out: float = 0.2,
    device: torch.device | str = "cpu",
) -> Dataset:
    """Read episodes with frames into memory, in a random order until a bound is reached.

    The bound is 4 GB of frames, or a third of the free memory if that is less.

    Args:
        name: what they are for.
        source: anything that `read_episodes` takes, or a dataset whose frames are drawn.
        images: names of the images to stack, if the source has several.
        held_out: share of the episodes to hold out, if the source has no splits.
        device: where frames are drawn, if the source has states only.

    Returns:
        The episodes that were read, in the order of the source.
    """
    dataset = read_episodes(source, images=images, held_out=held_out)
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
    if left := len(dataset) - len(kept):
        print(f"{name}: {left:,} episodes, chosen at random, are left out to save memory")
    return replace(dataset, episodes=[kept[index] for index in sorted(kept)])


def failed(logs: Sequence[Episode]) -> list[bool]:
    """Return whether each log is known to fail; none is if none succeeds.

    Many environments report no success, and data of those says that every step is none.
    """
    reported = any(episode.succeeds for episode in logs)
    return [reported and one.outcome is False for one in logs]


def check_alike(loaded: Mapping[str, Dataset]) -> None:
    """Refuse sources whose frames have different shapes or channels; warn of loss on one side."""
    (name, first), *others = loaded.items()
    shapes = {n: tuple(f.shape[1:]) for n, d in loaded.items() if (f := d[0].frames) is not None}
    for other, dataset in others:
        if shapes[other] != shapes[name]:
            raise InputError(
                f"all frames must have one shape, got {shapes[name]} in the {name} and "
                f"{shapes[other]} in the {other}; choose the same --images in both"
            )
        if in_another_order(first.images, dataset.images):
            raise InputError(
                f"images must be in one order, got {list(first.images)} in the {name} and "
                f"{list(dataset.images)} in the {other}; choose the same --images in both"
            )
        if dataset.lossy != first.lossy:
            warn(
                f"frames of the {other if dataset.lossy else name} were compressed with "
                "loss and the others were not, which a discriminator can learn; run "
                "`pureward check`"
            )
