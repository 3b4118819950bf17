# SPDX-License-Identifier: Apache-2.0
"""A short hash that tells whether a path still holds the same episodes."""

from collections.abc import Sequence
from hashlib import sha256

from torch import Tensor

from pureward.data.dataset import Source, read_episodes

_EPISODES = 64  # that are looked at, evenly spread: a large dataset is not read as a whole


def fingerprint(source: Source, images: str | Sequence[str] | None = None) -> str:
    """Return a hash of the number of episodes, and of some of them.

    Of at most 64 episodes it covers the split, the length, the rewards, and the first, middle and
    last frame as stored, or the simulator states if there are no frames.

    Args:
        source: anything that `read_episodes` takes.
        images: names of the images that are stacked, if the source has several.
    """
    dataset = read_episodes(source, images=images, size=None)
    count, found = len(dataset), sha256()
    found.update(f"{count} episodes".encode())
    some = min(count, _EPISODES)
    for number in (at * count // some for at in range(some)):
        episode = dataset[number]
        steps = len(episode)
        found.update(f"{number} {episode.split} {steps} {episode.rated}".encode())
        found.update(_bytes(episode.rewards.float()))
        shown = episode.simulator if episode.frames is None else {"frames": episode.frames}
        for name in sorted(shown):
            rows = shown[name][[0, steps // 2, steps]]
            found.update(f"{name} {tuple(rows.shape)}".encode() + _bytes(rows))
    return found.hexdigest()


def _bytes(values: Tensor) -> bytes:
    array = values.detach().cpu().numpy()
    return array.astype(array.dtype.newbyteorder("<")).tobytes()
