"""robomimic's HDF5 files."""

import shutil

import h5py
import numpy as np
import pytest
import torch

import pureward

LENGTHS = {"demo_0": 4, "demo_2": 6, "demo_10": 5}


def images(demo, camera=0):
    """Images (T + 1, 24, 32, 3) of a demo; the last one is an arrival alone."""
    rng = np.random.default_rng([int(demo[5:]), camera])
    return rng.integers(0, 256, (LENGTHS[demo] + 1, 24, 32, 3), dtype=np.uint8)


def write(path, *, next_obs=False, mask=True, cameras=("agentview_image",)):
    with h5py.File(path, "w") as file:
        for demo, length in LENGTHS.items():
            group = file.create_group(f"data/{demo}")
            group.attrs["num_samples"] = length
            for number, camera in enumerate(cameras):
                shown = images(demo, number)
                group.create_dataset(f"obs/{camera}", data=shown[:-1], compression="gzip")
                if next_obs:
                    group[f"next_obs/{camera}"] = shown[1:]
            group["obs/robot0_eef_pos"] = np.zeros((length, 3))
            group["actions"] = np.arange(length * 2.0).reshape(length, 2)
            group["rewards"] = np.arange(length) == length - 1
            group["dones"] = (np.arange(length) == length - 1) & (demo != "demo_2")
            group["states"] = np.arange(length * 3.0).reshape(length, 3)
        if mask:
            file["mask/train"] = np.array([b"demo_0", b"demo_10"])
            file["mask/valid"] = np.array([b"demo_2"])
            file["mask/20_percent"] = np.array([b"demo_0"])
    return path


def channels_first(images):
    return torch.from_numpy(images).permute(0, 3, 1, 2)


def test_columns_and_splits(tmp_path):
    dataset = pureward.read_episodes(write(tmp_path / "x.hdf5"), size=None)
    assert [len(e) for e in dataset] == [4, 6, 5]
    assert [e.split for e in dataset] == ["train", "held-out", "train"]
    first = dataset[0]
    assert first.rewards.tolist() == [0, 0, 0, 1]
    assert first.rated
    assert first.actions.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert first.state.shape == (5, 3)
    assert [e.terminated for e in dataset] == [True, False, True]
    without = pureward.read_episodes(write(tmp_path / "y.hdf5", mask=False), held_out=0.3)
    assert [e.split for e in without].count("held-out") == 1


def test_a_held_out_demo_that_is_absent_is_refused(tmp_path):
    path = write(tmp_path / "x.hdf5")
    with h5py.File(path, "a") as file:
        file["mask/valid"][0] = b"demo_9"
    with pytest.raises(
        pureward.InputError, match="mask/valid must name demos of data, got demo_9;"
    ):
        pureward.read_episodes(path)


def test_the_last_image_is_repeated_where_its_arrival_is_not_stored(tmp_path):
    frames = pureward.read_episodes(write(tmp_path / "x.hdf5"), size=None)[1].frames
    shown = channels_first(images("demo_2"))
    assert frames.shape == (7, 3, 24, 32)
    assert torch.equal(frames[:6], shown[:6])
    assert torch.equal(frames[:], torch.cat([shown[:6], shown[5:6]]))
    assert torch.equal(frames[[6]], shown[5:6])
    assert torch.equal(torch.cat(list(frames.clips(4))), frames[:])


def test_arrivals_that_are_stored_are_read(tmp_path):
    path = write(tmp_path / "x.hdf5", next_obs=True)
    for episode, demo in zip(pureward.read_episodes(path, size=None), LENGTHS, strict=True):
        shown = channels_first(images(demo))
        assert torch.equal(episode.frames[:], shown)
        assert torch.equal(episode.frames[[0, -1]], shown[[0, -1]])


def test_several_cameras(tmp_path):
    cameras = ("agentview_image", "wrist_image")
    path = write(tmp_path / "x.hdf5", cameras=cameras)
    with pytest.raises(pureward.InputError, match=r"one image, got \['agentview_image', 'wrist_im"):
        pureward.read_episodes(path)[0]
    dataset = pureward.read_episodes(path, images=cameras, size=None)
    assert dataset.images == cameras
    frames = dataset[0].frames
    both = [channels_first(images("demo_0", number)) for number in (0, 1)]
    assert torch.equal(frames[:4], torch.cat(both, dim=1)[:4])
    with pytest.raises(pureward.InputError, match="unknown image 'front'; choose from"):
        pureward.read_episodes(path, images="front")[0]


def _delete(name):
    return lambda file, folder: file.__delitem__(name)


def _replace(name, value):
    def damage(file, folder):
        del file[name]
        file[name] = value

    return damage


def _external(file, folder):
    del file["data/demo_2/rewards"]
    (folder / "secret").write_bytes(b"a secret of many bytes")
    secret = [(str(folder / "secret"), 0, 6)]
    file.create_dataset("data/demo_2/rewards", (6,), "u1", external=secret)


def _link(name):
    def damage(file, folder):
        shutil.copy(folder / "x.hdf5", folder / "other.hdf5")
        del file[name]
        file[name] = h5py.ExternalLink(str(folder / "other.hdf5"), f"/{name}")

    return damage


def _virtual(file, folder):
    del file["data/demo_2/obs/agentview_image"]
    layout = h5py.VirtualLayout((6, 24, 32, 3), "u1")
    layout[:] = h5py.VirtualSource(str(folder / "other.hdf5"), "x", (6, 24, 32, 3))
    file.create_virtual_dataset("data/demo_2/obs/agentview_image", layout)


def _huge(file, folder):
    del file["data/demo_2/obs/agentview_image"]
    shape = (10**6, 240, 320, 3)
    file.create_dataset("data/demo_2/obs/agentview_image", shape, "u1", chunks=(1, 240, 320, 3))


DAMAGES = {
    "no data": (_delete("data"), "x.hdf5: HDF5 .* no group 'data'; save each .* as an .npz"),
    "no obs": (_delete("data/demo_2/obs"), "demo_2: HDF5 files .* has no group 'obs'"),
    "no images": (
        _delete("data/demo_2/obs/agentview_image"),
        "demo_2: .* an image, got .*'robot0_eef_pos'.*dataset_states_to_obs",
    ),
    "external storage": (_external, "demo_2: data/demo_2/rewards must be .* external storage"),
    "external demo": (_link("data/demo_2"), "demo_2: demo_2 must be stored in the file .* a link"),
    "external data": (_link("data"), "x.hdf5: data must be stored in the file .* it is a link"),
    "external mask": (_link("mask/valid"), "valid must be stored in the file .* it is a link"),
    "virtual": (_virtual, "demo_2/obs/agentview_image must be .* a virtual dataset"),
    "declared only": (_huge, "agentview_image must be stored in full, and of the 230.40 GB"),
    "short rewards": (
        _replace("data/demo_2/rewards", np.ones(3)),
        "demo_2: actions must have 3 rows .one per reward., got 6",
    ),
    "complex": (_replace("data/demo_2/rewards", np.ones(6) * 1j), "must be real numbers"),
    "a number": (_replace("data/demo_2/rewards", 1.0), "rewards must be an array with a row per"),
    "a column for a group": (_replace("data/demo_2", 1.0), "has no group 'demo_2'"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_bad_file_is_refused_in_a_sentence(name, tmp_path):
    damage, sentence = DAMAGES[name]
    path = write(tmp_path / "x.hdf5")
    with h5py.File(path, "a") as file:
        damage(file, tmp_path)
    with pytest.raises(pureward.InputError, match=sentence) as caught:
        for episode in pureward.read_episodes(path):
            episode.frames[:]
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("keep", [0, 100, 5000])
def test_a_truncated_file_is_refused(keep, tmp_path):
    path = write(tmp_path / "x.hdf5")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(pureward.InputError, match="x.hdf5: cannot be read"):
        pureward.read_episodes(path)
