# SPDX-License-Identifier: Apache-2.0
"""Reads and checks the demonstrations or annotated episodes of a run, and draws their frames."""

from dataclasses import replace
from pathlib import Path

from pureward.data.dataset import (
    Dataset,
    find_reader,
    in_another_order,
    is_same,
    read_dataset,
    with_ends,
)
from pureward.data.draw import draw
from pureward.data.episodes import TRAIN, check_rated
from pureward.data.frames import FrameBank
from pureward.envs import BatchEnv
from pureward.envs.batch import frame_keys
from pureward.errors import InputError, warn
from pureward.online.supervision import Supervision, warn_of_data
from pureward.rewards.methods import METHODS
from pureward.runs.config import RunConfig


def check_supervision(config: RunConfig) -> None:
    """Raise InputError if data is missing, before environments and a replay are built."""
    if METHODS[config.method].positives:
        find_reader(positives_path(config))
    if not config.failures:
        return
    find_reader(Path(config.failures))
    if is_same(positives_path(config), Path(config.failures)):
        raise InputError(
            "known failures must come from a dataset of their own, got that of the positives, "
            f"{config.failures}, whose failures are for probes only; collect others with another "
            "--seed"
        )


def load_supervision(config: RunConfig, env: BatchEnv) -> Supervision:
    """Return the frames of the dataset that the run's method learns from."""
    path = positives_path(config)
    episodes = _read(path, config, env)
    if METHODS[config.method].needs_annotations:
        check_rated(episodes, path)
    if not any(episode.split == TRAIN for episode in episodes):
        raise InputError(f"{path} has no episodes to train on; collect some with `--episodes`")
    if env.terminates and METHODS[config.method].reward == "imitation" and config.reward.absorbing:
        episodes = _with_ends(episodes, path, env.horizon)
    stack = config.replay.frame_stack
    data = Supervision.of(episodes, stack=stack, device=env.device, images=episodes.images)
    if data.held_out is None:
        warn(
            f"no episode of {path} is held out (it has {len(episodes)}), so the probes "
            "cannot show how the reward generalises; collect more"
        )
    annotated = METHODS[config.method].needs_annotations
    warn_of_data(str(path), episodes, data.train.rewards if annotated else None)
    return data


def _with_ends(dataset: Dataset, path: Path, horizon: int) -> Dataset:
    found = with_ends(dataset, horizon)
    ended = sum(episode.terminated for episode in found)
    if ended and not dataset.states_ends:
        print(
            f"note: {path} does not state how its episodes end: {ended} of {len(found)} are "
            f"shorter than the time limit of {horizon:,} steps and count as terminated; if they "
            "are not, pass --reward.no-absorbing"
        )
    return found


def load_failures(config: RunConfig, env: BatchEnv, data: Supervision) -> FrameBank | None:
    """Return the frames of known failures to train on beside the positives, or None."""
    if not config.failures:
        return None
    return data.known_failures(_read(Path(config.failures), config, env))


def positives_path(config: RunConfig) -> Path:
    """Return the folder of the positives of a learned method."""
    annotated = METHODS[config.method].needs_annotations
    return Path(config.annotations if annotated else config.demonstrations)


def _read(path: Path, config: RunConfig, env: BatchEnv) -> Dataset:
    """The episodes of a dataset, with frames."""
    dataset = read_dataset(path, frame_shape=env.frame_shape, images=config.images or None)
    if dataset.task not in (None, config.task):
        raise InputError(
            f"data must be of the run's own task, {config.task!r}, and {path} is of "
            f"{dataset.task!r}; collect a dataset on this task"
        )
    keys, names = frame_keys(config.frames), dataset.images
    if in_another_order(names, keys) or (dataset.task and names and keys not in ((), names)):
        raise InputError(
            f"frames must be the images of the data, in its order, got --frames {','.join(keys)} "
            f"and {','.join(names)} in {path}; choose the same for both"
        )
    if dataset.lossy:
        warn(
            f"frames of {path} were compressed with loss, and a discriminator can tell "
            "them from the agent's by that alone; store them lossless"
        )
    episodes = draw(dataset.episodes, config.task, str(env.device))
    frames = [episode.frames[:] for episode in episodes if episode.frames is not None]
    if all(bool((seen == frames[0][:1]).all()) for seen in frames):
        warn(
            f"all frames of {path} are equal, and a reward cannot learn from identical "
            "frames; check how they were recorded"
        )
    return replace(dataset, episodes=episodes)
