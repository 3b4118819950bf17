# SPDX-License-Identifier: Apache-2.0
"""One pass over the episodes of a dataset: lengths, rewards, frames that repeat or show nothing."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pureward.data.arrays import given_episodes, given_shape
from pureward.data.dataset import Dataset, read_episodes
from pureward.data.draw import Painter, painter_of
from pureward.data.episodes import Episode
from pureward.data.lazy import LazyFrames
from pureward.errors import InputError
from pureward.offline.matching import state_of
from pureward.offline.sources import describe
from pureward.progress import Progress

if TYPE_CHECKING:
    from pureward.data.dataset import Source

_CLIP = 256  # frames in memory at once
_EMPTY = 2.0  # standard deviation of grey levels below which a frame shows nothing


@dataclass(frozen=True, kw_only=True)
class Surveyed:
    """What is known of one episode without its frames."""

    split: str
    steps: int
    rewards: tuple[float, float] | None
    """Lowest and highest; None if they are unknown."""
    outcome: bool | None
    row_per_frame: bool
    """This and the one before are as in `Episode`."""
    shapes: tuple[tuple[int, ...], ...]
    """Channels, height and width of each camera's frames before they are resized."""
    digests: tuple[bytes, ...]
    """Of every frame, in order; empty if frames are drawn from states."""
    still: int
    """Longest run of equal frames."""
    empty: int
    """Frames of one colour."""


@dataclass(frozen=True, kw_only=True)
class Survey:
    """A dataset, and what is known of its episodes."""

    name: str
    dataset: Dataset
    episodes: list[Surveyed]
    firsts: Tensor
    """First frame of every episode, uint8 (episodes, channels, height, width)."""
    painter: Painter | None
    """Draws frames from states if the dataset has no others; only first ones are looked at."""

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The most common shapes of an episode."""
        return Counter(episode.shapes for episode in self.episodes).most_common(1)[0][0]

    @property
    def rewards(self) -> tuple[float, float] | None:
        """The lowest and highest reward; None if all are unknown."""
        known = [episode.rewards for episode in self.episodes if episode.rewards is not None]
        if not known:
            return None
        return min(low for low, _ in known), max(high for _, high in known)

    @property
    def blank(self) -> bool:
        """Whether every frame that was looked at is of one colour."""
        return all(episode.empty == max(1, len(episode.digests)) for episode in self.episodes)

    def split(self, name: str) -> list[Surveyed]:
        """Return the episodes of a split."""
        return [episode for episode in self.episodes if episode.split == name]

    def states(self) -> list[Tensor]:
        """Return the states of every episode, (T + 1, size)."""
        found = [state for episode in self.dataset if (state := state_of(episode)) is not None]
        if len(found) < len(self.dataset):
            raise InputError(
                f"{self.name} must store the states of all {len(self.dataset)} episodes, got those "
                f"of {len(found)}; leave states out"
            )
        return found

    def frame(self, episode: int, instant: int) -> Tensor:
        """Return one frame, (1, channels, height, width)."""
        return _frame(self.dataset[episode], instant, self.painter)


def survey(source: "Source", images: str | Sequence[str], held_out: float, device: str) -> Survey:
    """Look at every episode once; memory holds one clip of frames at a time.

    Args:
        source: anything that `read_episodes` takes.
        images: names of the images to stack as channels, if the data has several.
        held_out: share of the episodes to hold out, if the data has no splits.
        device: where frames are drawn, if the data has states only.
    """
    name = describe(source)
    dataset = read_episodes(source, images=images, held_out=held_out)
    painter = painter_of(dataset, device) if dataset[0].frames is None else None
    # Arrays in memory have been resized already; frames on disk know the shapes that are stored.
    given = [None] * len(dataset) if dataset.path is not None else given_episodes(source)
    found, firsts = [], []
    bar = Progress(dataset, desc=f"checking {name}", unit="episode", leave=False)
    for episode, item in zip(bar, given, strict=True):
        first = _frame(episode, 0, painter)
        firsts.append(first)
        digests, still, empty = _frames(first if episode.frames is None else episode.frames)
        low, high = episode.rewards.aminmax()
        found.append(
            Surveyed(
                split=episode.split,
                steps=len(episode),
                rewards=(float(low), float(high)) if episode.rated else None,
                outcome=episode.outcome,
                row_per_frame=episode.row_per_frame,
                shapes=_shapes(episode, first, item),
                digests=() if episode.frames is None else digests,
                still=still,
                empty=empty,
            )
        )
    alike = torch.cat([first for first in firsts if first.shape == firsts[0].shape])
    return Survey(name=name, dataset=dataset, episodes=found, firsts=alike, painter=painter)


def _frame(episode: Episode, instant: int, painter: Painter | None) -> Tensor:
    if episode.frames is not None:
        return episode.frames[instant : instant + 1]
    assert painter is not None, "a dataset without frames is drawn"
    return painter.frames(episode, [instant])


def _shapes(episode: Episode, drawn: Tensor, given: Any) -> tuple[tuple[int, ...], ...]:
    """Shapes of the frames of each camera; the one that is drawn if the episode has none."""
    if isinstance(episode.frames, LazyFrames):
        return episode.frames.stored_shapes
    if given is not None and not isinstance(given, Episode):
        return (given_shape(given),)
    frames = drawn if episode.frames is None else episode.frames
    return (tuple(frames.shape[1:]),)


def _frames(frames: Tensor | LazyFrames) -> tuple[tuple[bytes, ...], int, int]:
    """Digests of all frames, the longest run of equal ones, and the number of empty ones."""
    digests: list[bytes] = []
    empty = 0
    for clip in frames.clips(_CLIP) if isinstance(frames, LazyFrames) else frames.split(_CLIP):
        digests += [blake2b(frame.numpy().tobytes(), digest_size=8).digest() for frame in clip]
        one_colour = clip.float().flatten(2).std(2) < _EMPTY  # by channel
        empty += int(one_colour.all(1).sum())
    return tuple(digests), max(sum(1 for _ in run) for _, run in groupby(digests)), empty
