# SPDX-License-Identifier: Apache-2.0
"""Reads videos frame by frame: exactly the frames that are stored, at whatever rate."""

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import av
import av.logging
import numpy as np
from av.container import InputContainer
from av.video.stream import VideoStream
from numpy.typing import NDArray

from pureward.data.arrays import make_episode
from pureward.data.episodes import Episode
from pureward.data.guard import FETCH, check_file, check_pixels, guarding
from pureward.data.lazy import Images, LazyEpisodes, LazyFrames, check_same_shape, per_block
from pureward.data.reader import Dataset, Options
from pureward.data.readers.decoder import Index, decoder_of, opened
from pureward.data.readers.recognise import DEMUXERS, is_array, is_video, list_episodes
from pureward.errors import InputError

_LOSSLESS = {"ffv1", "ffvhuff", "huffyuv", "png", "apng", "qtrle", "rawvideo", "utvideo"}
_TIMED = {"mov", "matroska"}  # demuxers that state the time of every frame and can go to it
_KEPT = 64  # indices of videos in memory
_LATE = 0.25  # seconds that may be missing at the end of a video whose header states a duration

# FFmpeg would print about damage, which is raised as an error here. `set_level` would call Python
# from FFmpeg's threads, and would wait for ever if a video is closed meanwhile.
av.logging.set_libav_level(av.logging.PANIC)


def read(path: Path, options: Options) -> Dataset:
    """Open a video, or all videos of a folder, one episode each."""
    if options.images is not None:
        raise InputError(f"{path}: videos have no names of images; leave out images")
    files = list_episodes(path, is_video)
    if path.is_dir() and (arrays := list_episodes(path, is_array)):
        raise InputError(
            f"{path} must hold episodes of one format, got {files[0][0].name} and "
            f"{arrays[0][0].name}; move the videos or the arrays to another folder"
        )
    splits = options.fill([split for _, split in files])

    def episode(number: int) -> Episode:
        file = files[number][0]
        with guarding(file):
            check_file(file, path)
            index = index_of(file)
            images = Images(
                count=len(index.times), shape=index.shape, read=partial(frames_at, file)
            )
            frames = LazyFrames([images], where=str(file), size=options.size)
            return make_episode(frames, {}, split=splits[number])

    with guarding(files[0][0]):
        check_file(files[0][0], path)
        lossy, rate = codec_of(files[0][0])
    episodes = LazyEpisodes(splits, episode)
    return Dataset(path=path, lossy=lossy, fps=rate, states_ends=False, episodes=episodes)


def codec_of(file: Path) -> tuple[bool, float | None]:
    """Return whether a video's codec loses information, and its frames per second if known."""
    with opened(file) as (_, stream):
        lossy = stream.codec_context.codec.canonical_name not in _LOSSLESS
        return lossy, float(stream.average_rate) if stream.average_rate else None


def index_of(file: Path) -> Index:
    """Return the index of a video; refuse one that was cut off."""
    known = os.stat(file)
    return _index(file.absolute(), known.st_size, known.st_mtime_ns)


@lru_cache(maxsize=_KEPT)
def _index(file: Path, size: int, changed: int) -> Index:
    with opened(file) as (container, stream):
        first = _first(container, stream)
        turns = round(first.rotation / 90) % 4
        sides = (first.width, first.height) if turns % 2 else (first.height, first.width)
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
            shape=(*sides, 3),
            turns=turns,
            version=(size, changed),
        )
        _check_whole(file, container, stream, index)
        return index


def _first(container: InputContainer, stream: VideoStream) -> av.VideoFrame:
    """The first frame; the container is at its beginning before and after."""
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
    return first


def _count_decoded(file: Path) -> int:
    with opened(file) as (container, stream):
        return sum(1 for _ in container.decode(stream))


def _count_stored(file: Path) -> int:
    """Count the frames of a video with those that its edit list hides, as its header does."""
    with opened(file, ignore_editlist="1") as (container, stream):
        return sum(1 for packet in container.demux(stream) if packet.size)


def _check_whole(file: Path, container: InputContainer, stream: VideoStream, index: Index) -> None:
    """Refuse a video with fewer frames than its header states."""
    if stream.frames > len(index.times) and stream.frames > (stored := _count_stored(file)):
        raise InputError(
            f"its header states {stream.frames} frames, and {stored} are in the file, which was "
            f"cut off; {FETCH}"
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


def frames_at(file: Path, rows: Sequence[int]) -> Iterator[NDArray]:
    """Yield the frames of increasing rows in blocks, uint8 (count, height, width, 3)."""
    index = index_of(file)
    height, width = index.shape[1::-1] if index.turns % 2 else index.shape[:2]
    at_once = per_block(index.shape)
    with decoder_of(file, index) as decoder:
        for start in range(0, len(rows), at_once):
            part = rows[start : start + at_once]
            block = np.empty((len(part), height, 3 * width), np.uint8)
            for image, frame in zip(block, decoder.frames(part), strict=True):
                check_same_shape((frame.height, frame.width, 3), (height, width, 3))
                plane: Any = frame.planes[0]
                lines = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)
                image[:] = lines[:height, : 3 * width]
            images = np.rot90(block.reshape(-1, height, width, 3), index.turns, axes=(1, 2))
            yield np.ascontiguousarray(images)
