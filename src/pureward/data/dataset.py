# SPDX-License-Identifier: Apache-2.0
"""Datasets of episodes, read by the first registered reader that knows their format.

To add your own, use `READERS.register("mine")(Reader(...))`.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from pureward.data.episodes import Episode, check_split
from pureward.errors import InputError, missing_extra
from pureward.registry import Registry


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """The episodes of a dataset."""

    path: Path
    task: str | None
    """Name of the task, None if the dataset does not state it."""
    lossy: bool
    """Whether frames were stored as JPEG; a discriminator can recognise its artefacts."""
    episodes: tuple[Episode, ...]

    def split(self, name: str) -> list[Episode]:
        """Return the episodes of a split: "train", "held-out" or "failure"."""
        check_split(name)
        return [episode for episode in self.episodes if episode.split == name]


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Reads one format of datasets."""

    matches: Callable[[Path], bool]
    """Whether a path holds this format; should read little."""
    read: Callable[..., Dataset]
    """Called with a path, and with the keywords images (a tuple of names, or None) and held_out
    (share of the episodes to hold out if the dataset has no splits)."""


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
        images: one or more image observations to stack as channels, if there are several.
        frame_shape: channels, height and width that stored frames must have. All frames of a
            dataset must have one shape in any case.
        held_out: share of the episodes to hold out if the dataset has no splits.

    Returns:
        The episodes, each in one split.
    """
    if not (images is None or isinstance(images, str | tuple | list)):
        raise InputError(f"images must be a name or several, got {images!r}; try images='frames'")
    if frame_shape is not None and not (
        isinstance(frame_shape, tuple | list | torch.Size) and len(frame_shape) == 3
    ):
        raise InputError(
            f"frame_shape must be (channels, height, width), got {frame_shape!r}; try (3, 64, 64)"
        )
    wanted = (images,) if isinstance(images, str) else images
    dataset = find_reader(path).read(Path(path), images=wanted, held_out=held_out)
    if not dataset.episodes:
        raise InputError(f"{path} must hold at least one episode, got none; collect some")
    _check_shapes(dataset, frame_shape)
    return dataset


def find_reader(path: Path | str) -> Reader:
    """Return the first reader whose `matches` accepts a path."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"a dataset's path must be text or a Path, got {path!r}; name its folder")
    try:
        from pureward.data import readers  # noqa: F401 - registers the built-in ones
    except ModuleNotFoundError as error:
        raise missing_extra(error) from error
    for name in READERS:
        if READERS[name].matches(Path(path)):
            return READERS[name]
    raise InputError(
        f"{path} is not a dataset that pureward can read ({', '.join(READERS)}); pass the folder "
        "that `pureward collect` or Minari wrote, which holds a metadata.json"
    )


def _check_shapes(dataset: Dataset, wanted: tuple[int, int, int] | None) -> None:
    """Refuse frames of another shape than wanted, or than the first episode's."""
    shapes = [None if e.frames is None else tuple(e.frames.shape[1:]) for e in dataset.episodes]
    for index, got in enumerate(shapes):
        where = f"{dataset.path}, episode {index}"
        if wanted is not None and got is not None and got != tuple(wanted):
            raise InputError(
                f"{where}: frames must be {tuple(wanted)} (channels, height, width), got {got}; "
                "resize the dataset or make the environment's cameras match it"
            )
        if shapes[0] is not None and got != shapes[0]:
            raise InputError(
                f"{where}: frames must be {shapes[0]} (channels, height, width) as in episode 0, "
                f"got {got}; resize or drop that episode"
            )
