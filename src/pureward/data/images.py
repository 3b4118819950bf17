# SPDX-License-Identifier: Apache-2.0
"""Finds the images in the observations of a Minari dataset and converts them to frames."""

import math
import sys
from collections.abc import Iterator
from functools import partial
from io import BytesIO
from typing import Any

import h5py
import numpy as np
import torch
from gymnasium import spaces
from minari.dataset.minari_storage import MinariStorage, is_image_space
from PIL import Image
from torch import Tensor

from pureward.data.guard import check_fits
from pureward.data.hdf5 import FILE
from pureward.errors import InputError

_SMALLEST = 16  # pixels; anything smaller is a grid of tokens, not an image


class _JpegOnly:
    """The functions of Pillow that Minari calls, limited to JPEG."""

    open = staticmethod(partial(Image.open, formats=("JPEG",)))
    fromarray = staticmethod(Image.fromarray)


def decode_jpeg_only(storage: MinariStorage) -> None:
    """Let Minari decode JPEG only, the format that it stores.

    It lets Pillow open any content of a JPEG column, and Pillow passes PostScript to Ghostscript,
    which executes it.
    """
    vars(sys.modules[type(storage).__module__])["Image"] = _JpegOnly


def check_jpegs(storage: MinariStorage, episode: int) -> None:
    """Refuse JPEG images of another size than in their space, or more than fit into memory.

    Minari allocates memory for all images of an episode at the size of the first one.
    """
    if storage.FORMAT != "hdf5" or not storage.jpeg_encoding:
        return
    with h5py.File(storage.data_path / FILE, "r") as file:
        group: Any = file[f"episode_{episode}"]
        for images, shape in (
            *_jpeg_columns(group["observations"], storage.observation_space),
            *_jpeg_columns(group["actions"], storage.action_space),
        ):
            check_fits(len(images) * math.prod(shape))
            for image in images:
                _check_jpeg(bytes(image), shape)


def _jpeg_columns(part: Any, space: spaces.Space) -> Iterator[tuple[Any, tuple[int, ...]]]:
    """Yield every column that Minari decodes as JPEG, with the shape of its images."""
    if isinstance(space, spaces.Dict):
        for key in part:
            yield from _jpeg_columns(part[key], space.spaces[key])
    elif isinstance(space, spaces.Tuple):
        for index, inner in enumerate(space.spaces):
            yield from _jpeg_columns(part[f"_index_{index}"], inner)
    elif isinstance(space, spaces.Box) and is_image_space(space):
        yield part, space.shape


def _check_jpeg(written: bytes, shape: tuple[int, ...]) -> None:
    width, height = _JpegOnly.open(BytesIO(written)).size  # reads the header only
    if (height, width) != shape[:2]:
        raise InputError(
            f"images must be {shape[0]}×{shape[1]} pixels as the metadata says, got "
            f"{height}×{width}; write the dataset again"
        )


def image_keys(space: spaces.Space, wanted: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """Return the paths ("camera/top") of the colour images in a space; "" is the space itself."""
    found = tuple(_paths(space))
    if wanted:
        unknown = [name for name in wanted if name not in found]
        if unknown:
            raise InputError(f"unknown image {unknown[0]!r}; choose from {list(found)}")
        return wanted
    if len(found) > 1:
        raise InputError(
            f"observations hold several images, {list(found)}; "
            "say which, in the order of their channels: images=(...), or --images NAME NAME"
        )
    return found


def stored_as_jpeg(space: spaces.Space, keys: tuple[str, ...]) -> bool:
    """Whether Minari's JPEG encoding applies to any of the images; it skips small ones."""
    return any(is_image_space(_at(space, key)) for key in keys)


def stacked_frames(observations: Any, keys: tuple[str, ...]) -> Tensor:
    """Return the named images of every step, stacked as channels: uint8 (T + 1, 3·k, h, w)."""
    parts = [_channels_first(np.asarray(_at(observations, key))) for key in keys]
    sizes = {part.shape[2:] for part in parts}
    if len(sizes) > 1:
        raise InputError(f"images must be of one size to be stacked, got {sorted(sizes)}")
    # numpy keeps the memory order of its inputs, and frames are channels first in memory too.
    return torch.from_numpy(np.ascontiguousarray(np.concatenate(parts, axis=1)))


def _at(tree: Any, key: str) -> Any:
    """The value at a path in nested dictionaries, or in a space of them."""
    for name in filter(None, key.split("/")):
        tree = tree[name]
    return tree


def _paths(space: spaces.Space, prefix: str = "") -> list[str]:
    if isinstance(space, spaces.Dict):
        inner = ((f"{prefix}/{k}".lstrip("/"), s) for k, s in space.spaces.items())
        return [path for name, part in inner for path in _paths(part, name)]
    return [prefix] if _is_image(space) else []


def _is_image(space: spaces.Space) -> bool:
    if not isinstance(space, spaces.Box) or space.dtype != np.uint8 or len(space.shape) != 3:
        return False
    return _channel_axis(space.shape) is not None


def _channel_axis(shape: tuple[int, ...]) -> int | None:
    """The colour axis of (height, width, 3·k) or (3·k, height, width)."""
    for axis in (2, 0):
        size = sorted(shape[i] for i in range(3) if i != axis)
        if shape[axis] % 3 == 0 and shape[axis] < _SMALLEST <= size[0]:
            return axis
    return None


def _channels_first(images: np.ndarray) -> np.ndarray:
    if images.ndim != 4 or images.dtype != np.uint8:
        raise InputError(
            f"images must be uint8 (time, height, width, 3), got {images.dtype} {images.shape}"
        )
    axis = _channel_axis(images.shape[1:])
    if axis is None:
        raise InputError(f"images must have 3 colours each, got shape {images.shape[1:]}")
    return images.transpose(0, 3, 1, 2) if axis == 2 else images
