# SPDX-License-Identifier: Apache-2.0
"""Reads Minari datasets: ours, and any with image observations."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from minari.dataset.minari_storage import MinariStorage
from torch import Tensor

from pureward.data.dataset import READERS, Dataset, Reader
from pureward.data.episodes import Episode, split_by_share
from pureward.data.guard import check_file, guarded, read_json
from pureward.data.hdf5 import FILE, check_hdf5
from pureward.data.images import (
    check_jpegs,
    decode_jpeg_only,
    image_keys,
    stacked_frames,
    stored_as_jpeg,
)
from pureward.errors import InputError
from pureward.types import DRAWN_FROM

OURS = "pureward"  # our corner of the metadata


def read(path: Path, *, images: tuple[str, ...] | None, held_out: float) -> Dataset:
    """Read a dataset of ours, or any Minari dataset with image observations.

    Args:
        path: the dataset's folder, or the `data` folder in it.
        images: which image observations to stack as channels, where there are several.
        held_out: share of the episodes to hold out, where the dataset does not say itself.
    """
    folder = _folder(path)
    assert folder is not None, "`matches` was true"
    metadata = _metadata(folder, path)
    count = _count(folder, metadata)
    _check_files(folder, path, metadata)
    storage = guarded(folder, lambda: MinariStorage.read(folder))
    decode_jpeg_only(storage)
    own = metadata.get(OURS)
    parts = _parts(storage.observation_space)
    ours = isinstance(own, dict) and ("state" in parts or "qpos" in parts)
    keys = guarded(folder, lambda: _image_keys(storage.observation_space, ours, images))
    splits = split_by_share(count, held_out)
    episodes = []
    for index in range(count):

        def one(index: int = index) -> Episode:
            return _episode(storage, index, keys, ours=ours, split=splits[index])

        episodes.append(guarded(_where(folder, index), one))
    return Dataset(
        path=path,
        task=own.get("task") if isinstance(own, dict) else None,
        lossy=storage.jpeg_encoding and stored_as_jpeg(storage.observation_space, keys),
        episodes=tuple(episodes),
    )


def _parts(space: spaces.Space) -> dict[str, spaces.Space]:
    return dict(space.spaces) if isinstance(space, spaces.Dict) else {}


def _image_keys(space: spaces.Space, ours: bool, images: tuple[str, ...] | None) -> tuple[str, ...]:
    """Where the images are; nowhere, if frames are to be drawn from states."""
    keys = image_keys(space, images)
    if not keys and not (ours and "qpos" in _parts(space)):
        raise InputError(
            f"observations must hold uint8 colour images, got {space}; "
            "record the dataset with an environment that observes pixels"
        )
    return keys


def _folder(path: Path) -> Path | None:
    """The folder of a dataset's episodes, or None where there are none."""
    for folder in (path / "data", path):
        if (folder / "metadata.json").is_file():
            return folder
    return None


def _metadata(folder: Path, root: Path) -> dict[str, Any]:
    path = folder / "metadata.json"
    metadata = guarded(path, lambda: read_json(path, root))
    if not isinstance(metadata, dict):
        raise InputError(f"{path} must hold a JSON object; the dataset is damaged, fetch it again")
    # Without these Minari would make the environment that the dataset names: foreign code.
    for name in ("observation_space", "action_space"):
        if not isinstance(metadata.get(name), str):
            raise InputError(f"{path} must name the dataset's {name}; write it anew with Minari")
        guarded(path, lambda name=name: json.loads(metadata[name], object_hook=_check_space))
    return metadata


def _check_space(space: dict[str, Any]) -> None:
    """Refuse a space of anything but numbers: a type "S1000000000" makes numpy take gigabytes."""
    if "dtype" in space and np.dtype(space["dtype"]).kind not in "biuf":
        raise InputError(f"a space's dtype must be of numbers, got {space['dtype']!r}; correct it")


def _count(folder: Path, metadata: dict[str, Any]) -> int:
    """How many episodes the dataset says it has."""
    count = metadata.get("total_episodes")
    if type(count) is not int or count < 1:  # true is an int to Python
        raise InputError(f"{folder} must hold at least one episode, got {count}; collect some")
    return count


def _check_files(folder: Path, root: Path, metadata: dict[str, Any]) -> None:
    """Refuse a dataset that reads other files, or declares more than it stores."""
    is_hdf5 = metadata.get("data_format") == "hdf5"
    # Arrow has a folder for each episode.
    for file in (folder / FILE,) if is_hdf5 else folder.rglob("*"):
        if is_hdf5 or file.is_symlink() or not file.is_dir():
            guarded(file, lambda file=file: check_file(file, root))
    if is_hdf5:
        announced = metadata["total_episodes"], metadata.get("total_steps")
        guarded(folder / FILE, lambda: check_hdf5(folder / FILE, *announced))


def _episode(
    storage: MinariStorage, index: int, keys: tuple[str, ...], *, ours: bool, split: str
) -> Episode:
    check_jpegs(storage, index)
    raw = next(iter(storage.get_episodes([index])))
    # Another's dataset may mean something else by these words.
    tags = next(iter(storage.get_episode_metadata([index]))) if ours else {}
    seen, infos = raw["observations"], raw["infos"] or {}
    stated = ours and "state" in _parts(storage.observation_space)  # compact ones are not
    success = infos.get("success") if ours else None
    return Episode(
        rewards=_tensor(raw["rewards"]).float(),
        actions=_tensor(raw["actions"]) if isinstance(raw["actions"], np.ndarray) else None,
        success=None if success is None else _tensor(success).bool(),
        state=_tensor(seen["state"]) if stated else None,
        simulator={k: _tensor(seen[k]) for k in DRAWN_FROM if k in seen} if ours else {},
        frames=stacked_frames(seen, keys) if keys else None,
        split=str(tags.get("split", split)),
        policy=str(tags.get("policy", "")),
    )


def _tensor(values: Any) -> Tensor:
    array = np.array(values)  # a copy: Arrow's may not be written to
    if array.dtype.kind not in "biuf":
        raise InputError(f"values must be real numbers, got {array.dtype}; convert or drop them")
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))


def _where(folder: Path, index: int) -> str:
    file = folder / FILE
    return f"{file if file.exists() else folder}, episode {index}"


READERS.register("minari")(Reader(matches=lambda path: _folder(path) is not None, read=read))
