"""Writing datasets: only what can be read back, and without overwriting."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pureward.data.dataset import read_dataset, read_episodes
from pureward.data.episodes import Episode
from pureward.data.writing import write_episodes
from pureward.errors import InputError

ONE = Episode(
    rewards=torch.tensor([0.0, 1.0]),
    actions=torch.zeros(2, 1),
    simulator={"qpos": torch.ones(3, 2)},
)
SEEN = replace(ONE, frames=torch.zeros(3, 3, 64, 64, dtype=torch.uint8))


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        (ONE, SEEN, r"'actions': \(1,\)}, got .*'frames': \(3, 64, 64\)"),
        (SEEN, ONE, r"'frames': \(3, 64, 64\), .* got {'qpos': \(2,\), 'actions': \(1,\)}"),
        (SEEN, replace(SEEN, frames=SEEN.frames[:, :, :32]), "give one size, --size 64 64"),
        (ONE, replace(ONE, actions=None), r"got {'qpos': \(2,\)}; write it to"),
        (ONE, replace(ONE, actions=torch.zeros(2, 3)), r"got .*'actions': \(3,\)}; write it to"),
    ],
)
def test_episodes_of_a_dataset_must_have_equal_shapes(tmp_path, first, second, sentence):
    with pytest.raises(InputError, match=f"new, episode 1: must hold .*{sentence}"):
        write_episodes(tmp_path / "new", [first, second], task="reach")
    assert list((tmp_path / "new").iterdir()) == []


def test_a_dataset_is_not_overwritten(tmp_path):
    write_episodes(tmp_path, [ONE], task="reach")
    with pytest.raises(InputError, match="data exists already; choose another folder"):
        write_episodes(tmp_path, [SEEN, SEEN], task="reach")
    assert len(read_dataset(tmp_path).episodes) == 1


@pytest.mark.parametrize("split", ["train", "held-out", "failure"])
def test_episodes_of_frames_alone_keep_their_split(tmp_path, split):
    frames = replace(SEEN, simulator={}, split=split, policy="mine", rated=False)
    write_episodes(tmp_path, [frames], task="line", name="seen")
    (read,) = read_dataset(tmp_path).episodes
    assert (read.split, read.policy, read.rated) == (split, "mine", False)
    assert torch.equal(read.frames, SEEN.frames)


def test_episodes_of_other_formats_are_written_without_loss(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (2, 5, 40, 30, 3), dtype=np.uint8)
    np.savez(tmp_path / "x.npz", frames=images, success=np.eye(2, 4, dtype=bool))
    source = read_episodes(tmp_path / "x.npz", size=None)
    write_episodes(tmp_path / "copy", source, task=None)
    for read, given in zip(read_dataset(tmp_path / "copy").episodes, source, strict=True):
        assert torch.equal(read.frames, given.frames[:])
        assert torch.equal(read.success, given.success)
        assert (read.actions, read.rated, read.split) == (None, False, given.split)


@pytest.mark.parametrize("episodes", [[], [replace(ONE, simulator={})]])
def test_a_dataset_needs_an_episode_with_something_to_see(tmp_path, episodes):
    with pytest.raises(InputError, match="at least one episode with states or frames"):
        write_episodes(tmp_path / "new", episodes, task="reach")
    assert not (tmp_path / "new").exists()
