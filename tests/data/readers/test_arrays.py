"""Arrays in memory, in .npy and in .npz files."""

import io
import zipfile

import numpy as np
import pytest
import torch

import pureward
from pureward.data import lazy
from pureward.data.episodes import HELD_OUT, TRAIN
from pureward.pixels import to_frames

IMAGES = np.random.default_rng(0).integers(0, 256, (7, 20, 30, 3), dtype=np.uint8)
FRAMES = torch.from_numpy(IMAGES).permute(0, 3, 1, 2)


def test_a_file_of_images_is_one_episode_without_rewards(tmp_path):
    np.save(tmp_path / "one.npy", IMAGES)
    (episode,) = pureward.read_episodes(tmp_path / "one.npy", size=None)
    assert len(episode) == 6
    assert episode.frames.shape == (7, 3, 20, 30)
    assert torch.equal(episode.frames[:], FRAMES)
    assert (episode.rated, episode.split) == (False, TRAIN)
    assert episode.rewards.tolist() == [0.0] * 6


def test_some_frames_of_a_file_are_read_as_of_a_tensor(tmp_path):
    np.savez_compressed(tmp_path / "one.npz", video=IMAGES)
    frames = pureward.read_episodes(tmp_path / "one.npz", size=None)[0].frames
    for index in (slice(2, 5), [5, 1, 1], torch.tensor([6, 0]), -1, slice(3, 3), slice(0, 7, 3)):
        assert torch.equal(frames[index], FRAMES[index])
    assert [len(clip) for clip in frames.clips(3)] == [3, 3, 1]
    assert torch.equal(torch.cat(list(frames.clips(3))), FRAMES)
    with pytest.raises(IndexError):
        frames[7]
    with pytest.raises(pureward.InputError, match="at least one frame, got 0"):
        next(frames.clips(0))


def test_frames_are_resized_once_by_the_function_that_rewards_use(tmp_path):
    np.save(tmp_path / "one.npy", IMAGES)
    frames = pureward.read_episodes(tmp_path / "one.npy")[0].frames
    assert torch.equal(frames[:], to_frames(IMAGES))
    assert frames.shape == (7, 3, 64, 64)


@pytest.mark.parametrize(
    "images",
    [
        IMAGES.transpose(0, 3, 1, 2).copy(),
        IMAGES[..., 0].copy(),
        np.concatenate([IMAGES, np.full_like(IMAGES[..., :1], 255)], axis=-1),
    ],
)
def test_channels_first_grey_and_alpha(tmp_path, images):
    np.savez(tmp_path / "one.npz", frames=images)
    assert torch.equal(
        pureward.read_episodes(tmp_path / "one.npz", size=None)[0].frames[:],
        to_frames(images, size=None),
    )


def test_columns_of_an_archive(tmp_path):
    """T values belong to arrivals; of T + 1 the first reward and the last action are dropped."""
    steps = np.arange(6.0)
    np.savez(tmp_path / "a.npz", frames=IMAGES, rewards=steps, actions=np.ones((6, 2)))
    rows = {"rewards": np.arange(7), "success": np.arange(7) == 6, "actions": np.arange(7.0)}
    np.savez(tmp_path / "b.npz", frames=IMAGES, state=np.ones((7, 4), np.float32), **rows)
    first, second = pureward.read_episodes(tmp_path, held_out=0)
    assert first.rated
    assert first.rewards.tolist() == [0, 1, 2, 3, 4, 5]
    assert second.rewards.tolist() == [1, 2, 3, 4, 5, 6]
    assert second.success.tolist() == [False] * 5 + [True]
    assert second.actions.tolist() == [0, 1, 2, 3, 4, 5]
    assert second.state.shape == (7, 4)


def test_several_episodes_in_one_array(tmp_path):
    np.savez(
        tmp_path / "all.npz",
        frames=np.stack([IMAGES, IMAGES[::-1]]),
        rewards=np.stack([np.zeros(6), np.ones(6)]),
    )
    first, second = pureward.read_episodes(tmp_path / "all.npz", size=None, held_out=0)
    assert torch.equal(second.frames[:], FRAMES.flip(0))
    assert torch.equal(first.frames[2:4], FRAMES[2:4])
    assert second.rewards.tolist() == [1.0] * 6


def test_nan_on_disk_is_told_with_its_frame(tmp_path, monkeypatch):
    monkeypatch.setattr(lazy, "BLOCK_BYTES", 1)  # a frame at once
    images = (IMAGES / 255).astype(np.float32)
    images[4, 0, 0] = np.nan
    np.save(tmp_path / "x.npy", images)
    frames = pureward.read_episodes(tmp_path / "x.npy", size=None)[0].frames
    assert torch.equal(frames[3:4], FRAMES[3:4])
    with pytest.raises(pureward.InputError, match=r"x.npy: images must .* got NaN in frame 4;"):
        frames[2:]


def test_two_cameras_of_an_archive_are_stacked(tmp_path):
    np.savez(tmp_path / "two.npz", top=IMAGES, side=255 - IMAGES, rewards=np.zeros(6))
    with pytest.raises(pureward.InputError, match=r"must be images.*got \['top', 'side'\]"):
        pureward.read_episodes(tmp_path / "two.npz")
    dataset = pureward.read_episodes(tmp_path / "two.npz", images=("side", "top"), size=None)
    frames = dataset[0].frames
    assert torch.equal(frames[3:5], torch.cat([255 - FRAMES, FRAMES], dim=1)[3:5])
    with pytest.raises(pureward.InputError, match=r"'front'; .*\['top', 'side'\]: .* or --images"):
        pureward.read_episodes(tmp_path / "two.npz", images="front")


def test_folders_of_splits(tmp_path):
    for split in ("train", "held-out", "failure"):
        (tmp_path / split).mkdir()
        np.save(tmp_path / split / "one.npy", IMAGES)
    np.save(tmp_path / "train" / "two.npy", IMAGES[:3])
    dataset = pureward.read_episodes(tmp_path)
    assert [e.split for e in dataset] == ["train", "train", "held-out", "failure"]
    assert [len(e) for e in dataset.split("train")] == [6, 2]
    assert [len(e) for e in dataset.split("train")[1:]] == [2]
    np.save(tmp_path / "beside.npy", IMAGES)
    with pytest.raises(pureward.InputError, match="all episodes must be in folders of splits"):
        pureward.read_episodes(tmp_path)


def test_episodes_in_folders_that_are_no_splits_are_refused_beside_splits(tmp_path):
    for folder in ("train", "held_out", "failures", ".cache", "notes"):
        (tmp_path / folder).mkdir()
        np.save(tmp_path / folder / "one.npy", IMAGES)
    (tmp_path / "notes/one.npy").rename(tmp_path / "notes/one.txt")
    told = "folders of splits are train, held-out and failure, got failures, held_out; rename or"
    with pytest.raises(pureward.InputError, match=told):
        pureward.read_episodes(tmp_path)
    (tmp_path / "held_out").rename(tmp_path / "held-out")
    (tmp_path / "failures").rename(tmp_path / "failure")
    assert len(pureward.read_episodes(tmp_path)) == 3


def test_files_are_in_the_order_of_their_numbers(tmp_path):
    for number in (2, 10, 1):
        np.save(tmp_path / f"episode_{number}.npy", IMAGES[:number])
    np.save(tmp_path / "episode_1.npy", IMAGES[:5])
    np.save(tmp_path / ".hidden.npy", IMAGES)
    assert [len(e) for e in pureward.read_episodes(tmp_path)] == [4, 1, 6]


def test_arrays_in_memory():
    dataset = pureward.read_episodes([IMAGES] * 5, size=None)
    assert [e.split for e in dataset].count(HELD_OUT) == 1
    assert torch.equal(dataset[0].frames, FRAMES)
    assert dataset.path is None
    (rated,) = pureward.read_episodes((IMAGES, np.ones(6)))
    assert (rated.rated, rated.rewards.sum()) == (True, 6.0)
    assert len(pureward.read_episodes(IMAGES)) == 1
    assert len(pureward.read_episodes(np.stack([IMAGES, IMAGES]))) == 2
    assert pureward.read_episodes(dataset) is dataset
    assert torch.equal(pureward.read_episodes([IMAGES / 255], size=None)[0].frames, FRAMES)
    for images in (IMAGES.astype(np.float32), FRAMES.float()):
        with pytest.raises(pureward.InputError, match=r"episode 0: .* \[0, 1\], got 0 to 255"):
            pureward.read_episodes([images])
    assert pureward.read_episodes([rated])[0] is rated


def _header(shape, dtype="|u1"):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"descr": dtype, "fortran_order": False, "shape": shape}
    )
    return stream.getvalue()


def _zip(path, name, data, declared=None):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    if declared is not None:  # the size in both headers of the archive
        written = path.read_bytes()
        size = len(data).to_bytes(4, "little")
        assert written.count(size) >= 2
        path.write_bytes(written.replace(size, declared.to_bytes(4, "little")))


BAD = {
    "objects": (
        lambda p: np.save(p / "x.npy", np.array([IMAGES, IMAGES[:3]], object)),
        "x.npy: arrays must be of numbers, got object, which would need pickle",
    ),
    "an array longer than its file": (
        lambda p: (p / "x.npy").write_bytes(_header((10**9, 64, 64, 3)) + bytes(100)),
        "an array of shape .* needs 12,288,000,000,128 bytes, and 228 are stored",
    ),
    "negative": (
        lambda p: (p / "x.npy").write_bytes(_header((-5, 4, 4, 3)) + bytes(100)),
        "are stored",
    ),
    "a zip bomb": (
        lambda p: _zip(p / "x.npz", "frames.npy", _header((9, 64, 64, 3)) + bytes(110592), 2**31),
        "frames.npy declares 2,147,483,648 bytes, more than 1,100 times",
    ),
    "a bomb in the header of an array": (
        lambda p: _zip(p / "x.npz", "frames.npy", _header((10**6, 64, 64, 3)) + bytes(110592)),
        "x.npz, frames: an array of shape .* needs .* bytes, and 110,720 are stored",
    ),
    "cut": (
        lambda p: (p / "x.npz").write_bytes(b"PK\x03\x04" + bytes(50)),
        "x.npz: cannot be read",
    ),
    "a pickle": (
        lambda p: (p / "x.npy").write_bytes(b"\x80\x04cos\nsystem\n(S'true'\ntR."),
        "x.npy: cannot be read",
    ),
    "16 bits": (
        lambda p: np.save(p / "x.npy", IMAGES.astype(np.uint16)),
        "x.npy: frames must be uint8 or floating point .* got uint16",
    ),
    "bytes as floating point": (
        lambda p: np.save(p / "x.npy", IMAGES.astype(np.float32)),
        r"x.npy: floating-point images must lie in \[0, 1\], got 0 to 255; scale them",
    ),
    "NaN in images": (
        lambda p: np.save(p / "x.npy", np.full((7, 20, 30, 3), np.nan)),
        "x.npy: images must be numbers, got NaN in frame 0",
    ),
    "one frame": (lambda p: np.save(p / "x.npy", IMAGES[:1]), "at least two frames, got one"),
    "too few rewards": (
        lambda p: np.savez(p / "x.npz", frames=IMAGES, rewards=np.ones(3)),
        "x.npz: frames must have 4 rows .one more than rewards., got 7",
    ),
    "NaN": (
        lambda p: np.savez(p / "x.npz", frames=IMAGES, rewards=np.full(6, np.nan)),
        "x.npz: rewards must be finite .* at step 0",
    ),
    "text": (
        lambda p: np.savez(p / "x.npz", frames=IMAGES, rewards=np.array(["a"] * 6)),
        "x.npz: rewards: values must be real numbers, got <U1",
    ),
    "rewards of fewer episodes": (
        lambda p: np.savez(p / "x.npz", frames=IMAGES[None], rewards=np.ones((0, 6))),
        "x.npz, episode 0, rewards: it must have 1 rows, one per episode, got 0; repair",
    ),
    "a share as success": (
        lambda p: np.savez(p / "x.npz", frames=IMAGES, success=np.full(6, 0.5)),
        "x.npz: success must be 0 or 1 at every step",
    ),
    "one image": (
        lambda p: np.save(p / "x.npy", IMAGES[0]),
        r"x.npy: the images of an episode .* got shape \(20, 30, 3\), a single one",
    ),
    "a table": (lambda p: np.save(p / "x.npy", np.ones((5, 4))), "frames must be images"),
    "a misspelt name": (
        lambda p: np.savez(p / "x.npz", frames=IMAGES, reward=np.ones(6)),
        r"x.npz: .* got 'reward' \(did you mean rewards\?\), which",
    ),
    "states of several episodes": (
        lambda p: np.savez(p / "x.npz", frames=IMAGES[None], states=np.ones((1, 7, 4))),
        r"got 'states' \(did you mean state\?\)",
    ),
    "an unknown name": (
        lambda p: np.savez(p / "x.npz", frames=IMAGES, temperature=np.ones(6)),
        "got 'temperature', which would not be read; rename it, or drop it",
    ),
    "nothing": (lambda p: np.savez(p / "x.npz"), "one array must be images"),
    "Fortran": (lambda p: np.save(p / "x.npy", np.asfortranarray(IMAGES)), "in C order"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_in_a_sentence(name, tmp_path):
    damage, sentence = BAD[name]
    damage(tmp_path)
    with pytest.raises(pureward.InputError, match=sentence) as caught:
        for episode in pureward.read_episodes(tmp_path):
            episode.frames[:]
    assert str(tmp_path) in str(caught.value)


def test_an_archive_that_ends_early_is_refused_when_its_frames_are_read(tmp_path):
    _zip(tmp_path / "x.npz", "frames.npy", _header((9, 64, 64, 3)) + bytes(100))
    with pytest.raises(pureward.InputError, match="x.npz, frames: an array of shape"):
        pureward.read_episodes(tmp_path)


@pytest.mark.parametrize(
    ("source", "arguments", "sentence"),
    [
        (None, {}, "episodes are named by a path, or given as a list of arrays .* got NoneType"),
        ([], {}, "at least one episode, got none"),
        (["a"], {}, "episode 0: values must be real numbers, got <U1"),
        ([IMAGES], {"size": 64}, r"size must be \(height, width\), got 64"),
        ([IMAGES], {"size": (64, 0)}, "size must be"),
        ([IMAGES], {"size": (10**6, 10**6)}, r"size must be .* at most \(8192, 8192\)"),
        ([IMAGES], {"held_out": 1}, "held_out must lie in"),
        ([IMAGES], {"images": 3}, "images must be a name or several"),
        ([IMAGES[0]], {}, r"episode 0: the images .* got shape \(20, 30, 3\), a single one"),
        ("no/such/place", {}, "no/such/place is not a dataset, and no file or folder"),
    ],
)
def test_bad_arguments(source, arguments, sentence):
    with pytest.raises(pureward.InputError, match=sentence):
        pureward.read_episodes(source, **arguments)


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    np.save(tmp_path / "secret.npy", IMAGES)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.npy").symlink_to(tmp_path / "secret.npy")
    with pytest.raises(pureward.InputError, match="x.npy must lie in .*data, and it links to"):
        pureward.read_episodes(tmp_path / "data")


def test_frames_larger_than_the_free_memory_are_refused(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", IMAGES)
    monkeypatch.setattr("pureward.data.guard.claimable_bytes", lambda device: 1000)
    with pytest.raises(pureward.InputError, match="values need 12.60 kB of memory, and 1.00 kB"):
        pureward.read_dataset(tmp_path / "x.npy")
    assert pureward.read_episodes(tmp_path / "x.npy", size=None)[0].frames[2:4].shape[0] == 2
