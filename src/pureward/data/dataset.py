# SPDX-License-Identifier: Apache-2.0
"""Episodes on disk: Minari datasets, read with suspicion; `writing` writes them.

A dataset is a folder; Minari's files are in its `data` folder. What is read is JSON and HDF5
(or Arrow): nothing in it can execute code, and the environment it names is never made.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from minari.dataset.minari_storage import MinariStorage
from torch import Tensor

from pureward.data.episodes import Episode, check_split, split_by_share
from pureward.data.guard import check_file, guarded, read_json
from pureward.data.hdf5 import FILE, check_hdf5
from pureward.data.images import (
    check_jpegs,
    decode_jpeg_alone,
    image_keys,
    stacked_frames,
    stored_as_jpeg,
)
from pureward.errors import InputError
from pureward.types import DRAWN_FROM

OURS = "pureward"  # our corner of the metadata


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """The episodes of a folder."""

    path: Path
    task: str | None
    """The task they were collected on, None if the dataset is not ours."""
    lossy: bool
    """Whether frames were stored as JPEG: a discriminator can tell them by its artefacts."""
    episodes: tuple[Episode, ...]

    def split(self, name: str) -> list[Episode]:
        """The episodes of a split: "train", "held-out" or "failure"."""
        check_split(name)
        return [episode for episode in self.episodes if episode.split == name]


def read_dataset(
    path: Path | str,
    *,
    images: str | tuple[str, ...] | None = None,
    frame_shape: tuple[int, int, int] | None = None,
    held_out: float = 0.2,
) -> Dataset:
    """Read a dataset of ours, or any Minari dataset with image observations.

    Args:
        path: the dataset's folder, or the `data` folder in it.
        images: which image observations to stack as channels, where there are several; one name
            or more.
        frame_shape: channels, height and width that stored frames must have; all those of a
            dataset must be alike in any case.
        held_out: share of the episodes to hold out, where the dataset does not say itself.
    """
    folder = dataset_folder(path)
    _check_arguments(images, frame_shape)
    metadata = _metadata(folder, Path(path))
    count = _count(folder, metadata)
    _check_files(folder, Path(path), metadata)
    storage = guarded(folder, lambda: MinariStorage.read(folder))
    decode_jpeg_alone(storage)
    own = metadata.get(OURS)
    parts = _parts(storage.observation_space)
    ours = isinstance(own, dict) and ("state" in parts or "qpos" in parts)
    wanted = (images,) if isinstance(images, str) else images
    keys = guarded(folder, lambda: _image_keys(storage.observation_space, ours, wanted))
    default = split_by_share(count, held_out)
    episodes = []
    for index in range(count):
        where = _where(folder, index)

        def one(index: int = index) -> Episode:
            return _episode(storage, index, keys, ours=ours, split=default[index])

        episode = guarded(where, one)
        _check_shape(where, episode, frame_shape)
        _check_alike(where, episode, episodes)
        episodes.append(episode)
    return Dataset(
        path=Path(path),
        task=own.get("task") if isinstance(own, dict) else None,
        lossy=storage.jpeg_encoding and stored_as_jpeg(storage.observation_space, keys),
        episodes=tuple(episodes),
    )


def _check_arguments(images: Any, frame_shape: Any) -> None:
    if not (images is None or isinstance(images, str | tuple | list)):
        raise InputError(f"images must be a name or several, got {images!r}; try images='frames'")
    if frame_shape is not None and not (
        isinstance(frame_shape, tuple | list | torch.Size) and len(frame_shape) == 3
    ):
        raise InputError(
            f"frame_shape must be (channels, height, width), got {frame_shape!r}; try (3, 64, 64)"
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


def _check_shape(where: str, episode: Episode, wanted: tuple[int, int, int] | None) -> None:
    got = _frame_shape(episode)
    if wanted is not None and got is not None and got != tuple(wanted):
        raise InputError(
            f"{where}: frames must be {tuple(wanted)} (channels, height, width), got {got}; "
            "resize the dataset or make the environment's cameras match it"
        )


def _check_alike(where: str, episode: Episode, before: list[Episode]) -> None:
    """Refuse frames of another size than the first episode's: they could not go into one batch."""
    got, first = _frame_shape(episode), _frame_shape(before[0]) if before else None
    if first is not None and got != first:
        raise InputError(
            f"{where}: frames must be {first} (channels, height, width) as in episode 0, got "
            f"{got}; resize or drop that episode"
        )


def _frame_shape(episode: Episode) -> tuple[int, ...] | None:
    return None if episode.frames is None else tuple(episode.frames.shape[1:])


def dataset_folder(path: Path | str) -> Path:
    """The folder of a dataset's episodes, or a sentence that there are none."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"a dataset's path must be text or a Path, got {path!r}; name its folder")
    path = Path(path)
    for folder in (path / "data", path):
        if (folder / "metadata.json").is_file():
            return folder
    raise InputError(
        f"{path} is no dataset: neither it nor {path}/data holds a metadata.json; "
        "give the folder that `pureward collect` or Minari wrote"
    )


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
