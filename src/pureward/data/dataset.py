# SPDX-License-Identifier: Apache-2.0
"""Datasets of episodes, read by the registered reader that knows their format."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pureward.data.arrays import episodes_in_memory
from pureward.data.episodes import FAILURE, Episode, split_by_share
from pureward.data.guard import check_fits
from pureward.data.lazy import LazyFrames
from pureward.data.reader import Dataset, Options, Reader
from pureward.data.readers import READERS
from pureward.errors import InputError
from pureward.pixels import SIDE

#: The frames of an episode (T + 1, …), alone or with its rewards (T,).
Array = NDArray[np.generic] | Tensor
Recorded = Array | tuple[Array, Array]
#: A path, the id of a Minari dataset in the local cache, episodes, or arrays of images.
Source = str | os.PathLike[str] | Sequence[Episode] | Array | Sequence[Recorded]


_MOST_SIDE = 8192  # pixels of a frame's height or width


def read_episodes(
    source: Source,
    *,
    images: str | Sequence[str] | None = None,
    size: tuple[int, int] | None = (SIDE, SIDE),
    held_out: float = 0.2,
) -> Dataset:
    """Open episodes of any format; frames are read from disk when they are indexed.

    Args:
        source: a Minari dataset (a folder, or an id in the local cache), a LeRobot dataset, a
            robomimic HDF5 file, a video, a folder of images, an .npy or .npz file, or a folder of
            such videos, folders or files; or in memory: episodes, an array of images
            (T + 1, …) for each episode, or pairs of such an array and rewards (T,).
        images: one or more images to stack as channels, if the format names them and has several.
        size: height and width of the frames, resized with antialiasing; None keeps those that are
            stored.
        held_out: share of the episodes to hold out if the source has no splits.

    Returns:
        The episodes. `episode.frames[:]` reads all frames of one, uint8 (T + 1, channels, height,
        width); `episode.frames[5:9]` reads some. Episodes in memory are returned as they are.
    """
    options = _options(images, size, held_out)
    if isinstance(source, Dataset):
        return source
    if isinstance(source, str | os.PathLike):
        found = find_reader(source).read(Path(source), options)
    else:
        episodes = episodes_in_memory(source, options.splits, options.size)
        given = any(isinstance(item, Episode) for item in source)
        found = Dataset(path=None, states_ends=given, episodes=tuple(episodes))
    if not len(found):
        raise InputError(f"{source} must hold at least one episode, got none; collect some")
    return found


def read_dataset(
    path: Path | str,
    *,
    images: str | Sequence[str] | None = None,
    frame_shape: tuple[int, int, int] | None = None,
    held_out: float = 0.2,
) -> Dataset:
    """Read a dataset of any format into memory; `read_episodes` leaves frames on disk.

    Args:
        path: the dataset's folder or file, or the id of a Minari dataset in the local cache.
        images: one or more image observations to stack as channels, if there are several.
        frame_shape: channels, height and width that frames must have; those of another size are
            resized. All frames of a dataset must have one shape in any case.
        held_out: share of the episodes to hold out if the dataset has no splits.

    Returns:
        The episodes, each in one split.
    """
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"a dataset's path must be text or a Path, got {path!r}; name its folder")
    if frame_shape is not None and not (
        isinstance(frame_shape, tuple | list | torch.Size) and len(frame_shape) == 3
    ):
        raise InputError(
            f"frame_shape must be (channels, height, width), got {frame_shape!r}; try (3, 64, 64)"
        )
    wanted = None if frame_shape is None else tuple(frame_shape)
    size = None if frame_shape is None else (frame_shape[1], frame_shape[2])
    dataset = read_episodes(path, images=images, size=size, held_out=held_out)
    loaded: list[Episode] = []
    first = None
    for number, episode in enumerate(dataset):
        got = None if episode.frames is None else tuple(episode.frames.shape[1:])
        if got is not None and wanted not in (None, got):
            raise InputError(
                f"{path}, episode {number}: frames must be {wanted} (channels, height, width), got "
                f"{got}; choose other images of the data, or other frames of the environment "
                "(--frames)"
            )
        first = first if number else got
        if first not in (None, got):
            raise InputError(
                f"{path}, episode {number}: frames must be {first} (channels, height, width) as in "
                f"episode 0, got {got}; resize or drop that episode"
            )
        loaded.append(in_memory(episode))
    return replace(dataset, episodes=tuple(loaded))


def in_memory(episode: Episode) -> Episode:
    """Return the episode with its frames in memory; refuse if they do not fit."""
    if not isinstance(episode.frames, LazyFrames):
        return episode
    check_fits(episode.frames.nbytes)
    return replace(episode, frames=episode.frames[:])


def with_ends(dataset: Dataset, horizon: int) -> Dataset:
    """Return a dataset; if it states no ends, its episodes shorter than a horizon terminate."""
    if dataset.states_ends:
        return dataset
    ended = [replace(episode, terminated=len(episode) < horizon) for episode in dataset]
    return replace(dataset, episodes=ended)


def known_failures(dataset: Dataset) -> list[Episode]:
    """Return the episodes of the split "failure", or all if none is in it.

    Refuse a dataset without any if only marked episodes are failures, as those of sketches.
    """
    marked = list(dataset.split(FAILURE))
    if not marked and dataset.failure_mark:
        raise InputError(
            f"{dataset.path} must hold an episode that is marked a failure, got none; "
            f"{dataset.failure_mark}"
        )
    return marked or list(dataset)


def check_apart(failures: Dataset, positives: Dataset) -> None:
    """Refuse known failures that are the positives; episodes marked as failures are not."""
    if failures.path is None or positives.path is None or FAILURE in failures.splits:
        return
    if is_same(failures.path, positives.path):
        raise InputError(
            "known failures must be other episodes than the positives, got all episodes of "
            f"{failures.path} for both; give a dataset of failures"
        )


def is_same(one: Path, other: Path) -> bool:
    """Whether two paths name one dataset: by its folder, or by the folder `data` in it."""
    first, second = one.resolve(), other.resolve()
    return bool({first, first / "data"} & {second, second / "data"})


def in_another_order(names: Sequence[str], others: Sequence[str]) -> bool:
    """Whether both are the same names of images, and the channels of frames are not the same."""
    return tuple(names) != tuple(others) and sorted(names) == sorted(others)


def image_names(images: Any) -> tuple[str, ...]:
    """Return the names of images as a tuple; raise InputError for anything else than names."""
    names = (images,) if isinstance(images, str) else () if images is None else images
    if not (isinstance(names, tuple | list) and all(isinstance(name, str) for name in names)):
        raise InputError(f"images must be a name or several, got {images!r}; try images='frames'")
    return tuple(names)


def find_reader(path: str | os.PathLike[str]) -> Reader:
    """Return the reader that was registered last of those whose `can_read` accepts a path."""
    for name in reversed(list(READERS)):
        if READERS[name].can_read(Path(path)):
            return READERS[name]
    if not os.path.lexists(path):
        beside = "" if Path(path).is_absolute() else f" in {Path.cwd()}"
        raise InputError(f"{path} is not a dataset, and no file or folder{beside}; check the path")
    if Path(path).is_dir() and not any(Path(path).iterdir()):
        raise InputError(f"{path} is not a dataset but an empty folder; check the path")
    raise InputError(
        f"{path} is not a dataset that pureward can read ({', '.join(READERS)}); name the folder "
        "or file of such a dataset; images must be .png or .jpg, arrays .npy or .npz"
    )


def _options(images: Any, size: Any, held_out: float) -> Options:
    if size is not None and not (
        isinstance(size, tuple | list)
        and len(size) == 2
        and all(type(side) is int and 0 < side <= _MOST_SIDE for side in size)
    ):
        raise InputError(
            f"size must be (height, width), got {size!r}; try (64, 64), at most "
            f"({_MOST_SIDE}, {_MOST_SIDE})"
        )
    split_by_share(1, held_out)  # refuses a bad share
    names = image_names(images)
    return Options(
        images=names or None, size=None if size is None else (size[0], size[1]), held_out=held_out
    )
