# SPDX-License-Identifier: Apache-2.0
"""One pass over the episodes of a dataset: lengths, rewards, frames that repeat or show nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pureward.data.dataset import Dataset
from pureward.data.lazy import LazyFrames
from pureward.progress import Progress

if TYPE_CHECKING:
    from pureward.data.draw import Painter

_CLIP = 256  # frames in memory at once
_EMPTY = 2.0  # standard deviation of grey levels below which a frame shows nothing


@dataclass(frozen=True, kw_only=True)
class Surveyed:
    """What is known of one episode without its frames."""

    split: str
    steps: int
    rated: bool
    rewards: tuple[float, float]
    """Lowest and highest."""
    shape: tuple[int, ...]
    """Of a frame."""
    digests: tuple[bytes, ...]
    """Of every frame, in order; empty if frames are drawn from states."""
    still: int
    """Longest run of equal frames."""
    empty: int
    """Frames of one colour."""


@dataclass(frozen=True, kw_only=True)
class Survey:
    """All episodes of a dataset."""

    name: str
    lossy: bool
    episodes: list[Surveyed]
    firsts: Tensor
    """First frame of every episode, uint8 (episodes, channels, height, width)."""
    drawn: bool
    """Whether frames are drawn from states; then only the first ones are looked at."""

    def split(self, name: str) -> list[Surveyed]:
        """Return the episodes of a split."""
        return [episode for episode in self.episodes if episode.split == name]


def survey(name: str, dataset: Dataset, painter: "Painter | None" = None) -> Survey:
    """Look at every episode once; memory holds one clip of frames at a time.

    Args:
        name: of the dataset, for messages.
        dataset: its episodes.
        painter: draws first frames if the dataset has states only.
    """
    found, firsts, drawn = [], [], False
    for episode in Progress(dataset, desc=f"checking {name}", unit="episode", leave=False):
        if episode.frames is None:
            assert painter is not None, "a dataset without frames is drawn"
            drawn, first = True, painter.frames(episode, [0])
            digests, still, empty = (), 0, int(_is_empty(first).sum())
        else:
            first = episode.frames[:1]
            digests, still, empty = _frames(episode.frames)
        firsts.append(first)
        low, high = (float(end) for end in episode.rewards.aminmax())
        found.append(
            Surveyed(
                split=episode.split,
                steps=len(episode),
                rated=episode.rated,
                rewards=(low, high),
                shape=tuple(first.shape[1:]),
                digests=digests,
                still=still,
                empty=empty,
            )
        )
    alike = [first for first in firsts if first.shape == firsts[0].shape]
    return Survey(
        name=name,
        lossy=dataset.lossy,
        episodes=found,
        firsts=torch.cat(alike),
        drawn=drawn,
    )


def _frames(frames: Tensor | LazyFrames) -> tuple[tuple[bytes, ...], int, int]:
    """Digests of all frames, the longest run of equal ones, and the number of empty ones."""
    digests: list[bytes] = []
    empty = 0
    for clip in _clips(frames):
        digests += [blake2b(frame.numpy().tobytes(), digest_size=8).digest() for frame in clip]
        empty += int(_is_empty(clip).sum())
    return tuple(digests), _longest_run(digests), empty


def _clips(frames: Tensor | LazyFrames) -> Iterator[Tensor]:
    yield from frames.clips(_CLIP) if isinstance(frames, LazyFrames) else frames.split(_CLIP)


def _is_empty(frames: Tensor) -> Tensor:
    """Whether every image of a frame has one colour, bool (frames,)."""
    return (frames.float().flatten(2).std(2) < _EMPTY).all(1)


def _longest_run(values: Sequence[bytes]) -> int:
    longest = run = 1
    for before, after in pairwise(values):
        run = run + 1 if before == after else 1
        longest = max(longest, run)
    return longest
