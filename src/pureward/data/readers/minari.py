# SPDX-License-Identifier: Apache-2.0
"""Reads Minari datasets: those of `pureward collect`, and others with image observations."""

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

OURS = "pureward"  # key of the metadata that `pureward collect` writes


def read(path: Path, *, images: tuple[str, ...] | None, held_out: float) -> Dataset:
    """Read a dataset.

    Args:
        path: the dataset's folder, or the `data` folder in it.
        images: image observations to stack as channels, if there are several.
        held_out: share of the episodes to hold out if the dataset has no splits.
    """
    folder = _folder(path)
    assert folder is not None, "`matches` was true"
    metadata = _metadata(folder, path)
    _check_files(folder, path, metadata)
    storage = guarded(folder, lambda: MinariStorage.read(folder))
    decode_jpeg_only(storage)
    space, own = storage.observation_space, metadata.get(OURS)
    columns = space.spaces if isinstance(space, spaces.Dict) else {}
    ours = isinstance(own, dict) and ("state" in columns or "qpos" in columns)
    keys = guarded(folder, lambda: image_keys(space, images))
    if not keys and not (ours and "qpos" in columns):  # frames can be drawn from qpos
        raise InputError(
            f"{folder}: observations must hold uint8 colour images, got {space}; "
            "record the dataset with an environment that observes pixels"
        )
    file = folder / FILE
    episodes = [
        guarded(
            f"{file if file.exists() else folder}, episode {index}",
            lambda index=index, split=split: _episode(storage, index, keys, split, ours=ours),
        )
        for index, split in enumerate(split_by_share(metadata["total_episodes"], held_out))
    ]
    return Dataset(
        path=path,
        task=own.get("task") if isinstance(own, dict) else None,
        lossy=storage.jpeg_encoding and stored_as_jpeg(space, keys),
        episodes=tuple(episodes),
    )


def _folder(path: Path) -> Path | None:
    """Return the folder with metadata.json, or None."""
    for folder in (path / "data", path):
        if (folder / "metadata.json").is_file():
            return folder
    return None


def _metadata(folder: Path, root: Path) -> dict[str, Any]:
    path = folder / "metadata.json"
    metadata = guarded(path, lambda: read_json(path, root))
    if not isinstance(metadata, dict):
        raise InputError(f"{path} must hold a JSON object; the dataset is damaged, fetch it again")
    # Without these Minari would make the environment that the dataset names: untrusted code.
    for name in ("observation_space", "action_space"):
        if not isinstance(metadata.get(name), str):
            raise InputError(f"{path} must name the dataset's {name}; write it again with Minari")
        guarded(path, lambda name=name: json.loads(metadata[name], object_hook=_check_space))
    count = metadata.get("total_episodes")
    if type(count) is not int or count < 1:  # True is an int in Python
        raise InputError(f"{folder} must hold at least one episode, got {count}; collect some")
    return metadata


def _check_space(space: dict[str, Any]) -> None:
    """Refuse a dtype that is not numeric: numpy allocates gigabytes for "S1000000000"."""
    if "dtype" in space and np.dtype(space["dtype"]).kind not in "biuf":
        raise InputError(f"a space's dtype must be of numbers, got {space['dtype']!r}; correct it")


def _check_files(folder: Path, root: Path, metadata: dict[str, Any]) -> None:
    """Refuse a dataset that refers to other files, or declares more than it stores."""
    if metadata.get("data_format") == "hdf5":
        file, counts = folder / FILE, (metadata["total_episodes"], metadata.get("total_steps"))
        guarded(file, lambda: check_file(file, root))
        guarded(file, lambda: check_hdf5(file, *counts))
        return
    for file in folder.rglob("*"):  # Arrow has a folder for each episode
        if file.is_symlink() or not file.is_dir():
            guarded(file, lambda file=file: check_file(file, root))


def _episode(
    storage: MinariStorage, index: int, keys: tuple[str, ...], split: str, *, ours: bool
) -> Episode:
    check_jpegs(storage, index)
    raw = next(iter(storage.get_episodes([index])))
    seen, space = raw["observations"], storage.observation_space
    frames = stacked_frames(seen, keys) if keys else None
    rewards = _tensor(raw["rewards"]).float()
    actions = _tensor(raw["actions"]) if isinstance(raw["actions"], np.ndarray) else None
    terminated = bool(np.asarray(raw["terminations"])[-1])
    if not ours:  # "state", "success" and "split" may have another meaning there
        return Episode(
            rewards=rewards, actions=actions, frames=frames, split=split, terminated=terminated
        )
    tags = next(iter(storage.get_episode_metadata([index])))
    success = (raw["infos"] or {}).get("success")
    has_state = isinstance(space, spaces.Dict) and "state" in space.spaces  # else it is compact
    return Episode(
        rewards=rewards,
        actions=actions,
        success=None if success is None else _tensor(success).bool(),
        state=_tensor(seen["state"]) if has_state else None,
        simulator={name: _tensor(seen[name]) for name in DRAWN_FROM if name in seen},
        frames=frames,
        split=str(tags.get("split", split)),
        terminated=terminated,
        policy=str(tags.get("policy", "")),
    )


def _tensor(values: Any) -> Tensor:
    array = np.array(values)  # a copy: Arrow's arrays are read-only
    if array.dtype.kind not in "biuf":
        raise InputError(f"values must be real numbers, got {array.dtype}; convert or drop them")
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))


READERS.register("minari")(Reader(matches=lambda path: _folder(path) is not None, read=read))
