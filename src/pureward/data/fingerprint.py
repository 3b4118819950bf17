# SPDX-License-Identifier: Apache-2.0
"""A short hash that tells whether a path still holds the same episodes."""

from collections.abc import Iterator, Sequence
from hashlib import sha256

from torch import Tensor

from pureward.data.dataset import Dataset, Source, read_episodes

_EPISODES = 64  # that are looked at, evenly spread: a large dataset is not read as a whole


def fingerprint(source: Source, images: str | Sequence[str] | None = None) -> str:
    """Return a hash of the number of episodes, and of some of them.

    Of at most 64 episodes it covers the split, the length, the rewards, and the first, middle and
    last frame as stored, or the simulator states if there are no frames.

    Args:
        source: anything that `read_episodes` takes.
        images: names of the images that are stacked, if the source has several.
    """
    found = sha256()
    # One camera at a time: as stored, they may be of several sizes.
    for camera in [images] if not images or isinstance(images, str) else images:
        for part in _parts(read_episodes(source, images=camera or None, size=None)):
            found.update(part)
    return found.hexdigest()


def _parts(dataset: Dataset) -> Iterator[bytes]:
    count = len(dataset)
    yield f"{count} episodes".encode()
    some = min(count, _EPISODES)
    for number in (at * count // some for at in range(some)):
        episode = dataset[number]
        steps = len(episode)
        yield f"{number} {episode.split} {steps} {episode.rated}".encode()
        yield _bytes(episode.rewards.float())
        shown = episode.simulator if episode.frames is None else {"frames": episode.frames}
        for name in sorted(shown):
            rows = shown[name][[0, steps // 2, steps]]
            yield f"{name} {tuple(rows.shape)}".encode() + _bytes(rows)


def _bytes(values: Tensor) -> bytes:
    array = values.detach().cpu().numpy()
    return array.astype(array.dtype.newbyteorder("<")).tobytes()
