# SPDX-License-Identifier: Apache-2.0
"""Reads Minari datasets: those of `pureward collect`, and others with image observations."""

import json
import math
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from gymnasium import spaces
from minari.dataset.minari_storage import MinariStorage

from pureward.data.arrays import to_tensor
from pureward.data.dataset import Dataset, Options
from pureward.data.episodes import Episode
from pureward.data.guard import check_file, guarded, guarding, read_json
from pureward.data.hdf5 import (
    FILE,
    check_count,
    check_episode,
    check_heaps,
    read_rows,
    read_splits,
    rows_at_once,
)
from pureward.data.images import (
    check_jpegs,
    decode_jpeg_only,
    image_keys,
    stacked_frames,
    stored_as_jpeg,
)
from pureward.data.lazy import Images, LazyEpisodes, LazyFrames
from pureward.data.readers.recognise import minari_folder
from pureward.errors import InputError
from pureward.pixels import to_frames
from pureward.types import DRAWN_FROM

OURS = "pureward"  # key of the metadata that `pureward collect` writes
UNRATED = "no"  # tag `rated` of an episode whose rewards are unknown


def read(path: Path, options: Options) -> Dataset:
    """Open a dataset: its folder, the `data` folder in it, or its id in the local cache."""
    folder = minari_folder(path)
    assert folder is not None, "`can_read` was true"
    root = path if path.exists() else folder.parent
    metadata = _metadata(folder, root)
    _check_files(folder, root, metadata)
    storage = guarded(folder, lambda: MinariStorage.read(folder))
    decode_jpeg_only(storage)
    space, own = storage.observation_space, metadata.get(OURS)
    columns = space.spaces if isinstance(space, spaces.Dict) else {}
    # Elsewhere "state", "success" and "split" may have another meaning.
    ours = isinstance(own, dict) and not {"state", "qpos", "frames"}.isdisjoint(columns)
    keys = guarded(folder, lambda: image_keys(space, options.images))
    if not keys and not (ours and "qpos" in columns):  # frames can be drawn from qpos
        raise InputError(
            f"{folder}: observations must hold uint8 colour images, got {space}; "
            "record the dataset with an environment that observes pixels"
        )
    splits = options.splits(metadata["total_episodes"])
    if ours:
        tagged = guarded(folder, lambda: _tagged(storage, len(splits)))
        splits = [own or other for own, other in zip(tagged, splits, strict=True)]
    where = folder / FILE if storage.FORMAT == "hdf5" else folder

    def episode(index: int) -> Episode:
        with guarding(f"{where}, episode {index}"):
            return _episode(storage, index, keys, splits[index], options, ours)

    facts = own if isinstance(own, dict) else {}
    rate = facts.get("fps")
    return Dataset(
        path=path,
        task=facts.get("task"),
        lossy=(storage.jpeg_encoding and stored_as_jpeg(space, keys)) or bool(facts.get("lossy")),
        states_ends=bool(facts.get("states_ends", True)),
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
    """Refuse files elsewhere, and another number of episodes than announced."""
    if metadata.get("data_format") == "hdf5":
        file = folder / FILE
        guarded(file, lambda: check_file(file, root))
        guarded(file, lambda: check_heaps(file))
        guarded(file, lambda: check_count(file, metadata["total_episodes"]))
        return  # the rest is checked with each episode
    for file in folder.rglob("*"):  # Arrow has a folder for each episode
        if file.is_symlink() or not file.is_dir():
            guarded(file, lambda file=file: check_file(file, root))


def _tagged(storage: MinariStorage, count: int) -> list[str | None]:
    """The splits that are stored with the episodes."""
    if storage.FORMAT == "hdf5":
        return read_splits(storage.data_path / FILE, count)
    return [tags.get("split") for tags in storage.get_episode_metadata(range(count))]


def _episode(
    storage: MinariStorage,
    index: int,
    keys: tuple[str, ...],
    split: str,
    options: Options,
    ours: bool,
) -> Episode:
    space, hdf5 = storage.observation_space, storage.FORMAT == "hdf5"
    file = storage.data_path / FILE
    if hdf5 and not (storage.jpeg_encoding and stored_as_jpeg(space, keys)):
        columns = [f"observations/{key}".rstrip("/") for key in keys]
        check_episode(file, index, columns)
        raw = _numbers(file, index)
        cameras = [_camera(file, f"episode_{index}/{column}") for column in columns]
        where = f"{file}, episode {index}"
        frames = LazyFrames(cameras, where=where, size=options.size) if keys else None
    else:  # Minari decodes all images of an episode at once
        if hdf5:
            check_episode(file, index)
        check_jpegs(storage, index)
        raw = next(iter(storage.get_episodes([index])))
        images = stacked_frames(raw["observations"], keys) if keys else None
        frames = None if images is None else to_frames(images, "cpu", options.size)
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
        if column.ndim != 4 or column.dtype != np.uint8:
            raise InputError(
                "images must be uint8 (time, height, width, 3), got "
                f"{column.dtype} {column.shape}; write the dataset again"
            )
        at_once = rows_at_once(column)
        count, *shape = column.shape
    return Images(
        count=count,
        shape=tuple(shape),
        read=lambda rows: read_rows(file, place, rows, at_once),
    )
