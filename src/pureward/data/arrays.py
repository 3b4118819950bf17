# SPDX-License-Identifier: Apache-2.0
"""Episodes of arrays: images, and columns of numbers that belong to them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pureward.data.episodes import Episode
from pureward.data.guard import guarding
from pureward.data.lazy import LazyFrames, frame_shape
from pureward.errors import InputError
from pureward.pixels import to_frames

#: Columns of an episode besides its frames, and how T + 1 values become T: success and rewards
#: belong to the frame of their row, the first of which has none; the last action leads nowhere.
COLUMNS = {"rewards": slice(1, None), "success": slice(1, None), "actions": slice(None, -1)}


def episodes_in_memory(
    source: Any, splits: Callable[[int], Sequence[str]], size: tuple[int, int] | None
) -> list[Episode]:
    """Return episodes as they are, or make them of arrays of images.

    Args:
        source: episodes; an array of images (T + 1, …) for each episode, alone or in a pair with
            rewards (T,); one such array or pair; or one array (episodes, T + 1, …).
        splits: returns the splits of a number of episodes without any.
        size: height and width of the frames; None keeps those of the images.
    """
    items = given_episodes(source)
    if items and all(isinstance(item, Episode) for item in items):
        return items
    episodes = []
    for number, (item, split) in enumerate(zip(items, splits(len(items)), strict=True)):
        images, rewards = _parts(item)
        with guarding(f"episode {number}"):
            check_several(np.shape(images))
            columns = {} if rewards is None else {"rewards": rewards}
            pixels = images if isinstance(images, Tensor) else _numbers(images)
            frames = to_frames(pixels, "cpu", size, range(len(pixels)))
            episodes.append(make_episode(frames, columns, split=split))
    return episodes


def given_episodes(source: Any) -> list[Any]:
    """Return what was given in memory for each episode; raise InputError for anything else."""
    if _is_alone(source):
        return [source]
    if isinstance(source, np.ndarray | Tensor):
        return list(source)
    if not isinstance(source, Sequence):
        raise InputError(
            "episodes are named by a path, or given as a list of arrays of images, got "
            f"{type(source).__name__}; pass one of them"
        )
    return list(source)


def check_list(name: str, source: Any) -> None:
    """Refuse the images of one episode, alone or with rewards, where several are expected."""
    if _is_alone(source):
        raise InputError(
            f"{name} must be a list with the images of each episode, got one episode of shape "
            f"{tuple(np.shape(_parts(source)[0]))}; pass a list of them"
        )


def given_shape(item: Any) -> tuple[int, int, int]:
    """Return channels, height and width of the frames of given images before they are resized."""
    return frame_shape(tuple(np.shape(_parts(item)[0])[1:]), None)


def check_several(shape: tuple[int, ...]) -> None:
    """Refuse the shape of a single image where that of an episode's is expected."""
    if len(shape) == 3 and shape[-1] <= 4:
        raise InputError(
            f"the images of an episode must be (time, height, width, 3), got shape {tuple(shape)}, "
            "a single one; pass all of them"
        )


def make_episode(
    frames: Tensor | LazyFrames, columns: Mapping[str, NDArray | Tensor], **others: Any
) -> Episode:
    """Return an episode of T + 1 frames.

    Args:
        frames: uint8 (T + 1, channels, height, width).
        columns: rewards, success and actions with T rows, or with one per frame; state.
        others: fields of the episode.
    """
    steps = len(frames) - 1
    if steps < 1:
        raise InputError("an episode needs at least two frames, got one; drop it")
    found = {}
    for name, values in columns.items():
        with guarding(name):
            found[name] = to_tensor(values)
    full = {n for n in COLUMNS if n in found and found[n].dim() and len(found[n]) == len(frames)}
    found |= {name: found[name][COLUMNS[name]] for name in full}
    rewards, success = found.pop("rewards", None), found.pop("success", None)
    if success is not None and not ((success == 0) | (success == 1)).all():
        raise InputError("success must be 0 or 1 at every step, and is not; convert or drop it")
    if rewards is not None and rewards.dim() == 2 and rewards.shape[1] == 1:
        rewards = rewards[:, 0]
    return Episode(
        rewards=torch.zeros(steps) if rewards is None else rewards.float(),
        rated=rewards is not None,
        success=None if success is None else success.reshape(len(success), -1).bool().any(1),
        frames=frames,
        row_per_frame=bool(full & {"rewards", "success"}),
        **found,
        **others,
    )


def _is_alone(source: Any) -> bool:
    """Whether a source is the images of one episode, or a pair of them and rewards."""
    if isinstance(source, np.ndarray | Tensor):
        return source.ndim != 5
    return isinstance(source, tuple) and len(source) == 2 and getattr(source[1], "ndim", 0) == 1


def _parts(item: Any) -> tuple[Any, Any]:
    """The images and the rewards, if any, that were given for an episode."""
    return item if isinstance(item, tuple) and len(item) == 2 else (item, None)


def to_tensor(values: Any) -> Tensor:
    """Return numbers as a tensor of their own; refuse what is not real numbers."""
    array = np.array(_numbers(values))  # a copy: mapped files and Arrow's arrays are read-only
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))


def _numbers(values: Any) -> NDArray:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise InputError(f"values must be real numbers, got {array.dtype}; convert or drop them")
    return array
