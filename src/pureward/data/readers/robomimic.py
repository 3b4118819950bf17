# SPDX-License-Identifier: Apache-2.0
"""Reads robomimic's HDF5 files: data/demo_i with obs, actions, rewards, dones, and mask splits."""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from pureward.data.arrays import make_episode
from pureward.data.episodes import HELD_OUT, TRAIN, Episode
from pureward.data.guard import FETCH, check_file, check_fits, guarding
from pureward.data.hdf5 import check_group, check_heaps, own_member, read_rows, rows_at_once
from pureward.data.lazy import Images, LazyEpisodes, LazyFrames
from pureward.data.reader import Dataset, Options
from pureward.data.readers.recognise import in_order
from pureward.errors import InputError

_SPLITS = {"train": TRAIN, "valid": HELD_OUT}  # names in the group `mask`


def read(path: Path, options: Options) -> Dataset:
    """Open a file; each episode is checked when it is read."""
    with guarding(path):
        check_file(path, path)
        check_heaps(path)
        with h5py.File(path, "r") as root:
            demos = demos_in(root)
            splits = _splits(root, demos, options)
            rate = _rate(root)
            images: tuple[str, ...] = ()
            for demo in demos[:1]:
                with guarding(f"{path}, {demo}"):
                    first = _group(_group(root, "data"), demo)
                    images = _image_keys(_group(first, "obs"), options)

    def episode(index: int) -> Episode:
        where = f"{path}, {demos[index]}"
        with guarding(where):
            return _episode(path, demos[index], where, splits[index], options)

    episodes = LazyEpisodes(splits, episode)
    return Dataset(path=path, fps=rate, images=images, episodes=episodes)


def demos_in(root: h5py.File) -> list[str]:
    """Return the names of the episodes in order: demo_2 comes before demo_10."""
    return sorted(_group(root, "data"), key=lambda name: in_order(Path(name)))


def _rate(root: h5py.File) -> float | None:
    """The control frequency of robosuite's environments, which is that of the images."""
    try:
        rate = json.loads(root["data"].attrs["env_args"])["env_kwargs"]["control_freq"]  # type: ignore
    except (LookupError, TypeError, ValueError, RecursionError):
        return None
    return float(rate) if isinstance(rate, int | float) and 0 < rate < math.inf else None


def _group(parent: h5py.Group, name: str) -> h5py.Group:
    found = own_member(parent, name)
    if not isinstance(found, h5py.Group):
        raise InputError(
            f"HDF5 files are read in robomimic's layout, groups data/demo_0/obs, and {parent.name} "
            f"has no group {name!r}; save each episode of another layout as an .npz file of frames "
            "and rewards, or pass arrays in Python"
        )
    return found


def _column(parent: h5py.Group, name: str) -> h5py.Dataset | None:
    """A column, or None if it is missing; it has a row per step."""
    found = own_member(parent, name)
    if found is not None and not (isinstance(found, h5py.Dataset) and found.shape):
        raise InputError(f"{name} must be an array with a row per step; {FETCH}")
    return found


def _splits(root: h5py.File, demos: list[str], options: Options) -> list[str]:
    """Those of mask/train and mask/valid; by share if none is for validation."""
    found: dict[str, str] = {}
    if own_member(root, "mask") is not None:
        masks = _group(root, "mask")
        check_fits(check_group(masks, root.id.get_filesize()))
        for name, split in _SPLITS.items():
            column = _column(masks, name)
            if column is not None:
                found |= {_text(demo): split for demo in column[()].reshape(-1)}
    absent = sorted({name for name, split in found.items() if split == HELD_OUT} - set(demos))
    if absent:
        raise InputError(f"mask/valid must name demos of data, got {absent[0]}; correct it")
    if HELD_OUT not in found.values():
        return options.splits(len(demos))
    return [found.get(demo, TRAIN) for demo in demos]


def _text(name: Any) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)


def _episode(path: Path, demo: str, where: str, split: str, options: Options) -> Episode:
    with h5py.File(path, "r") as root:
        group = _group(_group(root, "data"), demo)
        check_group(group, path.stat().st_size)
        numbers = {}
        for name in ("actions", "rewards", "dones", "states"):
            column = _column(group, name)
            if column is not None:
                check_fits(column.nbytes)
                numbers[name] = column[()]
        keys = _image_keys(_group(group, "obs"), options)
        arrives = own_member(group, "next_obs") is not None
        cameras = [_camera(path, group, key, arrives) for key in keys]
    # Without next_obs the state that the last action led to is not stored.
    frames = LazyFrames(cameras, where=where, size=options.size, repeat_last=not arrives)
    dones, states = numbers.pop("dones", None), numbers.pop("states", None)
    if states is not None and len(states) == len(frames) - 1:
        numbers["state"] = np.concatenate([states, states[-1:]]).astype(np.float32)
    ended = dones is not None and bool(np.reshape(dones, -1)[-1:].any())
    return make_episode(frames, numbers, split=split, terminated=ended)


def _image_keys(seen: h5py.Group, options: Options) -> tuple[str, ...]:
    """Names of the images among the observations."""
    columns = {str(name): _column(seen, str(name)) for name in seen}
    found = [n for n, c in columns.items() if c is not None and c.ndim == 4 and c.dtype == np.uint8]
    if not found and options.images is None:
        raise InputError(
            f"observations must hold an image, got {list(columns)}; files without images need "
            "robomimic's dataset_states_to_obs.py"
        )
    return options.chosen(found)


def _camera(path: Path, demo: h5py.Group, key: str, arrives: bool) -> Images:
    """The images of an observation, and if the arrivals are stored the last of these."""
    place, seen = str(demo.name), _column(_group(demo, "obs"), key)
    assert seen is not None, "it is one of the image keys"
    count, shape = int(seen.shape[0]), tuple(seen.shape[1:])
    after = _column(_group(demo, "next_obs"), key) if arrives else None
    if arrives and (after is None or after.shape != seen.shape):
        raise InputError(f"next_obs/{key} must be like obs/{key}, {seen.shape}; {FETCH}")
    at_once = rows_at_once(seen)

    def read(rows: Sequence[int]) -> Iterator[NDArray]:
        before = [row for row in rows if row < count]
        yield from read_rows(path, f"{place}/obs/{key}", before, at_once)
        if rows[-1] == count:
            yield from read_rows(path, f"{place}/next_obs/{key}", [count - 1], at_once)

    return Images(count=count + arrives, shape=shape, read=read)
