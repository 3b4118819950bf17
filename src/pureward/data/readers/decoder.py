# SPDX-License-Identifier: Apache-2.0
"""Decodes videos: exact frames, and files that stay open between reads.

To open a video and go to a frame takes longer than to decode a hundred small frames. A decoder that
has finished a read is kept, and the next read of the file continues where it stopped.
"""

import atexit
import os
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Any

import av
import numpy as np
from av.container import InputContainer
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream
from numpy.typing import NDArray

from pureward.data.guard import FETCH
from pureward.data.readers.recognise import DEMUXERS
from pureward.errors import InputError

_KEPT_OPEN = 4  # videos
_SMALL = 12_000  # pixels up to which one thread decodes faster than several


@dataclass(frozen=True, kw_only=True)
class Index:
    """What a video holds, found by decoding its first frame alone."""

    times: tuple[int, ...]
    """Presentation time of each frame, increasing, in units of `seconds`."""
    keys: tuple[int, ...]
    """Times of the frames that can be decoded without others before them."""
    timed: bool
    """Whether the file states these times; otherwise they count frames, and there are no keys."""
    seconds: float
    shape: tuple[int, int, int]
    """Height, width and 3, as shown."""
    turns: int
    """Quarter turns to the left by which a frame is shown, as of a phone that was held upright."""
    version: tuple[int, int]
    """Bytes of the file, and when it was changed."""

    @cached_property
    def clock(self) -> NDArray:
        """Times in seconds."""
        return np.array(self.times) * self.seconds

    @cached_property
    def borders(self) -> NDArray:
        """Times half way between frames, in seconds."""
        return (self.clock[1:] + self.clock[:-1]) / 2


class Decoder:
    """An open video, and the row of the frame that it decoded last."""

    def __init__(self, file: Path, index: Index) -> None:
        """Open the video; `close` closes it."""
        self._index, self._row = index, -1
        self._held = ExitStack()
        self._container, self._stream = self._held.enter_context(opened(file))
        small = index.shape[0] * index.shape[1] <= _SMALL
        self._stream.thread_type = "NONE" if small else "AUTO"
        self._decoded = self._decode()
        self._colours = VideoReformatter()  # one for all: setting it up takes longer than a frame

    def frames(self, rows: Sequence[int]) -> Iterator[av.VideoFrame]:
        """Yield the frames of increasing rows as RGB; alpha is dropped."""
        for row in rows:
            if row != self._row + 1:
                self._go_near(row)
            frame = None
            while self._row < row and (found := next(self._decoded, None)) is not None:
                self._row, frame = found
            if self._row != row or frame is None:
                raise InputError(
                    f"frame {row} of {len(self._index.times)} cannot be decoded; {FETCH}"
                )
            yield self._colours.reformat(frame, format="rgb24", **_ONE_THREAD)

    def _go_near(self, row: int) -> None:
        """Go to the last frame from which a row can be decoded, if decoding on takes longer."""
        index = self._index
        at = bisect_right(index.keys, index.times[row])
        start = bisect_left(index.times, index.keys[at - 1]) if at else 0
        if start > self._row + 1 or row <= self._row:
            self._container.seek(index.times[start], stream=self._stream, backward=True)
            self._decoded, self._row = self._decode(), -1

    def close(self) -> None:
        """Close the video."""
        self._held.close()

    def _decode(self) -> Iterator[tuple[int, av.VideoFrame]]:
        """Yield frames with their rows, from where the container is."""
        times = self._index.times
        for number, frame in enumerate(self._container.decode(self._stream)):
            if not self._index.timed:
                yield number, frame
            elif frame.pts is not None:
                row = bisect_left(times, frame.pts)
                if row < len(times) and times[row] == frame.pts:
                    yield row, frame


@contextmanager
def opened(file: Path, **options: str) -> Iterator[tuple[InputContainer, VideoStream]]:
    """Open a video with the demuxer of its suffix alone, with options of the demuxer."""
    demuxer = DEMUXERS[file.suffix.lower()]
    with av.open(str(file.resolve()), format=demuxer, options=options) as container:
        stream = next(iter(container.streams.video), None)
        if stream is None or stream.codec_context is None:
            raise InputError(f"it must have a video stream of a known codec, and has none; {FETCH}")
        yield container, stream


def _one_thread() -> dict[str, Any]:
    """The option of PyAV 16 and later that converts colours in this thread, which is faster."""
    try:
        VideoReformatter().reformat(av.VideoFrame(2, 2, "rgb24"), format="gray", threads=1)
    except TypeError:
        return {}
    return {"threads": 1}


_ONE_THREAD = _one_thread()


# Decoders that are open and not in use, those used last at the end.
_idle: OrderedDict[tuple[Any, ...], Decoder] = OrderedDict()
_lock = RLock()  # a generator that ends in a garbage collection may take it again


@contextmanager
def decoder_of(file: Path, index: Index) -> Iterator[Decoder]:
    """Return a decoder that no other thread uses; it stays open for a later read."""
    key = (file.resolve(), index.version)
    with _lock:
        decoder = _idle.pop(key, None)
    decoder = decoder or Decoder(file, index)
    keep = False
    try:
        yield decoder
        keep = index.timed  # others can be read from their beginning alone
    except GeneratorExit:  # the reader needs no more frames
        keep = index.timed
        raise
    finally:
        with _lock:
            surplus = _idle.pop(key, None) if keep else decoder
            if keep:
                _idle[key] = decoder
        if surplus is not None:
            surplus.close()
        close_idle(_KEPT_OPEN)


def close_idle(keep: int = 0) -> None:
    """Close the videos that are open and not in use, except for those that were used last."""
    with _lock:
        surplus = [_idle.popitem(last=False)[1] for _ in range(len(_idle) - keep)]
    for one in surplus:
        one.close()


# FFmpeg's threads do not exist in a forked process, which would wait for them.
os.register_at_fork(before=close_idle)
atexit.register(close_idle)
