# SPDX-License-Identifier: Apache-2.0
"""Frames and episodes on disk that are read when they are indexed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import torch
from torch import Tensor

from pureward.data.guard import check_pixels, guarding
from pureward.errors import InputError
from pureward.pixels import to_frames

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pureward.data.episodes import Episode

_BATCH_BYTES = 1 << 23  # of images that are converted at once


@dataclass(frozen=True, kw_only=True)
class Images:
    """The images of one camera in one episode, on disk."""

    count: int
    shape: tuple[int, ...]
    """Of one image as stored: (height, width), or with channels last or first."""
    read: "Callable[[Sequence[int]], Iterator[NDArray]]"
    """Called with increasing rows; yields one image at a time."""


class LazyFrames:
    """The frames of an episode on disk, uint8 (count, channels, height, width).

    `frames[10:20]`, `frames[[3, 5]]` and `frames[:]` read what they return; nothing is kept.
    """

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
            shapes = [_frame_shape(camera.shape, size) for camera in cameras]
        if len({shape[1:] for shape in shapes}) > 1:
            raise InputError(
                f"{where}: images must be of one size to be stacked, got "
                f"{[shape[1:] for shape in shapes]}; pass size=(64, 64) to resize them"
            )
        channels = sum(shape[0] for shape in shapes)
        self.shape = (self._stored + repeat_last, channels, *shapes[0][1:])

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes of all frames in memory."""
        return int(np.prod(self.shape, dtype=object))

    def __getitem__(self, index: Any) -> Tensor:
        """Read the frames of an index, a slice, a list or a tensor, as a tensor has them."""
        chosen = torch.arange(len(self))[index]
        rows, order = chosen.reshape(-1).unique(return_inverse=True)
        frames = torch.empty(len(rows), *self.shape[1:], dtype=torch.uint8)
        start = 0
        for part in self._parts(rows.tolist()):
            frames[start : start + len(part)] = part
            start += len(part)
        if len(order) != len(rows) or not torch.equal(order, torch.arange(len(rows))):
            frames = frames[order]
        return frames.view(*chosen.shape, *self.shape[1:])

    def clips(self, size: int = 256) -> Iterator[Tensor]:
        """Yield all frames in order, at most `size` at a time, in one pass over the file."""
        if size < 1:
            raise InputError(f"a clip must have at least one frame, got {size}; try 256")
        rest = torch.empty(0, *self.shape[1:], dtype=torch.uint8)
        for part in self._parts(range(len(self))):
            joined = torch.cat([rest, part])
            whole = len(joined) // size * size
            yield from joined[:whole].split(size) if whole else ()
            rest = joined[whole:]
        if len(rest):
            yield rest

    def _parts(self, rows: Sequence[int]) -> Iterator[Tensor]:
        """Yield the frames of increasing rows in batches of limited size."""
        if not len(rows):
            return
        last = self._stored - 1
        again = rows[-1] > last  # the repeated one
        wanted = [row for row in rows if row <= last]
        if again and (not wanted or wanted[-1] != last):
            wanted.append(last)
            again = False
        with guarding(self._where):
            streams = [self._converted(camera, wanted) for camera in self._cameras]
            done, frames = 0, None
            for parts in zip(*streams, strict=True):
                frames = torch.cat(list(parts), dim=1)
                done += len(frames)
                yield frames
            if done != len(wanted):
                raise InputError(f"{len(wanted)} images were expected, and {done} can be read")
            if again:
                assert frames is not None
                yield frames[-1:]

    def _converted(self, camera: Images, rows: Sequence[int]) -> Iterator[Tensor]:
        """Yield a camera's images of some rows as frames; all cameras in equal batches."""
        largest = max(int(np.prod(one.shape, dtype=object)) for one in self._cameras)
        count = max(1, _BATCH_BYTES // max(1, largest))
        images = camera.read(rows)
        while batch := list(islice(images, count)):
            for image in batch:
                if image.shape != camera.shape:
                    raise InputError(
                        f"images must all be {camera.shape} as the first one, got {image.shape}; "
                        "repair or drop that episode"
                    )
            yield to_frames(np.stack(batch), "cpu", self._size)


def _frame_shape(shape: tuple[int, ...], size: tuple[int, int] | None) -> tuple[int, int, int]:
    """Channels, height and width of the frame of an image."""
    pixels = sorted(shape)[-2:]
    check_pixels(*(pixels if len(pixels) == 2 else (0, 0)))
    one = to_frames(np.zeros((1, *shape), np.uint8), "cpu", size)
    return one.shape[1], one.shape[2], one.shape[3]


class LazyEpisodes(Sequence["Episode"]):
    """Episodes on disk, each read when it is indexed and not kept."""

    def __init__(self, splits: Iterable[str], read: "Callable[[int], Episode]") -> None:
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
    def __getitem__(self, index: int) -> "Episode": ...
    @overload
    def __getitem__(self, index: slice) -> "LazyEpisodes": ...
    def __getitem__(self, index: int | slice) -> "Episode | LazyEpisodes":
        """Read one episode, or return some of them unread."""
        if isinstance(index, slice):
            return self._some(range(len(self))[index])
        return self._read(range(len(self))[index])

    def split(self, name: str) -> "LazyEpisodes":
        """Return the episodes of a split, unread."""
        return self._some([row for row, split in enumerate(self.splits) if split == name])

    def _some(self, rows: Sequence[int]) -> "LazyEpisodes":
        return LazyEpisodes((self.splits[row] for row in rows), lambda row: self._read(rows[row]))
