# SPDX-License-Identifier: Apache-2.0
"""What a person brings: demonstrations or annotated episodes, read, checked and drawn."""

from dataclasses import dataclass
from pathlib import Path

import torch

from pureward.data.dataset import find_reader, read_dataset
from pureward.data.draw import draw
from pureward.data.episodes import FAILURE, HELD_OUT, TRAIN, Episode
from pureward.data.frames import FrameBank
from pureward.envs import BatchEnv
from pureward.errors import InputError
from pureward.rewards.methods import METHODS
from pureward.runs.config import RunConfig


@dataclass(frozen=True, kw_only=True)
class Supervision:
    """Frames of the episodes a run learns from and is probed with, on its device."""

    train: FrameBank
    held_out: FrameBank | None
    """Of the same kind, never trained on."""
    failures: FrameBank | None
    """Episodes that never succeed, never trained on."""

    def sources(self) -> dict[str, FrameBank]:
        """The fixed sources of a probe, by name."""
        named = {"train": self.train, "held_out": self.held_out, "failure": self.failures}
        return {name: bank for name, bank in named.items() if bank is not None}


def check_supervision(config: RunConfig) -> None:
    """Refuse data that is not there, before worlds and a replay are made for it."""
    if METHODS[config.method].positives:
        find_reader(positives_path(config))
    if not config.failures:
        return
    find_reader(Path(config.failures))
    if Path(config.failures).resolve() == positives_path(config).resolve():
        raise InputError(
            "known failures must come from a dataset of their own, got that of the positives, "
            f"{config.failures}, whose failures are kept from training to judge the discriminator "
            "by; collect others with another --seed"
        )


def load_supervision(config: RunConfig, env: BatchEnv) -> Supervision:
    """Read the dataset that the run's method learns from."""
    path = positives_path(config)
    episodes = _read(path, config, env)
    banks = {
        name: _bank([e for e in episodes if e.split == name], config, env)
        for name in (TRAIN, HELD_OUT, FAILURE)
    }
    train = banks[TRAIN]
    if train is None:
        raise InputError(f"{path} has no episodes to train on; collect some with `--episodes`")
    if banks[HELD_OUT] is None:
        print(
            f"warning: no episode of {path} is held out (it has {len(episodes)}), so nothing shows "
            "how the reward rates episodes that it did not train on; collect more"
        )
    return Supervision(train=train, held_out=banks[HELD_OUT], failures=banks[FAILURE])


def load_failures(config: RunConfig, env: BatchEnv) -> FrameBank | None:
    """Read the episodes of known failures to train on, where the run has some."""
    if not config.failures:
        return None
    episodes = _read(Path(config.failures), config, env)
    # Episodes tagged as failures where there are such; a dataset of nothing else needs no tags.
    tagged = [episode for episode in episodes if episode.split == FAILURE]
    return _bank(tagged or episodes, config, env)


def positives_path(config: RunConfig) -> Path:
    """The folder of a learned method's positives."""
    annotated = METHODS[config.method].needs_annotations
    return Path(config.annotations if annotated else config.demonstrations)


def _read(path: Path, config: RunConfig, env: BatchEnv) -> list[Episode]:
    """The episodes of a dataset, with frames."""
    dataset = read_dataset(path, frame_shape=env.frame_shape, images=config.images or None)
    if dataset.task not in (None, config.task):
        raise InputError(
            f"data must be of the run's own task, {config.task!r}, and {path} is of "
            f"{dataset.task!r}; collect a dataset on this task"
        )
    if dataset.lossy:
        print(
            f"warning: frames of {path} are JPEG, and a discriminator can tell them from the "
            "agent's by that alone; store them lossless"
        )
    episodes = draw(dataset.episodes, config.task, str(env.device))
    if _all_equal(episodes):
        print(
            f"warning: all frames of {path} are equal, and a reward cannot learn from identical "
            "frames; check how they were recorded"
        )
    return episodes


def _all_equal(episodes: list[Episode]) -> bool:
    """Whether every frame is the same; stops at the first episode with another."""
    frames = [episode.frames for episode in episodes if episode.frames is not None]
    return all(bool((seen == frames[0][:1]).all()) for seen in frames)


def _bank(episodes: list[Episode], config: RunConfig, env: BatchEnv) -> FrameBank | None:
    if not episodes:
        return None
    return FrameBank(episodes, stack=config.replay.frame_stack, device=env.device)


def subset(bank: FrameBank, most: int) -> torch.Tensor:
    """Rows of a bank, all or so many drawn without replacement, always the same ones."""
    order = torch.randperm(len(bank), generator=torch.Generator().manual_seed(0))
    return order[:most].sort().values
