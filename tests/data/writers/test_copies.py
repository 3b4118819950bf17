"""Copies with other rewards; `tests/scoring` makes them of scores."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

from pureward.data import guard
from pureward.data.dataset import read_episodes
from pureward.data.writers.lerobot import copy_lerobot
from pureward.data.writers.robomimic import copy_robomimic
from pureward.errors import InputError


def rewards(number):
    return np.array([1.0, 2.0])


def test_a_copy_that_does_not_fit_on_the_disk_is_refused_before_it_is_begun(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "demos.hdf5", "w") as file:
        file["data/demo_0/rewards"] = np.zeros(2)
    monkeypatch.setattr(guard.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1000))
    with pytest.raises(InputError, match=r"demos.hdf5: .*copy.hdf5 needs up to .* 1.00 kB free"):
        copy_robomimic(tmp_path / "demos.hdf5", tmp_path / "new/copy.hdf5", rewards)
    assert [path.name for path in tmp_path.iterdir()] == ["demos.hdf5"]
    monkeypatch.undo()
    copy_robomimic(tmp_path / "demos.hdf5", tmp_path / "new/copy.hdf5", rewards)
    with h5py.File(tmp_path / "new/copy.hdf5") as file:
        assert file["data/demo_0/rewards"][:].tolist() == [1.0, 2.0]


def test_a_lerobot_dataset_with_a_link_to_a_folder_is_not_copied_in_part(tmp_path):
    source = tmp_path / "films"
    shutil.copytree(Path(__file__).parents[1] / "lerobot/films", source)
    (source / "videos").rename(source / "moved")
    (source / "videos").symlink_to("moved")
    episodes = read_episodes(source, images="front")  # the link stays inside
    with pytest.raises(InputError, match=r"films/videos is a link; replace it with its target"):
        copy_lerobot(source, tmp_path / "copy", lambda number: np.zeros(len(episodes[number])))
    assert [path.name for path in tmp_path.iterdir()] == ["films"]
