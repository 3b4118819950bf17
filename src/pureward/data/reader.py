# SPDX-License-Identifier: Apache-2.0
"""What a reader of a format is asked for and returns, and the registry of readers.

To add your own, use `READERS.register("mine")(Reader(...))`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from pureward.data.episodes import Episode, check_split, split_by_share
from pureward.data.lazy import LazyEpisodes
from pureward.errors import InputError
from pureward.registry import Registry


@dataclass(frozen=True, kw_only=True)
class Dataset(Sequence[Episode]):
    """The episodes of a dataset, in memory or read from disk one by one when indexed."""

    path: Path | None
    """None if the episodes were given in memory."""
    task: str | None = None
    """Name of the task, None if the dataset does not state it."""
    lossy: bool = False
    """Whether frames were compressed with loss, as by JPEG or most video codecs; a discriminator
    can recognise the artefacts."""
    states_ends: bool = True
    """Whether `Episode.terminated` is known; arrays, images and videos do not state it."""
    fps: float | None = None
    """Frames per second, None if the dataset does not state them; for videos, the first one's."""
    images: tuple[str, ...] = ()
    """Names of the images that are stacked as channels, in this order; () if they have none."""
    failure_mark: str = ""
    """If only marked episodes are failures: how to mark one, such as "mark one with the key f".
    Otherwise ""."""
    episodes: Sequence[Episode]

    def __len__(self) -> int:
        return len(self.episodes)

    @overload
    def __getitem__(self, index: int) -> Episode: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Episode]: ...
    def __getitem__(self, index: int | slice) -> Episode | Sequence[Episode]:
        """Return one episode or several; those on disk are read at each call."""
        return self.episodes[index]

    @property
    def splits(self) -> tuple[str, ...]:
        """The split of each episode; those on disk are not read."""
        if isinstance(self.episodes, LazyEpisodes):
            return self.episodes.splits
        return tuple(episode.split for episode in self.episodes)

    def split(self, name: str) -> Sequence[Episode]:
        """Return the episodes of a split: "train", "held-out" or "failure"."""
        check_split(name)
        if isinstance(self.episodes, LazyEpisodes):
            return self.episodes.split(name)
        return [episode for episode in self.episodes if episode.split == name]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a reader is asked for."""

    images: tuple[str, ...] | None = None
    """Names of the images to stack as channels; None if there is only one."""
    size: tuple[int, int] | None = None
    """Height and width of the frames; None keeps those that are stored."""
    held_out: float = 0.2
    """Share of the episodes to hold out if the dataset has no splits."""

    def splits(self, count: int) -> list[str]:
        """Return the splits of `count` episodes without any."""
        return split_by_share(count, self.held_out)

    def chosen(self, found: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the images to read, of those that a dataset has."""
        if self.images is None and len(found) != 1:
            raise InputError(
                f"there must be one image, got {list(found)}; say which, in the order of their "
                "channels: images=(...), or --images NAME NAME"
            )
        for name in self.images or ():
            check_image(name, found)
        return self.images or tuple(found)

    def fill(self, found: Sequence[str | None]) -> list[str]:
        """Return the splits of episodes; those without one get one by share."""
        shares = self.splits(len(found))
        return [split or share for split, share in zip(found, shares, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Reads one format of datasets."""

    can_read: Callable[[Path], bool]
    """Whether a path holds this format; should read little."""
    read: Callable[[Path, Options], Dataset]
    copy: Callable[[Path, Path, Callable[[int], NDArray[np.generic]]], None] | None = None
    """Copies a dataset with other rewards; None to copy it in our own format. Called with its path,
    the path of the copy, and a function that returns the rewards (T,) of an episode by number."""
    copy_suffix: str = ""
    """Suffix of such a copy, such as ".hdf5"; "" for a folder."""


#: Name → reader.
READERS: Registry[Reader] = Registry("reader")


def check_image(name: str, found: Iterable[str]) -> None:
    """Refuse the name of an image that a source does not have."""
    names = list(found)
    if name not in names:
        raise InputError(
            f"unknown image {name!r}; choose from {names}: images=(...), or --images NAME"
        )
