# SPDX-License-Identifier: Apache-2.0
"""Datasets of episodes, read by the first reader that knows their format.

Register a reader of your own with `READERS.register("mine")(Reader(...))`.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pureward.data.episodes import Episode, check_split
from pureward.errors import InputError
from pureward.registry import Registry


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """The episodes of a dataset."""

    path: Path
    task: str | None
    """The task they were collected on, None if the dataset does not say."""
    lossy: bool
    """Whether frames were stored as JPEG: a discriminator can tell them by its artefacts."""
    episodes: tuple[Episode, ...]

    def split(self, name: str) -> list[Episode]:
        """The episodes of a split: "train", "held-out" or "failure"."""
        check_split(name)
        return [episode for episode in self.episodes if episode.split == name]


@dataclass(frozen=True, kw_only=True)
class Reader:
    """One format of datasets."""

    matches: Callable[[Path], bool]
    """Whether a path holds this format; reads no more than it needs to know."""
    read: Callable[..., Dataset]
    """Reads a path: called with it, and images (a tuple of names, or None) and held_out (share of
    the episodes to hold out where the dataset does not say) by keyword."""


#: Name → reader.
READERS: Registry[Reader] = Registry("reader")


def read_dataset(
    path: Path | str,
    *,
    images: str | tuple[str, ...] | None = None,
    frame_shape: tuple[int, int, int] | None = None,
    held_out: float = 0.2,
) -> Dataset:
    """Read a dataset of `pureward collect`, of Minari, or of a registered reader.

    Args:
        path: the dataset's folder or file.
        images: which image observations to stack as channels, where there are several; one name
            or more.
        frame_shape: channels, height and width that stored frames must have; all those of a
            dataset must be alike in any case.
        held_out: share of the episodes to hold out, where the dataset does not say itself.

    Returns:
        The episodes, each in one split.
    """
    _check_arguments(images, frame_shape)
    wanted = (images,) if isinstance(images, str) else images
    dataset = find_reader(path).read(Path(path), images=wanted, held_out=held_out)
    if not dataset.episodes:
        raise InputError(f"{path} must hold at least one episode, got none; collect some")
    shapes = [None if e.frames is None else tuple(e.frames.shape[1:]) for e in dataset.episodes]
    for index, got in enumerate(shapes):
        where = f"{path}, episode {index}"
        if frame_shape is not None and got is not None and got != tuple(frame_shape):
            raise InputError(
                f"{where}: frames must be {tuple(frame_shape)} (channels, height, width), got "
                f"{got}; resize the dataset or make the environment's cameras match it"
            )
        if shapes[0] is not None and got != shapes[0]:
            raise InputError(
                f"{where}: frames must be {shapes[0]} (channels, height, width) as in episode 0, "
                f"got {got}; resize or drop that episode"
            )
    return dataset


def find_reader(path: Path | str) -> Reader:
    """Return the first reader that knows the format of a path."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"a dataset's path must be text or a Path, got {path!r}; name its folder")
    from pureward.data import readers  # noqa: F401 - registers ours

    for name in READERS:
        if READERS[name].matches(Path(path)):
            return READERS[name]
    raise InputError(
        f"{path} is no dataset that pureward can read ({', '.join(READERS)}); give the folder "
        "that `pureward collect` or Minari wrote, which holds a metadata.json"
    )


def _check_arguments(images: Any, frame_shape: Any) -> None:
    if not (images is None or isinstance(images, str | tuple | list)):
        raise InputError(f"images must be a name or several, got {images!r}; try images='frames'")
    if frame_shape is not None and not (
        isinstance(frame_shape, tuple | list | torch.Size) and len(frame_shape) == 3
    ):
        raise InputError(
            f"frame_shape must be (channels, height, width), got {frame_shape!r}; try (3, 64, 64)"
        )
