"""Episodes on disk: lossless round trips, other Minari datasets, and refusals of bad files."""

import json
import os
import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import h5py
import minari
import numpy as np
import pytest
import torch
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer
from minari.dataset.minari_storage import MinariStorage
from PIL import EpsImagePlugin

import pureward
from pureward.data.dataset import read_dataset
from pureward.data.draw import draw
from pureward.data.episodes import FAILURE, HELD_OUT, TRAIN, Episode, annotated, split_by_share
from pureward.data.writing import write_episodes
from pureward.pixels import to_frames
from pureward.runs.collect import rollout


def wander(state):
    return torch.sin(7.0 * state[:, :2] + 3.0 * state[:, 2:])


@pytest.fixture(scope="module")
def played():
    """Three episodes of reach with the frames of the rollout."""
    episodes = rollout(pureward.make("reach", 3, "cpu", cameras=True), wander)
    splits = (TRAIN, HELD_OUT, FAILURE)
    return [replace(e, split=s, policy=f"of {s}") for e, s in zip(episodes, splits, strict=True)]


@pytest.fixture(scope="module")
def states_only(played, tmp_path_factory):
    folder = tmp_path_factory.mktemp("states")
    write_episodes(folder, (replace(episode, frames=None) for episode in played), task="reach")
    return folder


def same(one: Episode, other: Episode) -> bool:
    names = ("rewards", "actions", "success", "state")
    equal = all(torch.equal(getattr(one, name), getattr(other, name)) for name in names)
    return equal and (one.split, one.policy) == (other.split, other.policy)


def test_states_are_read_as_they_were_written(played, states_only):
    dataset = read_dataset(states_only)
    assert dataset.task == "reach"
    assert not dataset.lossy
    assert all(map(same, dataset.episodes, played))
    for read, kept in zip(dataset.episodes, played, strict=True):
        assert read.simulator["qpos"].dtype == torch.float64
        assert torch.equal(read.simulator["qpos"], kept.simulator["qpos"])
    assert [e.policy for e in dataset.split(FAILURE)] == ["of failure"]
    with pytest.raises(pureward.InputError, match="unknown split 'held_out'; choose from"):
        dataset.split("held_out")


def test_drawn_frames_equal_those_of_the_rollout(played, states_only):
    dataset = read_dataset(states_only)
    assert all(episode.frames is None for episode in dataset.episodes)
    for drawn, seen in zip(draw(dataset.episodes, "reach"), played, strict=True):
        assert drawn.frames.shape == (101, 3, 64, 64)
        assert torch.equal(drawn.frames, seen.frames)
        assert len(seen.frames.unique()) > 20  # not blank


def test_stored_frames_are_lossless_and_states_are_smaller(played, states_only, tmp_path):
    write_episodes(tmp_path, played, task="reach")
    dataset = read_dataset(tmp_path, frame_shape=(3, 64, 64))
    for read, kept in zip(dataset.episodes, played, strict=True):
        assert torch.equal(read.frames, kept.frames)
    sizes = [(f / "data" / "main_data.hdf5").stat().st_size for f in (states_only, tmp_path)]
    assert sizes[0] * 5 < sizes[1]


def test_minari_itself_reads_what_we_write(played, states_only):
    theirs = minari.MinariDataset(states_only / "data")
    assert theirs.total_episodes == 3
    assert theirs.total_steps == 300
    episode = theirs[1]
    assert np.array_equal(episode.rewards, played[1].rewards.numpy())
    assert episode.observations["qpos"].shape == (101, 2)
    assert episode.truncations.tolist() == [False] * 99 + [True]


def test_rewards_belong_to_arrival_states(played):
    frames, rewards, numbers = annotated(played)
    env = pureward.make("reach", 1, "cpu")
    for step in (0, 42, 99):
        qpos = played[1].simulator["qpos"][step + 1]
        env.engine.state.qpos.copy_(qpos)
        env.engine.refresh()
        row = 100 + step
        assert rewards[row] == env.task.reward(env.engine.state).float()[0]
        assert torch.equal(frames[row], played[1].frames[step + 1])
        assert numbers[row] == 1


def test_relative_paths_are_accepted(played, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_episodes(Path("here"), played[:1], task="reach")
    assert same(read_dataset("here").episodes[0], played[0])
    assert same(read_dataset("here/data").episodes[0], played[0])


def test_an_interrupted_write_leaves_nothing(played, tmp_path):
    def broken():
        yield played[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_episodes(tmp_path, broken(), task="reach")
    assert list(tmp_path.iterdir()) == []


def test_simulator_fields_that_a_task_lacks_are_ignored(played):
    """Reach has no mocap body."""
    mocap = torch.zeros(101, 2, 3)
    odd = replace(played[0], frames=None, simulator={**played[0].simulator, "mocap_pos": mocap})
    assert torch.equal(draw([odd], "reach")[0].frames, played[0].frames)


def test_drawing_another_task_is_refused(played):
    with pytest.raises(pureward.InputError, match="drawing walker needs qpos .* another task"):
        draw([replace(played[0], frames=None)], "walker")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"rewards": torch.ones(99)}, "actions must have 99 rows"),
        ({"state": torch.ones(100, 4)}, "state must have 101 rows"),
        ({"frames": torch.ones(101, 3, 8, 8)}, r"uint8 .*, got float32 \(101, 3, 8, 8\); store"),
        ({"frames": torch.ones(101, 64, 64, 3).byte()}, r"got \(101, 64, 64, 3\); convert them"),
        ({"frames": torch.ones(101, 84, 84, 3).byte()}, r"got \(101, 84, 84, 3\); convert them"),
        ({"frames": torch.ones(101, 48, 48, 3).byte()}, r"got \(101, 48, 48, 3\); convert them"),
        ({"frames": torch.ones(101, 1, 64, 64).byte()}, "with 3 channels per image, got"),
        ({"frames": np.ones((101, 3, 8, 8), np.uint8)}, "frames must be a tensor, got ndarray"),
        ({"rewards": torch.ones(100).long()}, "rewards must be floating point, got int64"),
        ({"success": torch.ones(100)}, "success must be bool, got float32"),
        ({"frames": torch.ones(101, 8).byte()}, r"uint8 .*, got uint8 \(101, 8\); store"),
        ({"split": "tset"}, "unknown split 'tset'; choose from"),
        ({"actions": torch.full((100, 2), torch.nan)}, "actions must be finite .* at step 0"),
        ({"simulator": {"qpos": torch.full((101, 2), torch.inf)}}, "qpos must be finite .* step 0"),
        ({"simulator": {"qpos": torch.full((101, 2), -1e30)}}, "±10,000, got -1e[+]30 at step 0"),
        ({"rewards": [1.0] * 100}, "rewards must be a tensor, got list"),
        ({"rewards": torch.ones(100) * 1j}, "rewards must be real numbers, got complex64"),
        ({"state": torch.ones(101, 4) * 1j}, "state must be real numbers, got complex64"),
        ({"rewards": torch.ones(100, 1)}, r"must be one number per step, got shape \(100, 1\)"),
    ],
)
def test_an_episode_checks_itself(played, change, sentence):
    with pytest.raises(pureward.InputError, match=sentence):
        replace(played[0], **change)


def test_a_share_is_held_out_the_same_each_time():
    assert split_by_share(10, 0.2).count(HELD_OUT) == 2
    assert split_by_share(10, 0.2) == split_by_share(10, 0.2)
    assert split_by_share(1, 0.2) == [TRAIN]
    assert split_by_share(3, 0.0) == [TRAIN] * 3


# Datasets that others wrote.


def foreign(folder, space, observe, *, jpeg=False, episodes=4, steps=5, kind="hdf5"):
    """Write a Minari dataset without our metadata."""
    folder.mkdir()
    storage = MinariStorage.new(
        folder,
        observation_space=space,
        action_space=spaces.Discrete(3),
        jpeg_encoding=jpeg,
        data_format=kind,
    )
    rng = np.random.default_rng(0)
    storage.update_episodes(
        EpisodeBuffer(
            observations=observe(rng, steps + 1),
            actions=rng.integers(3, size=steps),
            rewards=rng.random(steps),
            terminations=np.zeros(steps, dtype=bool),
            truncations=np.zeros(steps, dtype=bool),
            infos={},
        )
        for _ in range(episodes)
    )
    return folder


def pixels(rng, count, shape=(64, 64, 3)):
    return rng.integers(256, size=(count, *shape), dtype=np.uint8)


IMAGE = spaces.Box(0, 255, (64, 64, 3), np.uint8)


def test_another_dataset_of_images(tmp_path):
    dataset = read_dataset(foreign(tmp_path / "theirs", IMAGE, pixels), held_out=0.25)
    rng = np.random.default_rng(0)
    first = dataset.episodes[0]
    assert torch.equal(first.frames, torch.from_numpy(pixels(rng, 6)).permute(0, 3, 1, 2))
    assert first.frames.is_contiguous()
    assert (first.state, first.success, dataset.task, dataset.lossy) == (None, None, None, False)
    assert first.rewards.dtype == torch.float32
    assert (len(dataset.split(TRAIN)), len(dataset.split(HELD_OUT))) == (3, 1)


def test_split_names_of_other_datasets_are_ignored(tmp_path):
    path = foreign(tmp_path / "theirs", IMAGE, pixels)
    _edit(lambda file: file["episode_0"].attrs.update(split="validation"))(path)
    assert read_dataset(path, held_out=0).episodes[0].split == TRAIN


def test_a_jpeg_dataset_is_lossy(tmp_path):
    dataset = read_dataset(foreign(tmp_path / "theirs", IMAGE, pixels, jpeg=True))
    assert dataset.lossy
    assert dataset.episodes[0].frames.shape == (6, 3, 64, 64)


@pytest.mark.parametrize("jpeg", [False, True])
def test_arrow_and_hdf5_hold_the_same_episodes(jpeg, tmp_path):
    pytest.importorskip("pyarrow")
    ones, others = (
        read_dataset(foreign(tmp_path / kind, IMAGE, pixels, jpeg=jpeg, kind=kind))
        for kind in ("hdf5", "arrow")
    )
    assert (len(others), others.lossy) == (4, jpeg)
    for one, other in zip(ones, others, strict=True):
        assert torch.equal(one.frames, other.frames)
        assert torch.equal(one.rewards, other.rewards)


def test_images_that_minari_does_not_compress_are_not_lossy(tmp_path):
    """It encodes only images of height × width × 3 as JPEG."""
    space = spaces.Box(0, 255, (3, 64, 64), np.uint8)
    path = foreign(tmp_path / "theirs", space, lambda r, n: pixels(r, n, (3, 64, 64)), jpeg=True)
    dataset = read_dataset(path)
    stored = pixels(np.random.default_rng(0), 6, (3, 64, 64))
    assert torch.equal(dataset.episodes[0].frames, torch.from_numpy(stored))
    assert not dataset.lossy


def test_numbers_of_another_byte_order_are_read(tmp_path):
    path = foreign(tmp_path / "theirs", IMAGE, pixels)

    def turn(file):
        del file["episode_0/rewards"]
        file["episode_0/rewards"] = np.array([1.0, 2.0, 3.0, 4.0, 0.5], ">f8")

    _edit(turn)(path)
    assert read_dataset(path).episodes[0].rewards.tolist() == [1.0, 2.0, 3.0, 4.0, 0.5]


def test_several_cameras_are_stacked_in_the_given_order(tmp_path):
    space = spaces.Dict({"top": IMAGE, "speed": spaces.Box(-1, 1, (2,)), "side": IMAGE})

    def observe(rng, count):
        return {
            "top": pixels(rng, count),
            "speed": np.zeros((count, 2), np.float32),
            "side": pixels(rng, count) // 2,
        }

    path = foreign(tmp_path / "theirs", space, observe)
    with pytest.raises(pureward.InputError, match=f"{path}: .*one image, got .*'side', 'top'"):
        read_dataset(path)
    with pytest.raises(pureward.InputError, match="unknown image 'front'; choose from"):
        read_dataset(path, images=("front",))
    with pytest.raises(pureward.InputError, match="there must be one image"):
        read_dataset(path, images=())
    one = read_dataset(path, images="side").episodes[0].frames
    assert one.shape == (6, 3, 64, 64)
    assert one.max() <= 127
    with pytest.raises(pureward.InputError, match="unknown image 'front'"):
        read_dataset(path, images="front")
    both = read_dataset(path, images=("top", "side"))
    assert both.images == ("top", "side")
    frames = both.episodes[0].frames
    assert frames.shape == (6, 6, 64, 64)
    assert frames[:, 3:].max() <= 127 < frames[:, :3].max()


def test_frames_of_another_size_are_resized_and_other_channels_refused(tmp_path):
    space = spaces.Box(0, 255, (84, 84, 3), np.uint8)
    path = foreign(tmp_path / "theirs", space, lambda r, n: pixels(r, n, (84, 84, 3)))
    stored = read_dataset(path).episodes[0].frames
    assert stored.shape == (6, 3, 84, 84)
    resized = read_dataset(path, frame_shape=(3, 64, 64)).episodes[0].frames
    assert torch.equal(resized, to_frames(stored, size=(64, 64)))
    sentence = r"theirs, episode 0: frames must be \(6, 64, 64\).*got \(3, 64, 64\)"
    with pytest.raises(pureward.InputError, match=sentence):
        read_dataset(path, frame_shape=(6, 64, 64))


def test_frames_of_one_dataset_must_have_one_shape(tmp_path):
    path = foreign(tmp_path / "theirs", IMAGE, pixels)

    def enlarge(file):
        del file["episode_2/observations"]
        file["episode_2/observations"] = pixels(np.random.default_rng(1), 6, (84, 84, 3))

    _edit(enlarge)(path)
    sentence = r"episode 2: frames must be \(3, 64, 64\) .* as in episode 0, got \(3, 84, 84\)"
    with pytest.raises(pureward.InputError, match=sentence):
        read_dataset(path)


def test_a_dataset_without_images_is_refused(tmp_path):
    space = spaces.Box(-1, 1, (4,), np.float32)
    path = foreign(tmp_path / "theirs", space, lambda _, n: np.zeros((n, 4), np.float32))
    with pytest.raises(pureward.InputError, match=f"{path}: observations must hold uint8 colour"):
        read_dataset(path)


def test_a_dataset_of_the_local_cache_is_named_by_its_id(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "cache"))
    (tmp_path / "cache/mine/lift").mkdir(parents=True)
    foreign(tmp_path / "data", IMAGE, pixels)
    named = {"dataset_id": "mine/lift/human-v0", "minari_version": minari.__version__}
    _metadata(**named)(tmp_path / "data")
    (tmp_path / "cache/mine/lift/human-v0").mkdir()
    (tmp_path / "data").rename(tmp_path / "cache/mine/lift/human-v0/data")
    monkeypatch.chdir(tmp_path)
    assert len(minari.load_dataset("mine/lift/human-v0")) == 4
    dataset = pureward.read_episodes("mine/lift/human-v0")
    assert [len(episode) for episode in dataset] == [5] * 4
    with pytest.raises(pureward.InputError, match="no-v0 is not a dataset, and no file or folder"):
        pureward.read_episodes("mine/lift/no-v0")
    with pytest.raises(pureward.InputError, match="is not a dataset"):
        pureward.read_episodes("../cache/mine/lift/../../mine/lift/human-v0/x")


# Bad files.


def _edit(change):
    def damage(data):
        with h5py.File(data / "main_data.hdf5", "a") as file:
            change(file)

    return damage


def _metadata(**changes):
    def damage(data):
        path = data / "metadata.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return damage


def _nan_reward(file):
    file["episode_1/rewards"][7] = np.nan


def _huge_state(file):
    file["episode_1/observations/qpos"][5] = 1e30


def _endless_rewards(file):
    del file["episode_1/rewards"]
    file.create_dataset("episode_1/rewards", (2**50,), "f8", chunks=True)  # nothing is allocated


def _drop(name):
    return _edit(lambda file: file.__delitem__(name))


def _halve(data):
    file = data / "main_data.hdf5"
    os.truncate(file, file.stat().st_size // 2)


def _shorten(file):
    file["episode_1/observations/state"].resize((50, 4))


_OVERFLOWING = {"type": "Box", "dtype": "uint8", "shape": [1], "low": [0], "high": [300]}

DAMAGES = {
    "NaN reward": (_edit(_nan_reward), "hdf5, episode 1: rewards must be finite.*at step 7"),
    "huge state": (
        _edit(_huge_state),
        "episode 1: qpos must lie within ±10,000, got 1e.30 at step 5",
    ),
    "endless rewards": (_edit(_endless_rewards), "episode_1/rewards must be stored in full"),
    "no rewards": (_drop("episode_2/rewards"), "hdf5, episode 2: has no column 'rewards'"),
    "no states": (_drop("episode_1/observations/state"), "hdf5, episode 1: cannot be read"),
    "lost episode": (_drop("episode_1"), "hdf5, episode 1: is missing, though 3 are announced"),
    "short episode": (_edit(_shorten), "hdf5, episode 1: state must have 101 rows"),
    "truncated": (_halve, "main_data.hdf5: cannot be read.*truncated"),
    "empty": (lambda d: os.truncate(d / "main_data.hdf5", 0), "main_data.hdf5: cannot be read"),
    "no file": (lambda d: (d / "main_data.hdf5").unlink(), "main_data.hdf5: cannot be read"),
    "empty metadata": (lambda d: os.truncate(d / "metadata.json", 0), "metadata.json: cannot be"),
    "metadata of a list": (lambda d: (d / "metadata.json").write_text("[]"), "JSON object"),
    "no episodes": (_metadata(total_episodes=0), "at least one episode, got 0"),
    "true episodes": (_metadata(total_episodes=True), "at least one episode, got True"),
    "no spaces": (_metadata(action_space=None), "metadata.json must name .* action_space"),
    "bounds beyond the type": (
        _metadata(observation_space=json.dumps(_OVERFLOWING)),
        "data: cannot be read .*300 out of bounds",
    ),
    "a space of nothing": (
        _metadata(observation_space="null"),
        r"data: cannot be read \(AssertionError\)",
    ),
    "unknown format": (_metadata(data_format="pickle"), "data: cannot be read"),
    "another package": (_metadata(data_format="arrow"), "data: .*"),
    "no metadata": (lambda d: (d / "metadata.json").unlink(), "metadata.json: cannot be"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_bad_dataset_is_refused(name, states_only, tmp_path):
    damage, sentence = DAMAGES[name]
    shutil.copytree(states_only, tmp_path / "bad")
    damage(tmp_path / "bad" / "data")
    with warnings.catch_warnings(), pytest.raises(pureward.InputError, match=sentence) as caught:
        warnings.simplefilter("error")
        read_dataset(tmp_path / "bad")
    assert str(tmp_path / "bad") in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"path": None}, "a dataset's path must be text or a Path, got None"),
        ({"path": 3}, "a dataset's path must be text or a Path, got 3"),
        ({"images": 3}, "images must be a name or several, got 3"),
        ({"frame_shape": 3}, r"frame_shape must be \(channels, height, width\), got 3"),
        ({"held_out": "0.2"}, r"held_out must lie in \[0, 1\), got '0.2'"),
        ({"held_out": None}, r"held_out must lie in \[0, 1\), got None"),
    ],
)
def test_arguments_of_a_wrong_type_are_refused(arguments, sentence, states_only):
    with pytest.raises(pureward.InputError, match=sentence):
        read_dataset(**({"path": states_only} | arguments))


def test_a_dataset_cannot_make_its_environment(states_only, tmp_path):
    """Minari would import the entry point of an environment whose spaces are not stored."""
    shutil.copytree(states_only, tmp_path / "bad")
    spec = json.dumps({"id": "evil-v0", "entry_point": "evil:Env"})
    _metadata(env_spec=spec, observation_space=None)(tmp_path / "bad" / "data")
    with pytest.raises(pureward.InputError, match="must name the dataset's observation_space"):
        read_dataset(tmp_path / "bad")


def _jpeg_column(path, written):
    """Replace the images of the first episode by these bytes."""
    with h5py.File(path / "main_data.hdf5", "a") as file:
        del file["episode_0/observations"]
        file["episode_0/observations"] = np.stack([np.frombuffer(written, np.uint8)] * 6)


def test_postscript_among_images_is_not_run(tmp_path, monkeypatch):
    """Pillow would open it with Ghostscript."""
    ran = tmp_path / "ran"
    (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch {ran}\n")
    (tmp_path / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)  # else a cached path is used
    path = foreign(tmp_path / "theirs", IMAGE, pixels, jpeg=True)
    _jpeg_column(path, b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 64 64\n%%EndComments\n")
    with pytest.raises(pureward.InputError, match="episode 0: cannot be read .*image"):
        read_dataset(path)
    assert not ran.exists()


def test_an_image_that_declares_a_huge_size_is_refused(tmp_path):
    path = foreign(tmp_path / "theirs", IMAGE, pixels, jpeg=True)
    with h5py.File(path / "main_data.hdf5") as file:
        image = bytes(file["episode_0/observations"][0])
    size = image.index(b"\xff\xc0") + 5  # height and width in a JPEG header
    _jpeg_column(path, image[:size] + b"\xff\xf0\xff\xf0" + image[size + 4 :])
    with pytest.raises(pureward.InputError, match="episode 0: cannot be read .*exceeds limit"):
        read_dataset(path)
