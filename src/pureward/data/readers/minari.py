# SPDX-License-Identifier: Apache-2.0
"""Reads Minari datasets: those of `pureward collect`, and others with image observations."""

import json
import math
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from gymnasium import spaces
from minari.dataset.minari_storage import MinariStorage, is_image_space
from numpy.typing import NDArray
from PIL import Image

from pureward.data.arrays import to_tensor
from pureward.data.episodes import Episode
from pureward.data.guard import FETCH, check_file, guarding, read_json
from pureward.data.hdf5 import (
    FILE,
    check_count,
    check_episode,
    check_heaps,
    read_rows,
    read_splits,
    rows_at_once,
)
from pureward.data.lazy import Images, LazyEpisodes, LazyFrames, decoded_images, per_block
from pureward.data.reader import Dataset, Options
from pureward.data.readers.images import decode
from pureward.data.readers.recognise import minari_folder
from pureward.errors import InputError
from pureward.types import DRAWN_FROM

OURS = "pureward"  # key of the metadata that `pureward collect` writes
UNRATED = "no"  # tag `rated` of an episode whose rewards are unknown
_SMALLEST = 16  # pixels; anything smaller is a grid of tokens, not an image


class _JpegOnly:
    """The functions of Pillow that Minari calls, limited to JPEG.

    Minari lets Pillow open any content of a JPEG column, and Pillow passes PostScript to
    Ghostscript, which executes it.
    """

    open = staticmethod(partial(Image.open, formats=("JPEG",)))
    fromarray = staticmethod(Image.fromarray)


def read(path: Path, options: Options) -> Dataset:
    """Open a dataset: its folder, the `data` folder in it, or its id in the local cache."""
    folder = minari_folder(path)
    assert folder is not None, "`can_read` was true"
    root = path if path.exists() else folder.parent
    metadata = _metadata(folder, root)
    _check_files(folder, root, metadata)
    with guarding(folder):
        storage = MinariStorage.read(folder)
        vars(sys.modules[type(storage).__module__])["Image"] = _JpegOnly
        space, own = storage.observation_space, metadata.get(OURS)
        found = tuple(_image_keys(space))
        keys = options.chosen(found) if found or options.images else ()
        columns = space.spaces if isinstance(space, spaces.Dict) else {}
        # Elsewhere "state", "success" and "split" may have another meaning.
        ours = isinstance(own, dict) and not {"state", "qpos", "frames"}.isdisjoint(columns)
        if not keys and not (ours and "qpos" in columns):  # frames can be drawn from qpos
            raise InputError(
                f"observations must hold uint8 colour images, got {space}; record the dataset "
                "with an environment that observes pixels"
            )
        count = metadata["total_episodes"]
        splits = options.fill(_tagged(storage, count)) if ours else options.splits(count)
    file = folder / FILE if storage.FORMAT == "hdf5" else folder

    def episode(index: int) -> Episode:
        where = f"{file}, episode {index}"
        with guarding(where):
            return _episode(storage, index, keys, where, splits[index], options, ours)

    facts = own if isinstance(own, dict) else {}
    rate = facts.get("fps")
    jpeg = any(_is_jpeg(storage, key) for key in keys)
    return Dataset(
        path=path,
        task=facts.get("task"),
        lossy=jpeg or bool(facts.get("lossy")),
        states_ends=bool(facts.get("states_ends", True)),
        failure_mark=str(facts.get("failure_mark") or ""),
        fps=float(rate) if isinstance(rate, int | float) and 0 < rate < math.inf else None,
        images=_names(facts) if ours and keys == ("frames",) else tuple(filter(None, keys)),
        episodes=LazyEpisodes(splits, episode),
    )


def _names(facts: dict[str, Any]) -> tuple[str, ...]:
    """What the images in our `frames` were called in the source that they were imported from."""
    names = facts.get("images")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return ()
    return tuple(names)


def _metadata(folder: Path, root: Path) -> dict[str, Any]:
    path = folder / "metadata.json"
    with guarding(path):
        metadata = read_json(path, root)
        if not isinstance(metadata, dict):
            raise InputError(f"{path} must hold a JSON object; {FETCH}")
        # Without these Minari would make the environment that the dataset names: untrusted code.
        for name in ("observation_space", "action_space"):
            if not isinstance(metadata.get(name), str):
                raise InputError(
                    f"{path} must name the dataset's {name}; write it again with Minari"
                )
            json.loads(metadata[name], object_hook=_check_space)
    count = metadata.get("total_episodes")
    if type(count) is not int or count < 1:  # True is an int in Python
        raise InputError(f"{folder} must hold at least one episode, got {count}; collect some")
    return metadata


def _check_space(space: dict[str, Any]) -> None:
    """Refuse a dtype that is not numeric: numpy allocates gigabytes for "S1000000000"."""
    if "dtype" in space and np.dtype(space["dtype"]).kind not in "biuf":
        raise InputError(f"a space's dtype must be of numbers, got {space['dtype']!r}; correct it")


def _check_files(folder: Path, root: Path, metadata: dict[str, Any]) -> None:
    """Refuse files elsewhere, and another number of episodes than announced."""
    if metadata.get("data_format") == "hdf5":
        file = folder / FILE
        with guarding(file):
            check_file(file, root)
            check_heaps(file)
            check_count(file, metadata["total_episodes"])
        return  # the rest is checked with each episode
    for file in folder.rglob("*"):  # Arrow has a folder for each episode
        if file.is_symlink() or not file.is_dir():
            with guarding(file):
                check_file(file, root)


def _tagged(storage: MinariStorage, count: int) -> list[str | None]:
    """The splits that are stored with the episodes."""
    if storage.FORMAT == "hdf5":
        return read_splits(storage.data_path / FILE, count)
    return [tags.get("split") for tags in storage.get_episode_metadata(range(count))]


def _episode(
    storage: MinariStorage,
    index: int,
    keys: tuple[str, ...],
    where: str,
    split: str,
    options: Options,
    ours: bool,
) -> Episode:
    space = storage.observation_space
    if storage.FORMAT == "hdf5":
        file = storage.data_path / FILE
        columns = [f"observations/{key}".rstrip("/") for key in keys]
        check_episode(file, index, columns)
        raw = _numbers(file, index)
        cameras = [
            _jpegs(file, f"episode_{index}/{column}", _at(space, key).shape)
            if _is_jpeg(storage, key)
            else _camera(file, f"episode_{index}/{column}")
            for key, column in zip(keys, columns, strict=True)
        ]
    else:  # Minari reads all images of an episode at once
        raw = next(iter(storage.get_episodes([index])))
        cameras = [_loaded(np.asarray(_at(raw["observations"], key))) for key in keys]
    frames = LazyFrames(cameras, where=where, size=options.size) if keys else None
    seen = raw["observations"]
    # Episodes without actions are stored with vectors of no numbers.
    numeric = isinstance(raw["actions"], np.ndarray) and raw["actions"].size > 0
    fields: dict[str, Any] = {
        "rewards": to_tensor(raw["rewards"]).float(),
        "actions": to_tensor(raw["actions"]) if numeric else None,
        "frames": frames,
        "split": split,
        "terminated": bool(np.asarray(raw["terminations"])[-1]),
    }
    if ours:
        tags = next(iter(storage.get_episode_metadata([index])))
        success = (raw["infos"] or {}).get("success")
        has_state = isinstance(space, spaces.Dict) and "state" in space.spaces  # else it is compact
        fields |= {
            "success": None if success is None else to_tensor(success).bool(),
            "state": to_tensor(seen["state"]) if has_state else None,
            "simulator": {name: to_tensor(seen[name]) for name in DRAWN_FROM if name in seen},
            "policy": str(tags.get("policy", "")),
            "rated": str(tags.get("rated", "")) != UNRATED,
        }
    return Episode(**fields)


def _numbers(file: Path, index: int) -> dict[str, Any]:
    """The columns of an episode besides its images, as Minari returns them; None for text."""
    with h5py.File(file, "r") as root:
        group: Any = root[f"episode_{index}"]

        def read(name: str) -> Any:
            column = group.get(name)
            is_text = isinstance(column, h5py.Dataset) and column.dtype.kind in "OSU"
            return column[()] if isinstance(column, h5py.Dataset) and not is_text else None

        seen = {name: read(f"observations/{name}") for name in ("state", *DRAWN_FROM)}
        return {
            "observations": {name: value for name, value in seen.items() if value is not None},
            "infos": {"success": read("infos/success")},
            **{name: read(name) for name in ("actions", "rewards", "terminations")},
        }


def _camera(file: Path, place: str) -> Images:
    """The images of a column that is not JPEG."""
    with h5py.File(file, "r") as root:
        column: Any = root[place]
        _check_images(column)
        at_once = rows_at_once(column)
        count, *shape = column.shape
    read = partial(read_rows, file, place, at_once=at_once)
    return Images(count=count, shape=tuple(shape), read=read)


def _jpegs(file: Path, place: str, shape: tuple[int, ...]) -> Images:
    """The images of a shape in a column of JPEG files."""
    with h5py.File(file, "r") as root:
        column: Any = root[place]
        count, at_once = len(column), min(per_block(shape), rows_at_once(column))

    def decoded(rows: Sequence[int]) -> Iterator[NDArray]:
        for block in read_rows(file, place, rows, at_once):
            yield from (decode(BytesIO(bytes(image))) for image in block)

    return decoded_images(count, decoded, shape)


def _loaded(images: NDArray) -> Images:
    """Images in memory."""
    _check_images(images)
    return Images(count=len(images), shape=images.shape[1:], read=lambda rows: iter([images[rows]]))


def _check_images(column: Any) -> None:
    if column.ndim != 4 or column.dtype != np.uint8:
        raise InputError(
            "images must be uint8 (time, height, width, 3), got "
            f"{column.dtype} {column.shape}; write the dataset again"
        )


def _is_jpeg(storage: MinariStorage, key: str) -> bool:
    """Whether Minari stores an image as JPEG; it does not if the image is small."""
    return storage.jpeg_encoding and is_image_space(_at(storage.observation_space, key))


def _image_keys(space: spaces.Space, prefix: str = "") -> Iterator[str]:
    """The paths ("camera/top") of the colour images in a space; "" is the space itself."""
    if isinstance(space, spaces.Dict):
        for name, part in space.spaces.items():
            yield from _image_keys(part, f"{prefix}/{name}".lstrip("/"))
    elif isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 3:
        first, *middle, last = space.shape
        orders = ((last, first, *middle), (first, *middle, last))
        if any(c % 3 == 0 and c < _SMALLEST <= min(size) for c, *size in orders):
            yield prefix


def _at(tree: Any, key: str) -> Any:
    """The value at a path in nested dictionaries, or in a space of them."""
    for name in filter(None, key.split("/")):
        tree = tree[name]
    return tree
