# SPDX-License-Identifier: Apache-2.0
"""Reads sketches: the episodes of a dataset with the rewards that people drew for them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from pureward.data.dataset import find_reader
from pureward.data.episodes import FAILURE, Episode
from pureward.data.lazy import LazyEpisodes
from pureward.data.reader import Dataset, Options
from pureward.data.sketches import (
    SUFFIX,
    Sketch,
    annotators,
    load_sketch,
    sketched_dataset,
    sketched_episodes,
)
from pureward.errors import InputError


def read(path: Path, options: Options) -> Dataset:
    """Open DATASET.sketches, or the folder of one person in it; an episode has the mean sketch."""
    whole = path.name.endswith(SUFFIX)
    folder, base = path if whole else path.parent, sketched_dataset(path)
    assert base is not None, "find_reader looks at the name"
    if not base.exists():
        raise InputError(f"{folder} holds sketches of {base}, which does not exist; bring it back")
    found: dict[int, list[Sketch]] = {}
    for name in annotators(folder) if whole else [path.name]:
        for number in sketched_episodes(folder, name):
            sketch = load_sketch(folder, name, number)
            if sketch is not None and (sketch.drawn or sketch.outcome == "failure"):
                found.setdefault(number, []).append(sketch)
    if not found:
        raise InputError(
            f"{path} must hold a sketch of at least one episode, got none; draw some with "
            f"`pureward studio {base}`"
        )
    dataset = find_reader(base).read(base, options)
    numbers = sorted(found)
    if numbers[-1] >= len(dataset):
        raise InputError(
            f"{path} has a sketch of episode {numbers[-1]}, and {base} has {len(dataset)} "
            "episodes; delete it, or restore the data"
        )
    given = dataset.splits
    splits = [FAILURE if _failed(found[n]) else given[n] for n in numbers]

    def episode(index: int) -> Episode:
        number = numbers[index]
        where = f"{path}, episode {number}"
        return _rated(dataset[number], found[number], splits[index], where)

    return replace(
        dataset,
        path=path,
        failure_mark="mark one with the key f in `pureward studio`",
        episodes=LazyEpisodes(splits, episode),
    )


def _failed(sketches: list[Sketch]) -> bool:
    """Whether all who marked the episode call it a failure."""
    return {sketch.outcome for sketch in sketches if sketch.outcome} == {"failure"}


def _rated(episode: Episode, sketches: list[Sketch], split: str, where: str) -> Episode:
    for sketch in sketches:
        if len(sketch.rewards) != len(episode):
            raise InputError(
                f"{where}: the sketch has {len(sketch.rewards)} steps, and the episode "
                f"{len(episode)}; the data was changed, draw the sketch again"
            )
    drawn = [sketch.filled() for sketch in sketches if sketch.drawn]
    rewards = np.mean(drawn, axis=0) if drawn else np.zeros(len(episode))
    return replace(
        episode,
        rewards=torch.from_numpy(rewards).float(),
        success=_success(sketches, len(episode)),
        rated=True,
        split=split,
    )


def _success(sketches: list[Sketch], steps: int) -> torch.Tensor | None:
    """Steps that most of those who marked them call a success; None without any mark."""
    yes, no = np.zeros(steps), np.zeros(steps)
    for sketch in sketches:
        yes += [mark is True for mark in sketch.success]
        no += [mark is False for mark in sketch.success]
        if sketch.outcome == "success" and True not in sketch.success:
            yes[-1] += 1  # solved at the end
    marked = any(sketch.outcome or set(sketch.success) != {None} for sketch in sketches)
    if not marked:
        return None
    return torch.from_numpy(np.zeros(steps, bool) if _failed(sketches) else yes > no)
