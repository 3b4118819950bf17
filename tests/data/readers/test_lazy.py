"""Episodes are opened quickly, and their frames are not all in memory at once."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import pureward
from pureward.data import lazy
from pureward.data.episodes import Episode
from pureward.data.lazy import Images, LazyEpisodes, LazyFrames
from pureward.data.readers import arrays, lerobot

# Peak memory of a process beyond what it needs to read a single frame.
MEASURE = """
import sys, pureward
def peak():  # getrusage would include the peak of the process that started this one
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
frames = pureward.read_episodes(sys.argv[1], size=None)[0].frames
frames[:1]
before = peak()
total = sum(len(clip) for clip in frames.clips())
print(total, peak() - before)
"""


def test_a_file_larger_than_the_memory_in_use_is_read_in_clips(tmp_path):
    """30,000 frames of 64 × 64 are 369 MB; the file is sparse."""
    shape = (30_000, 64, 64, 3)
    np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.uint8, shape)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path / "x.npy")],
        capture_output=True,
        text=True,
        timeout=300,
    )
    total, kilobytes = map(int, done.stdout.split())
    assert total == 30_000
    assert kilobytes < 250_000, done.stderr


def _lerobot(folder, episodes, steps):
    """A LeRobot dataset of many episodes, without its images."""
    feature = {"dtype": "image", "shape": [64, 64, 3]}
    told = {
        "codebase_version": "v3.0",
        "fps": 10,
        "total_episodes": episodes,
        "total_frames": episodes * steps,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "features": {"observation.images.front": feature, "next.reward": {"dtype": "float32"}},
    }
    numbers, zeros = np.arange(episodes), np.zeros(episodes, np.int64)
    for part in ("meta/episodes/chunk-000", "data/chunk-000"):
        (folder / part).mkdir(parents=True)
    (folder / "meta/info.json").write_text(json.dumps(told))
    listed = {"episode_index": numbers, "length": np.full(episodes, steps)}
    listed |= {"data/chunk_index": zeros, "data/file_index": zeros}
    pq.write_table(pa.table(listed), folder / "meta/episodes/chunk-000/file-000.parquet")
    rows = {
        "episode_index": numbers.repeat(steps),
        "timestamp": np.tile(np.arange(steps) / 10, episodes),
        "next.reward": np.tile(np.arange(steps, dtype=np.float32), episodes),
    }
    images = pa.array([{"bytes": b"", "path": ""}] * (episodes * steps))
    table = pa.table(rows | {"observation.images.front": images})
    pq.write_table(table, folder / "data/chunk-000/file-000.parquet")
    return folder


def test_ten_thousand_episodes_are_opened_without_reading_their_rows(tmp_path, monkeypatch):
    folder = _lerobot(tmp_path / "many", 10_000, 10)
    monkeypatch.setattr(lerobot, "_rows", None)  # would raise if it were called
    dataset = pureward.read_episodes(folder)
    assert len(dataset) == 10_000
    assert len(dataset.split("held-out")) == 2_000
    assert len(dataset.split("train")[100:105]) == 5


@pytest.mark.parametrize("several", [False, True])
def test_only_the_rows_that_are_asked_for_are_read(several, tmp_path, monkeypatch):
    images = np.arange(50, dtype=np.uint8)[:, None, None, None].repeat(8, 1).repeat(8, 2)
    images = images.repeat(3, 3)
    np.save(tmp_path / "x.npy", np.stack([images + 100, images]) if several else images)
    monkeypatch.setattr(lazy, "BLOCK_BYTES", 8 * 8 * 3)
    *_, episode = pureward.read_episodes(tmp_path / "x.npy", size=None)
    blocks, honest = [], arrays.per_block
    monkeypatch.setattr(arrays, "per_block", lambda *a: blocks.append(1) or honest(*a))
    assert episode.frames[20:23][:, 0, 0, 0].tolist() == [20, 21, 22]
    assert len(blocks) == 3, "each of one row"


def _frames(count=3, **options):
    camera = Images(
        count=count,
        shape=(8, 8, 3),
        read=lambda rows: (np.full((1, 8, 8, 3), row, "u1") for row in rows),
    )
    return LazyFrames([camera], where="here", **options)


def test_an_episode_takes_frames_on_disk():
    episode = Episode(rewards=torch.zeros(2), frames=_frames())
    assert torch.equal(episode.frames[:][:, 0, 0, 0], torch.tensor([0, 1, 2]).byte())
    with pytest.raises(pureward.InputError, match="frames must have 4 rows .* got 3"):
        Episode(rewards=torch.zeros(3), frames=_frames())
    repeated = _frames(repeat_last=True)
    assert repeated[:][:, 0, 0, 0].tolist() == [0, 1, 2, 2]
    assert repeated[[3]][:, 0, 0, 0].tolist() == [2]
    assert repeated[[3, 2, 0]][:, 0, 0, 0].tolist() == [2, 2, 0]


def test_cameras_must_fit_together():
    small, large = (
        Images(count=3, shape=shape, read=lambda rows: iter(())) for shape in ((8, 8, 3), (9, 8, 3))
    )
    with pytest.raises(pureward.InputError, match="here: images must be of one size.*; choose one"):
        LazyFrames([small, large], where="here")
    assert LazyFrames([small, large], where="here", size=(64, 64)).shape == (3, 6, 64, 64)
    with pytest.raises(pureward.InputError, match="here: 3 images were expected, and 0 can be"):
        LazyFrames([small], where="here")[:]
    shorter = Images(count=2, shape=(8, 8, 3), read=lambda rows: iter(()))
    with pytest.raises(pureward.InputError, match=r"same number of images, .* got \[3, 2\]"):
        LazyFrames([small, shorter], where="here")


def test_episodes_are_read_one_by_one():
    read = []
    episode = Episode(rewards=torch.zeros(2))
    episodes = LazyEpisodes(["train", "failure", "train"], lambda n: read.append(n) or episode)
    assert (len(episodes), len(episodes.split("train")), len(episodes[1:])) == (3, 2, 2)
    assert read == []
    assert episodes.split("train")[1] is episode
    assert episodes[-3] is episode
    assert list(episodes[1:]) == [episode, episode]
    assert read == [2, 0, 1, 2]
    with pytest.raises(IndexError):
        episodes[3]
