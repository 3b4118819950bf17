"""Readers of other packages can do all that those of pureward can."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import pureward
from pureward.data.dataset import Dataset, Options, Reader, find_reader, known_failures
from pureward.data.episodes import Episode
from pureward.rewards.learned import RewardSpec
from pureward.rewards.network import seeded_network

ONE = Episode(frames=torch.zeros(3, 3, 32, 32, dtype=torch.uint8), rewards=torch.zeros(2))


def read(path: Path, options: Options) -> Dataset:
    splits = np.load(path)
    episodes = tuple(replace(ONE, split=str(split)) for split in splits)
    return Dataset(path=path, failure_mark="mark one in the app", episodes=episodes)


@pytest.fixture
def outside(monkeypatch):
    made = Reader(can_read=lambda path: path.suffix == ".mine", read=read, copy_suffix=".mine")
    monkeypatch.setitem(pureward.READERS, "mine", made)
    return made


def stored(path: Path, *splits: str) -> Path:
    with path.open("wb") as file:
        np.save(file, np.array(splits))
    return path


def test_the_reader_registered_last_is_asked_first(tmp_path, outside):
    np.save(tmp_path / "x.npy", np.zeros((3, 8, 8, 3), np.uint8))
    shutil.copy(tmp_path / "x.npy", tmp_path / "x.mine")
    assert find_reader(tmp_path / "x.mine") is outside
    assert find_reader(tmp_path / "x.npy") is pureward.READERS["arrays"]


def test_a_dataset_can_require_that_failures_are_marked(tmp_path, outside):
    marked = pureward.read_episodes(stored(tmp_path / "a.mine", "train", "failure"))
    assert [episode.split for episode in known_failures(marked)] == ["failure"]
    unmarked = pureward.read_episodes(stored(tmp_path / "b.mine", "train"))
    with pytest.raises(pureward.InputError, match=r"b.mine must hold .* none; mark one in the app"):
        known_failures(unmarked)
    assert len(known_failures(replace(unmarked, failure_mark=""))) == 1
    imported = pureward.import_episodes(tmp_path / "b.mine", tmp_path / "imported")
    with pytest.raises(pureward.InputError, match=r"imported must hold .* none; mark one in the"):
        known_failures(imported)


def test_scores_are_copied_by_the_reader_of_the_format(tmp_path, outside, monkeypatch):
    copied = {}

    def copy(source, out, rewards):
        copied[source.name, out.name] = [len(rewards(number)) for number in range(2)]

    monkeypatch.setitem(pureward.READERS, "mine", replace(outside, copy=copy))
    network = pureward.NetworkConfig(height=32, width=32, stage_channels=(4,), stage_blocks=0)
    spec = RewardSpec(reward="imitation", network=network, members=0)
    d = seeded_network(network, 0, torch.device("cpu"))
    reward = pureward.LearnedReward(spec, discriminator=d, members=[])
    pureward.save_reward(reward, tmp_path / "reward")
    data = stored(tmp_path / "a.mine", "train", "failure")
    made = pureward.score(tmp_path / "reward", data, tmp_path / "out", copy=True, device="cpu")
    assert copied == {("a.mine", "relabelled.mine"): [2, 2]}
    assert made.files[-1] == tmp_path / "out/relabelled.mine"
