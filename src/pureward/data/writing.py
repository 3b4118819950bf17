# SPDX-License-Identifier: Apache-2.0
"""Writes episodes as a Minari dataset: lossless, compressed, atomic."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import h5py
import minari
import numpy as np
from gymnasium import spaces
from minari.dataset.minari_storage import MinariStorage
from torch import Tensor

from pureward.data.episodes import Episode
from pureward.data.guard import LARGEST_JSON, check_disk
from pureward.data.hdf5 import FILE
from pureward.data.lazy import LazyFrames, per_block
from pureward.data.prefetch import handed_over, prefetched
from pureward.data.readers.minari import OURS, UNRATED
from pureward.errors import InputError
from pureward.files import PARTIAL, whole_folder

#: What `compact` rounds to: 0.03 mm, 0.002°, and a five-hundredth of a pixel of our cameras.
#: With a power of two the last bits of each mantissa are zero, which compresses well.
GRID = 2.0**-15
_NOT_A_NAME = re.compile(r"[^-_\w]")


def write_episodes(
    folder: Path,
    episodes: Iterable[Episode],
    *,
    task: str | None,
    name: str = "episodes",
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Write episodes to FOLDER/data, atomically; frames on disk are read a block at a time.

    Args:
        folder: of the dataset; FOLDER/data must not exist.
        episodes: at least one with states or frames, all with the same columns of the same sizes.
        task: its name, or None if it is not one of ours.
        name: the dataset's id in Minari is pureward/TASK/NAME-v0.
        facts: `fps`, `lossy`, `states_ends`, `images` and `failure_mark` of the `Dataset` that
            reads them, if not default.
    """
    if (folder / "data").exists():
        raise InputError(f"{folder / 'data'} exists already; choose another folder or delete it")
    remaining = iter(episodes)
    first = next(remaining, None)
    if first is None or not _observations(first):
        raise InputError(f"{folder}: a dataset needs at least one episode with states or frames")
    shown = folder.with_name(folder.name.removeprefix(PARTIAL))
    _check_size(shown, first)
    with whole_folder(folder / "data") as partial:
        storage = MinariStorage.new(
            partial.resolve(),  # Minari cannot get the size of a relative path
            observation_space=spaces.Dict({k: _space(v) for k, v in _observations(first).items()}),
            action_space=spaces.Box(-1.0, 1.0, _actions(first).shape[1:]),
            jpeg_encoding=False,
        )
        count = steps = 0
        with h5py.File(partial / FILE, "w", libver="v110") as file:
            for count, episode in enumerate(chain([first], remaining), start=1):
                where = f"{shown}, episode {count - 1}"
                _check_alike(where, episode, first)
                columns = (*_observations(episode).values(), episode.actions, episode.rewards)
                # HDF5 crashes on a full disk.
                check_disk(folder, sum(c.nbytes for c in columns if c is not None), where)
                _write(file.create_group(f"episode_{count - 1}"), count - 1, episode)
                steps += len(episode)
        storage.update_metadata(
            {
                "dataset_id": f"pureward/{task or 'own'}/{_NOT_A_NAME.sub('-', name)}-v0",
                "minari_version": minari.__version__,
                "total_episodes": count,
                "total_steps": steps,
                OURS: {"task": task, **(facts or {})},
            }
        )
        storage.update_metadata({"dataset_size": storage.get_size()})


def compact(episode: Episode) -> Episode:
    """Return the episode without `state`, its actions and simulator fields rounded to `GRID`.

    Rounded values are float32; rewards are not changed.
    """
    return replace(
        episode,
        state=None,
        actions=None if episode.actions is None else _on_grid(episode.actions),
        simulator={name: _on_grid(value) for name, value in episode.simulator.items()},
    )


def _on_grid(values: Tensor) -> Tensor:
    return (values.double() / GRID).round().mul(GRID).float()


def _write(group: h5py.Group, number: int, episode: Episode) -> None:
    """Write an episode as Minari does, in chunks that are compressed without loss."""
    last = np.arange(1, len(episode) + 1) == len(episode)
    columns = {f"observations/{name}": value for name, value in _observations(episode).items()} | {
        "actions": _actions(episode),
        "rewards": episode.rewards,
        "terminations": last & episode.terminated,
        "truncations": last & (not episode.terminated),
    }
    if episode.success is not None:
        columns["infos/success"] = episode.success
    group.create_group("infos")
    for name, values in columns.items():
        _write_column(group, name, values.cpu().numpy() if isinstance(values, Tensor) else values)
    group.attrs.update({"id": number, "total_steps": len(episode)})
    group.attrs.update({"split": episode.split, "policy": episode.policy})
    if not episode.rated:
        group.attrs["rated"] = UNRATED


def _write_column(group: h5py.Group, name: str, values: np.ndarray | LazyFrames) -> None:
    shape = tuple(values.shape)
    rows = min(len(values), per_block(shape[1:], values.dtype.itemsize))
    packed = {"chunks": (rows, *shape[1:]), "compression": "gzip", "shuffle": True}
    if not isinstance(values, LazyFrames):
        group.create_dataset(name, data=values, **(packed if values.size else {}))
        return
    column = group.create_dataset(name, shape, np.uint8, **packed)
    start = 0
    for clip in prefetched(handed_over([clip]).numpy() for clip in values.clips(rows)):
        column[start : start + len(clip)] = clip
        start += len(clip)


def _check_size(folder: Path, episode: Episode) -> None:
    """Refuse frames whose bounds, which Minari lists value by value, are too long to read."""
    if episode.frames is None:
        return
    channels, height, width = episode.frames.shape[1:]
    if len("0, 255, ") * channels * height * width > LARGEST_JSON:
        raise InputError(
            f"{folder}: frames of {height}×{width} with {channels} channels are too large for a "
            "Minari dataset; make them smaller, such as size=(480, 640)"
        )


def _check_alike(where: str, episode: Episode, first: Episode) -> None:
    """Refuse an episode that does not fit the dataset's spaces, which are the first episode's."""
    wanted, got = _sizes(first), _sizes(episode)
    if got != wanted:
        others = {name for name in wanted | got if wanted.get(name) != got.get(name)}
        only_size = others == {"frames"} and wanted.keys() == got.keys()
        raise InputError(
            f"{where}: must hold the same as episode 0, {wanted}, got {got}; "
            + ("give one size, --size 64 64" if only_size else "write it to another dataset")
        )


def _sizes(episode: Episode) -> dict[str, tuple[int, ...]]:
    """Shapes of observations and actions at one step, by name."""
    actions = {} if episode.actions is None else {"actions": episode.actions}
    columns = {**_observations(episode), **actions}
    return {name: tuple(value.shape[1:]) for name, value in columns.items()}


def _observations(episode: Episode) -> dict[str, Tensor | LazyFrames]:
    seen = {"state": episode.state, "frames": episode.frames, **episode.simulator}
    return {name: value for name, value in seen.items() if value is not None}


def _space(values: Tensor | LazyFrames) -> spaces.Box:
    dtype = np.dtype(str(values.dtype).removeprefix("torch."))
    low, high = (0, 255) if dtype == np.uint8 else (-np.inf, np.inf)
    return spaces.Box(low, high, values.shape[1:], dtype)  # pyright: ignore[reportArgumentType]


def _actions(episode: Episode) -> np.ndarray:
    """The actions; without any, Minari stores vectors of no numbers."""
    if episode.actions is None:
        return np.zeros((len(episode), 0), np.float32)
    return episode.actions.cpu().numpy()
