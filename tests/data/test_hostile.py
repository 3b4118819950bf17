"""Malicious datasets: files that refer to other files or declare more than they hold."""

import json
import os
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest
import torch
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer
from minari.dataset.minari_storage import MinariStorage

from pureward.data import guard
from pureward.data.dataset import read_dataset
from pureward.data.episodes import Episode
from pureward.data.hdf5 import check_heaps
from pureward.data.writing import write_episodes
from pureward.errors import InputError, RoomError

STEPS = 8
SECRET = b"a secret of 24 bytes ..."


@pytest.fixture
def folder(tmp_path):
    """A valid dataset with frames, beside a file that must not be read."""
    (tmp_path / "secret").write_bytes(SECRET)
    frames = torch.randint(256, (STEPS + 1, 3, 64, 64)).to(torch.uint8)
    episode = Episode(
        rewards=torch.arange(STEPS).float(),
        actions=torch.zeros(STEPS, 1),
        simulator={"qpos": torch.ones(STEPS + 1, 2)},
        frames=frames,
    )
    write_episodes(tmp_path / "set", [episode, episode], task="reach")
    return tmp_path / "set" / "data"


def _external_storage(file, folder):
    del file["episode_0/rewards"]
    secret = [(str(folder.parents[1] / "secret"), 0, STEPS)]
    file.create_dataset("episode_0/rewards", (STEPS,), "u1", external=secret)


def _external_link(file, folder):
    del file["episode_0/rewards"]
    shutil.copy(folder / "main_data.hdf5", folder.parents[1] / "other.hdf5")
    link = h5py.ExternalLink(str(folder.parents[1] / "other.hdf5"), "/episode_1/rewards")
    file["episode_0/rewards"] = link


def _virtual(file, folder):
    del file["episode_0/rewards"]
    shutil.copy(folder / "main_data.hdf5", folder.parents[1] / "other.hdf5")
    layout = h5py.VirtualLayout((STEPS,), "f4")
    other = str(folder.parents[1] / "other.hdf5")
    layout[:] = h5py.VirtualSource(other, "/episode_1/rewards", (STEPS,))
    file.create_virtual_dataset("episode_0/rewards", layout)


def _soft_link(file, folder):
    del file["episode_0/rewards"]
    file["episode_0/rewards"] = h5py.SoftLink("/episode_1/rewards")


def _cycle(file, folder):
    file["episode_0/infos/again"] = file["episode_0"]


def _never_written(file, folder):
    del file["episode_0/observations/frames"]
    shape = (130_000, 3, 64, 64)  # 1.6 GB, in a file of a few kilobytes
    file.create_dataset("episode_0/observations/frames", shape, "u1", chunks=True)


def _half_written(file, folder):
    del file["episode_0/rewards"]
    rewards = file.create_dataset("episode_0/rewards", (STEPS,), "f4", chunks=(STEPS // 2,))
    rewards[: STEPS // 2] = 1.0


def _compressed(file, name, shape, chunks):
    """Zeros through two passes of deflate, without allocating them."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk(chunks)
    properties.set_deflate(9)
    properties.set_deflate(9)
    space = h5py.h5s.create_simple(shape, (h5py.h5s.UNLIMITED, *shape[1:]))
    dataset = h5py.h5d.create(file.id, name.encode(), h5py.h5t.STD_U8LE, space, properties)
    one = np.zeros(chunks, np.uint8)
    for start in range(0, shape[0], chunks[0]):
        rows = min(chunks[0], shape[0] - start)
        h5py.Dataset(dataset)[start : start + rows] = one[:rows]


def _twice_compressed(file, folder):
    del file["episode_0/observations/frames"]
    _compressed(file, "episode_0/observations/frames", (2000, 3, 64, 64), (1000, 3, 64, 64))


def _huge_chunk(file, folder):
    del file["episode_0/rewards"]
    _compressed(file, "episode_0/rewards", (STEPS,), (100_000_000,))


def _repeated_text(file, folder):
    """Every element refers to the same long text."""
    text = file.create_dataset("episode_0/infos/text", (1000,), h5py.string_dtype(), chunks=(1000,))
    text[0] = "x" * 100_000
    chunk = bytearray(text.id.read_direct_chunk((0,))[1])
    text.id.write_direct_chunk((0,), bytes(chunk[:16]) * 1000)


def _extra_episode(file, folder):
    file.copy("episode_0", "episode_2")


def _complex(file, folder):
    del file["episode_1/rewards"]
    file["episode_1/rewards"] = np.arange(STEPS) * 1j


ATTACKS = {
    "external storage": (_external_storage, "episode_0/rewards must .* it is external storage"),
    "external link": (_external_link, "episode_0/rewards must be stored in the file .* link"),
    "virtual dataset": (_virtual, "episode_0/rewards must be stored .* a virtual dataset"),
    "soft link": (_soft_link, "episode_0/rewards must be stored in the file .* link"),
    "cycle": (_cycle, "episode_0/infos/again must have one path only"),
    "never written": (_never_written, "frames must be stored in full, and of the 1.60 GB"),
    "half written": (_half_written, "episode_0/rewards must be stored in full"),
    "twice compressed": (_twice_compressed, "frames may declare at most 1,100 times its .* stored"),
    "huge chunk": (_huge_chunk, "rewards may declare at most 1,100 times"),
    "repeated text": (_repeated_text, "infos/text must not be longer than the file"),
    "extra episode": (_extra_episode, "holds 3 episodes, though 2 are announced"),
    "complex rewards": (_complex, "episode 1: values must be real numbers, got complex128"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_malicious_file_is_refused(name, folder):
    attack, sentence = ATTACKS[name]
    assert len(read_dataset(folder.parent).episodes) == 2
    with h5py.File(folder / "main_data.hdf5", "a") as file:
        attack(file, folder)
    with pytest.raises(InputError, match=f"main_data.hdf5.*{sentence}"):
        read_dataset(folder.parent)


@pytest.mark.parametrize("file", ["metadata.json", "main_data.hdf5"])
def test_a_link_out_of_the_folder_is_refused(file, folder):
    outside = folder.parents[1] / "outside"
    (folder / file).rename(outside)
    (folder / file).symlink_to(outside)
    with pytest.raises(InputError, match=f"{file} must lie in .*set, and it links to .*outside"):
        read_dataset(folder.parent)


def test_a_link_inside_the_folder_is_followed(folder):
    folder.rename(folder.parent / "v0")
    folder.symlink_to("v0")
    assert len(read_dataset(folder.parent).episodes) == 2


@pytest.mark.parametrize("file", ["metadata.json", "main_data.hdf5"])
def test_a_pipe_in_place_of_a_file_does_not_hang(file, folder):
    (folder / file).unlink()
    os.mkfifo(folder / file)
    code = f"import pureward; pureward.read_dataset({str(folder)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120, text=True)
    assert "pureward.errors.InputError" in done.stderr
    assert "a regular file" in done.stderr or "is not a dataset" in done.stderr


def _announce(folder, **changes):
    file = folder / "metadata.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"total_episodes": 1, "total_steps": STEPS}, "holds 2 episodes, though 1 are announced"),
        ({"total_episodes": 10**12}, "episode 2: is missing, though 1000000000000 are announced"),
        ({"author": "x" * (1 << 24)}, "metadata.json must not be longer than 16.78 MB"),
        (
            {"action_space": json.dumps({"type": "Box", "dtype": "S900000000", "low": [0]})},
            "dtype must be of numbers, got 'S900000000'",
        ),
    ],
)
def test_metadata_that_contradicts_the_file_is_refused(changes, sentence, folder):
    _announce(folder, **changes)
    with pytest.raises(InputError, match=sentence):
        read_dataset(folder.parent)


def test_a_dataset_larger_than_the_free_memory_is_refused(folder, monkeypatch):
    monkeypatch.setattr(guard, "claimable_bytes", lambda device: 100_000)
    with pytest.raises(RoomError, match="values need .* of memory, and 100.00 kB are free"):
        read_dataset(folder.parent)


def test_black_frames_compress_well_and_are_read(tmp_path):
    """The limit of the compression ratio must admit constant columns."""
    steps = 1000
    episode = Episode(
        rewards=torch.zeros(steps),
        actions=torch.zeros(steps, 1),
        simulator={"qpos": torch.zeros(steps + 1, 2)},
        frames=torch.zeros(steps + 1, 3, 64, 64, dtype=torch.uint8),
    )
    write_episodes(tmp_path, [episode], task="reach")
    with h5py.File(tmp_path / "data" / "main_data.hdf5") as file:
        frames = file["episode_0/observations/frames"]
        assert frames.nbytes > 1000 * frames.id.get_storage_size()
    assert read_dataset(tmp_path).episodes[0].frames.shape == (steps + 1, 3, 64, 64)


@pytest.mark.parametrize("nested", [False, True])
def test_jpeg_images_larger_than_announced_are_refused(nested, tmp_path):
    """Others in the observation are not decoded."""
    image = spaces.Box(0, 255, (64, 64, 3), np.uint8)
    space = spaces.Dict({"parts": spaces.Tuple((image,)), "view": image}) if nested else image
    large = np.zeros((4, 2000, 2000, 3), np.uint8)
    small = large[:, :64, :64]
    storage = MinariStorage.new(
        tmp_path, observation_space=space, action_space=spaces.Discrete(2), jpeg_encoding=True
    )
    columns = {
        "observations": {"parts": (large,), "view": small} if nested else large,
        "actions": np.zeros(3, int),
        "rewards": np.zeros(3),
        "terminations": np.zeros(3, bool),
        "truncations": np.zeros(3, bool),
    }
    storage.update_episodes([EpisodeBuffer(**columns, infos={})])
    if nested:
        assert read_dataset(tmp_path)[0].frames.shape == (4, 3, 64, 64)
        return
    with pytest.raises(InputError, match=r"must all be \(64, 64, 3\), got \(2000, 2000, 3\)"):
        read_dataset(tmp_path)


@pytest.mark.parametrize("jpeg", [False, True])
def test_a_group_in_place_of_images_is_refused(jpeg, tmp_path):
    image = spaces.Box(0, 255, (64, 64, 3), np.uint8)
    storage = MinariStorage.new(
        tmp_path, observation_space=image, action_space=spaces.Discrete(2), jpeg_encoding=jpeg
    )
    columns = {name: np.zeros(3) for name in ("actions", "rewards", "terminations", "truncations")}
    images = np.zeros((4, 64, 64, 3), np.uint8)
    storage.update_episodes([EpisodeBuffer(observations=images, **columns, infos={})])
    with h5py.File(tmp_path / "main_data.hdf5", "a") as file:
        file.move("episode_0/observations", "episode_0/moved")
        file.create_group("episode_0/observations")
    with pytest.raises(InputError, match="episode 0: observations must be an array, and is not"):
        read_dataset(tmp_path)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_damaged_text_of_hdf5_is_refused_and_not_read_forever(tmp_path, libver):
    path = tmp_path / "data.hdf5"
    with h5py.File(path, "w", libver=libver) as file:
        for name in "ab":
            file.attrs[name] = "text " * 50
    check_heaps(path)
    whole = path.read_bytes()
    first = whole.index(b"GCOL") + 16
    for damage in (
        whole[:first] + bytes(64) + whole[first + 64 :],  # free space of no size
        whole[: first + 8] + b"\xff" * 7 + whole[first + 15 :],  # an object beyond its heap
    ):
        path.write_bytes(damage)
        with pytest.raises(InputError, match="its text is damaged"):
            check_heaps(path)
