# SPDX-License-Identifier: Apache-2.0
"""Frames and episodes on disk that are read when they are indexed."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pureward.data.guard import check_pixels, guarding
from pureward.errors import InputError
from pureward.pixels import to_frames

T = TypeVar("T")

#: Bytes of images that are read and converted at once.
BLOCK_BYTES = 1 << 22


@dataclass(frozen=True, kw_only=True)
class Images:
    """The images of one camera in one episode, on disk."""

    count: int
    shape: tuple[int, ...]
    """Of one image as stored: (height, width), or with channels last or first."""
    read: Callable[[Sequence[int]], Iterator[NDArray]]
    """Called with increasing rows; yields their images in order, in blocks (count, *shape) of about
    `BLOCK_BYTES`."""


def per_block(shape: tuple[int, ...], itemsize: int = 1) -> int:
    """Return how many images of a shape a block has."""
    return max(1, BLOCK_BYTES // max(1, math.prod(shape) * itemsize))


def decoded_images(
    count: int,
    decoded: Callable[[Sequence[int]], Iterator[NDArray]],
    shape: tuple[int, ...] | None = None,
) -> Images:
    """Return images that are decoded one by one.

    Args:
        count: of the images.
        decoded: yields the images of increasing rows, uint8, all of one shape.
        shape: of an image; None to decode the first one for it.
    """
    first = shape or next(decoded([0])).shape

    def read(rows: Sequence[int]) -> Iterator[NDArray]:
        kept: list[NDArray] = []
        for image in decoded(rows):
            check_same_shape(image.shape, first)
            kept.append(image)
            if len(kept) == per_block(first):
                yield np.stack(kept)
                kept = []
        if kept:
            yield np.stack(kept)

    return Images(count=count, shape=first, read=read)


def check_same_shape(shape: tuple[int, ...], first: tuple[int, ...]) -> None:
    """Refuse an image of another shape than those of its episode."""
    if shape != first:
        raise InputError(
            f"images of an episode must all be {first}, got {shape}; repair or drop that episode"
        )


class LazyFrames:
    """The frames of an episode on disk, uint8 (count, channels, height, width).

    `frames[10:20]`, `frames[[3, 5]]` and `frames[:]` read what they return; nothing is kept.
    """

    dtype = torch.uint8

    def __init__(
        self,
        cameras: Sequence[Images],
        *,
        where: str,
        size: tuple[int, int] | None = None,
        repeat_last: bool = False,
    ) -> None:
        """Check that the cameras fit together; read nothing.

        Args:
            cameras: their images are stacked as channels.
            where: file and episode, for error messages.
            size: height and width of the frames; None keeps those of the images.
            repeat_last: whether the last image is repeated once. Formats with one image per
                action do not store the state that the last action led to.
        """
        self._cameras, self._where, self._size = tuple(cameras), where, size
        counts = {camera.count for camera in cameras}
        if len(counts) != 1 or 0 in counts:
            raise InputError(
                f"{where}: every camera must have the same number of images, at least one, got "
                f"{[camera.count for camera in cameras]}; repair or drop that episode"
            )
        self._stored = counts.pop()
        with guarding(where):
            shapes = [frame_shape(camera.shape, size) for camera in cameras]
        if len({shape[1:] for shape in shapes}) > 1:
            raise InputError(
                f"{where}: images must be of one size to be stacked, got "
                f"{[shape[1:] for shape in shapes]}; choose one of them, or resize them with "
                "size=(64, 64), --size 64 64"
            )
        channels = sum(shape[0] for shape in shapes)
        self.shape = (self._stored + repeat_last, channels, *shapes[0][1:])

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def stored_shapes(self) -> tuple[tuple[int, int, int], ...]:
        """Channels, height and width of each camera's frames before they are resized."""
        return tuple(frame_shape(camera.shape, None) for camera in self._cameras)

    @property
    def nbytes(self) -> int:
        """Bytes of all frames in memory."""
        return math.prod(self.shape)

    def __getitem__(self, index: Any) -> Tensor:
        """Read the frames of an index, a slice, a list or a tensor, as a tensor has them."""
        chosen = torch.arange(len(self))[index]
        rows, order = chosen.reshape(-1).unique(return_inverse=True)
        frames = torch.empty(len(rows), *self.shape[1:], dtype=torch.uint8)
        start = 0
        for part in self._parts(rows.tolist()):
            frames[start : start + len(part)] = part
            start += len(part)
        if not torch.equal(order, torch.arange(len(rows))):
            frames = frames[order]
        return frames.view(*chosen.shape, *self.shape[1:])

    def clips(self, size: int = 256) -> Iterator[Tensor]:
        """Yield all frames in order, at most `size` at a time, in one pass over the file."""
        if size < 1:
            raise InputError(f"a clip must have at least one frame, got {size}; try 256")
        rest: Tensor | None = None
        for part in self._parts(range(len(self))):
            joined = part if rest is None else torch.cat([rest, part])
            whole = len(joined) // size * size
            yield from joined[:whole].split(size) if whole else ()
            rest = joined[whole:] if whole < len(joined) else None
        if rest is not None:
            yield rest

    def _parts(self, rows: Sequence[int]) -> Iterator[Tensor]:
        """Yield the frames of increasing rows in batches of limited size."""
        if not len(rows):
            return
        wanted = sorted({min(row, self._stored - 1) for row in rows})
        with guarding(self._where):
            done, frames = 0, None
            for frames in _side_by_side([self._converted(one, wanted) for one in self._cameras]):
                done += len(frames)
                yield frames
            if done != len(wanted):
                raise InputError(f"{len(wanted)} images were expected, and {done} can be read")
            if len(wanted) < len(rows):  # the last one is repeated
                assert frames is not None
                yield frames[-1:]

    def _converted(self, camera: Images, rows: Sequence[int]) -> Iterator[Tensor]:
        """Yield a camera's images of some rows as frames."""
        done = 0
        for block in camera.read(rows):
            check_same_shape(block.shape[1:], camera.shape)
            yield to_frames(block, "cpu", self._size, rows[done : done + len(block)])
            done += len(block)


def _side_by_side(cameras: Sequence[Iterator[Tensor]]) -> Iterator[Tensor]:
    """Join the frames of cameras as channels; their blocks may differ in length."""
    if len(cameras) == 1:
        yield from cameras[0]
        return
    held: list[Tensor | None] = [next(camera, None) for camera in cameras]
    while all(block is not None for block in held):
        blocks = [block for block in held if block is not None]
        count = min(map(len, blocks))
        yield torch.cat([block[:count] for block in blocks], dim=1)
        for place, block in enumerate(blocks):
            held[place] = block[count:] if len(block) > count else next(cameras[place], None)


@lru_cache(maxsize=64)
def frame_shape(shape: tuple[int, ...], size: tuple[int, int] | None) -> tuple[int, int, int]:
    """Return channels, height and width of the frame of an image; None keeps its size."""
    pixels = sorted(shape)[-2:]
    check_pixels(*(pixels if len(pixels) == 2 else (0, 0)))
    one = to_frames(np.zeros((1, *shape), np.uint8), "cpu", size)
    return one.shape[1], one.shape[2], one.shape[3]


class LazyEpisodes(Sequence[T]):
    """Episodes on disk, each read when it is indexed and not kept."""

    def __init__(self, splits: Iterable[str], read: Callable[[int], T]) -> None:
        """Read nothing.

        Args:
            splits: the split of each episode.
            read: returns the episode of a number.
        """
        self.splits = tuple(splits)
        self._read = read

    def __len__(self) -> int:
        return len(self.splits)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> "LazyEpisodes[T]": ...
    def __getitem__(self, index: int | slice) -> "T | LazyEpisodes[T]":
        """Read one episode, or return some of them unread."""
        if isinstance(index, slice):
            return self._some(range(len(self))[index])
        return self._read(range(len(self))[index])

    def split(self, name: str) -> "LazyEpisodes[T]":
        """Return the episodes of a split, unread."""
        return self._some([row for row, split in enumerate(self.splits) if split == name])

    def _some(self, rows: Sequence[int]) -> "LazyEpisodes[T]":
        return LazyEpisodes((self.splits[row] for row in rows), lambda row: self._read(rows[row]))
