# SPDX-License-Identifier: Apache-2.0
"""Writes episodes of any format as our own dataset."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pureward.data.dataset import Dataset, read_episodes
from pureward.data.draw import with_frames
from pureward.data.episodes import Episode
from pureward.data.writing import write_episodes
from pureward.errors import InputError
from pureward.files import check_writable, whole_folder
from pureward.pixels import SIDE
from pureward.progress import Progress
from pureward.settings import as_path


def import_episodes(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | Path,
    *,
    images: str | Sequence[str] | None = None,
    size: tuple[int, int] | None = (SIDE, SIDE),
    held_out: float = 0.2,
) -> Dataset:
    """Write the episodes of a dataset, or of several, as our own.

    Frames lose nothing more and are read a block at a time. The folder is written completely or not
    at all.

    Args:
        source: a path, or the id of a Minari dataset in the local cache, as for `read_episodes`; or
            several, whose episodes are written one after another.
        out: folder of the new dataset; it must not exist.
        images: one or more images to stack as channels, if the source names several.
        size: height and width of the frames; None keeps those that are stored.
        held_out: share of the episodes to hold out if the source has no splits.

    Returns:
        The new dataset: splits, rewards, successes, states, actions, fps, names of images, and
        whether the source was compressed with loss, are those of the source. Of several, states
        are left out if one has none.
    """
    out = as_path("out", out)
    if os.path.lexists(out):  # also True for a broken link
        raise InputError(f"{out} exists already; choose another folder or delete it first")
    check_writable(out)
    sources = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not sources:
        raise InputError("an import needs at least one dataset, got none; name a folder or a file")
    dataset = _joined(
        [read_episodes(one, images=images, size=size, held_out=held_out) for one in sources]
    )
    write_dataset(out, dataset, with_frames(dataset))
    return read_episodes(out, size=None)


def _joined(datasets: Sequence[Dataset]) -> Dataset:
    """Return the episodes of all datasets as one; refuse datasets that state different things."""
    first, *others = datasets
    if not others:
        return first
    for other in others:
        for name in ("task", "images", "fps", "states_ends", "failure_mark"):
            ours, theirs = getattr(first, name), getattr(other, name)
            if ours != theirs:
                raise InputError(
                    f"datasets that become one must have the same {name}, got {ours!r} in "
                    f"{first.path} and {theirs!r} in {other.path}; import them apart"
                )
        if first[0].rated != other[0].rated:
            raise InputError(
                "datasets that become one must all have rewards or all have none, got rewards in "
                f"{(first if first[0].rated else other).path} only; import them apart"
            )
    episodes = [episode for dataset in datasets for episode in dataset]
    if any(dataset[0].state is None for dataset in datasets):
        episodes = [replace(episode, state=None) for episode in episodes]
    return replace(first, lossy=any(one.lossy for one in datasets), episodes=episodes)


def write_dataset(out: Path, dataset: Dataset, episodes: Iterator[Episode]) -> None:
    """Write episodes of a dataset as our own, atomically, with what the dataset states of itself.

    Args:
        out: folder of the new dataset; it must not exist.
        dataset: that the episodes are of.
        episodes: as many as it has, perhaps with other rewards.
    """
    facts = {
        "fps": dataset.fps,
        "lossy": dataset.lossy,
        "states_ends": dataset.states_ends,
        "images": dataset.images,
        "failure_mark": dataset.failure_mark,
    }
    with whole_folder(out) as folder:
        bar = Progress(episodes, total=len(dataset), desc=str(out), unit="episode")
        write_episodes(folder, bar, task=dataset.task, name=out.name, facts=facts)
