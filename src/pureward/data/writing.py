# SPDX-License-Identifier: Apache-2.0
"""Writes episodes as a Minari dataset: lossless, compressed, atomic."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import minari
import numpy as np
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer
from minari.dataset.minari_storage import MinariStorage
from torch import Tensor

from pureward.data.dataset import in_memory
from pureward.data.episodes import Episode
from pureward.data.hdf5 import FILE
from pureward.data.pack import pack
from pureward.data.readers.minari import OURS, UNRATED
from pureward.errors import InputError
from pureward.files import whole_folder

_NOT_A_NAME = re.compile(r"[^-_\w]")


def write_episodes(
    folder: Path, episodes: Iterable[Episode], *, task: str | None, name: str = "episodes"
) -> None:
    """Write episodes to FOLDER/data, atomically; frames on disk are read one episode at a time.

    Args:
        folder: of the dataset; FOLDER/data must not exist.
        episodes: at least one with states or frames, all with the same columns of the same sizes.
        task: its name, or None if it is not one of ours.
        name: the dataset's id in Minari is pureward/TASK/NAME-v0.
    """
    if (folder / "data").exists():
        raise InputError(f"{folder / 'data'} exists already; choose another folder or delete it")
    remaining = map(in_memory, episodes)
    first = next(remaining, None)
    if first is None or not _observations(first):
        raise InputError(f"{folder}: a dataset needs at least one episode with states or frames")
    tags: list[dict[str, str]] = []

    def buffers() -> Iterator[EpisodeBuffer]:
        for number, episode in enumerate(chain([first], remaining)):
            _check_alike(f"{folder}, episode {number}", episode, first)
            rated = {} if episode.rated else {"rated": UNRATED}
            tags.append({"split": episode.split, "policy": episode.policy} | rated)
            yield _buffer(episode)

    with whole_folder(folder / "data") as partial:
        storage = MinariStorage.new(
            partial.resolve(),  # Minari cannot get the size of a relative path
            observation_space=spaces.Dict({k: _space(v) for k, v in _observations(first).items()}),
            action_space=spaces.Box(-1.0, 1.0, _actions(first).shape[1:]),
            jpeg_encoding=False,
        )
        storage.update_metadata(
            {
                "dataset_id": f"pureward/{task or 'own'}/{_NOT_A_NAME.sub('-', name)}-v0",
                "minari_version": minari.__version__,
                OURS: {"task": task},
            }
        )
        storage.update_episodes(buffers())
        storage.update_episode_metadata(tags)
        pack(partial / FILE)
        storage.update_metadata({"dataset_size": storage.get_size()})


def _check_alike(where: str, episode: Episode, first: Episode) -> None:
    """Refuse an episode that does not fit the dataset's spaces, which are the first episode's."""
    wanted, got = _sizes(first), _sizes(episode)
    if got != wanted:
        raise InputError(
            f"{where}: must hold the same as episode 0, {wanted}, got {got}; write it to another "
            "dataset"
        )


def _sizes(episode: Episode) -> dict[str, tuple[int, ...]]:
    """Shapes of observations and actions at one step, by name."""
    actions = {} if episode.actions is None else {"actions": episode.actions}
    return {name: tuple(v.shape[1:]) for name, v in (_observations(episode) | actions).items()}


def _observations(episode: Episode) -> dict[str, Tensor]:
    frames = None if episode.frames is None else episode.frames[:]
    seen = {"state": episode.state, "frames": frames, **episode.simulator}
    return {name: value for name, value in seen.items() if value is not None}


def _space(value: Tensor) -> spaces.Box:
    array = value.cpu().numpy()
    low, high = (0, 255) if array.dtype == np.uint8 else (-np.inf, np.inf)
    return spaces.Box(low, high, array.shape[1:], array.dtype)  # pyright: ignore[reportArgumentType]


def _actions(episode: Episode) -> np.ndarray:
    """The actions; without any, Minari stores vectors of no numbers."""
    if episode.actions is None:
        return np.zeros((len(episode), 0), np.float32)
    return episode.actions.cpu().numpy()


def _buffer(episode: Episode) -> EpisodeBuffer:
    last = np.arange(1, len(episode) + 1) == len(episode)
    infos = {} if episode.success is None else {"success": episode.success.cpu().numpy()}
    # Minari's type hints ask for lists; it stores arrays unchanged.
    columns: dict[str, Any] = {
        "observations": {name: v.cpu().numpy() for name, v in _observations(episode).items()},
        "actions": _actions(episode),
        "rewards": episode.rewards.cpu().numpy(),
        "terminations": last & episode.terminated,
        "truncations": last & (not episode.terminated),
    }
    return EpisodeBuffer(**columns, infos=infos)
