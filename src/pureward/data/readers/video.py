# SPDX-License-Identifier: Apache-2.0
"""Reads videos frame by frame: exactly the frames that are stored, at whatever rate."""

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import av
import av.logging
import numpy as np
from av.container import InputContainer
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream

from pureward.data.arrays import make_episode
from pureward.data.dataset import Dataset, Options
from pureward.data.episodes import Episode
from pureward.data.guard import FETCH, check_file, check_pixels, guarding
from pureward.data.lazy import Images, LazyEpisodes, LazyFrames
from pureward.data.readers.recognise import DEMUXERS, is_video, list_episodes
from pureward.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LOSSLESS = {"ffv1", "ffvhuff", "huffyuv", "png", "apng", "qtrle", "rawvideo", "utvideo"}
_TIMED = {"mov", "matroska"}  # demuxers that state the time of every frame and can go to it
_KEPT = 64  # indices of videos in memory
_LATE = 0.25  # seconds that may be missing at the end of a video whose header states a duration

# FFmpeg prints about damage, which is told as an error. `set_level` would call Python from FFmpeg's
# threads, and wait for ever if a video is closed meanwhile.
av.logging.set_libav_level(av.logging.PANIC)


def read(path: Path, options: Options) -> Dataset:
    """Open a video, or all videos of a folder, one episode each."""
    if options.images is not None:
        raise InputError(f"{path}: videos have no names of images; leave out images")
    files = list_episodes(path, is_video)
    splits = options.fill([split for _, split in files])

    def episode(index: int) -> Episode:
        file = files[index][0]
        with guarding(file):
            check_file(file, path)
            frames = LazyFrames([camera(file)], where=str(file), size=options.size)
            return make_episode(frames, {}, split=splits[index])

    with guarding(files[0][0]):
        check_file(files[0][0], path)
        lossy = is_lossy(files[0][0])
    episodes = LazyEpisodes(splits, episode)
    return Dataset(path=path, lossy=lossy, states_ends=False, episodes=episodes)


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
    """Height, width and 3."""

    @cached_property
    def clock(self) -> "NDArray":
        """Times in seconds."""
        return np.array(self.times) * self.seconds


def camera(file: Path) -> Images:
    """Return the images of a video."""
    index = index_of(file)
    return Images(
        count=len(index.times), shape=index.shape, read=lambda rows: frames_at(file, rows)
    )


def is_lossy(file: Path) -> bool:
    """Whether a video's codec loses information."""
    with _opened(file) as (_, stream):
        return stream.codec_context.codec.canonical_name not in _LOSSLESS


def index_of(file: Path) -> Index:
    """Return the index of a video; refuse one that was cut off."""
    known = os.stat(file)
    return _index(file.resolve(), known.st_size, known.st_mtime_ns)


@lru_cache(maxsize=_KEPT)
def _index(file: Path, size: int, changed: int) -> Index:
    with _opened(file) as (container, stream):
        shape = _shape(container, stream)
        found = [
            (packet.pts, packet.is_keyframe)
            for packet in container.demux(stream)
            if packet.size and not packet.is_discard
        ]
        times = sorted({pts for pts, _ in found if pts is not None})
        timed = len(times) == len(found) and DEMUXERS[file.suffix.lower()] in _TIMED
        index = Index(
            times=tuple(times) if timed else tuple(range(_count_decoded(file))),
            keys=tuple(sorted(pts for pts, key in found if key and pts is not None and timed)),
            timed=timed,
            seconds=float(stream.time_base or 0),
            shape=shape,
        )
        _check_whole(container, stream, index)
        return index


def _shape(container: InputContainer, stream: VideoStream) -> tuple[int, int, int]:
    """The shape of the first frame; the container is at its beginning before and after."""
    check_pixels(stream.codec_context.height, stream.codec_context.width)
    first = next(container.decode(stream), None)
    if first is None:
        raise InputError(f"a video needs at least one frame, got none; {FETCH}")
    bits = max(part.bits for part in first.format.components)
    if first.format.name.startswith("gray") and bits > 8:
        raise InputError(
            f"grey videos must have 8 bits per pixel, got {bits}, as of a depth camera; convert it"
        )
    container.seek(0)
    return first.height, first.width, 3


def _count_decoded(file: Path) -> int:
    with _opened(file) as (container, stream):
        return sum(1 for _ in container.decode(stream))


def _check_whole(container: InputContainer, stream: VideoStream, index: Index) -> None:
    """Refuse a video with fewer frames than its header states."""
    if stream.frames > len(index.times):
        raise InputError(
            f"its header states {stream.frames} frames, and {len(index.times)} are in the file, "
            f"which was cut off; {FETCH}"
        )
    alone = len(container.streams) == 1  # else the duration may be that of the sound
    if not (alone and index.timed and container.duration and not stream.frames):
        return
    begins, ends = index.times[0] * index.seconds, index.times[-1] * index.seconds
    seconds = container.duration / av.time_base
    interval = (ends - begins) / max(1, len(index.times) - 1)
    if ends + interval < seconds - _LATE:
        raise InputError(
            f"its header states {seconds:.2f} seconds, and the last frame is at {ends:.2f}, so it "
            f"was cut off; {FETCH}"
        )


def frames_at(file: Path, rows: Sequence[int]) -> "Iterator[NDArray]":
    """Yield the frames of increasing rows, uint8 (height, width, 3); alpha is dropped."""
    index = index_of(file)
    with _opened(file) as (container, stream):
        stream.thread_type = "AUTO"
        decoded, place = _decoded(container, stream, index), -1
        colours = VideoReformatter()  # one for all: setting it up takes longer than a frame
        for row in rows:
            start = _decodable_from(index, row)
            if start > place + 1:  # skip what need not be decoded
                container.seek(index.times[start], stream=stream, backward=True)
                decoded = _decoded(container, stream, index)
            frame = None
            while place < row and (found := next(decoded, None)) is not None:
                place, frame = found
            if place != row or frame is None:
                raise InputError(f"frame {row} of {len(index.times)} cannot be decoded; {FETCH}")
            yield colours.reformat(frame, format="rgb24").to_ndarray()


def _decodable_from(index: Index, row: int) -> int:
    """The row from which the frames up to a row can be decoded."""
    at = bisect_right(index.keys, index.times[row])
    return bisect_left(index.times, index.keys[at - 1]) if at else 0


def _decoded(
    container: InputContainer, stream: VideoStream, index: Index
) -> Iterator[tuple[int, av.VideoFrame]]:
    """Yield frames with their rows, from where the container is."""
    for number, frame in enumerate(container.decode(stream)):
        if not index.timed:
            yield number, frame
        elif frame.pts is not None:
            row = bisect_left(index.times, frame.pts)
            if row < len(index.times) and index.times[row] == frame.pts:
                yield row, frame


@contextmanager
def _opened(file: Path) -> Iterator[tuple[InputContainer, VideoStream]]:
    """Open a video with the demuxer of its suffix alone."""
    with av.open(str(file.resolve()), format=DEMUXERS[file.suffix.lower()]) as container:
        stream = next(iter(container.streams.video), None)
        if stream is None or stream.codec_context is None:
            raise InputError(f"it must have a video stream of a known codec, and has none; {FETCH}")
        yield container, stream
