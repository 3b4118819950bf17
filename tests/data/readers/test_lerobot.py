"""LeRobot datasets of version 3, written by the real library (tests/data/lerobot/make.py)."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import pureward

FIXTURES = Path(__file__).parents[1] / "lerobot"
LENGTHS = (5, 7, 4)
FRONT = "videos/observation.images.front/chunk-000/file-000.mp4"


def level(episode, frame):
    """The grey level of an image of the fixtures."""
    return 10 + 60 * episode + 8 * frame


def shown(frames):
    return frames[:].float().mean((2, 3))


@pytest.mark.parametrize(("name", "error"), [("films", 2.0), ("pictures", 0.0)])
def test_every_frame_is_the_one_of_its_row(name, error):
    """Films have several episodes in a file; pictures have a file for each episode."""
    dataset = pureward.read_episodes(FIXTURES / name, images="front", size=None)
    assert dataset.lossy == (name == "films")
    for number, (episode, length) in enumerate(zip(dataset, LENGTHS, strict=True)):
        assert episode.frames.shape == (length + 1, 3, 64, 96)
        # The state after the last action is not stored: the last image is repeated.
        frames = [*range(length), length - 1]
        wanted = torch.tensor([level(number, frame) for frame in frames])
        assert (shown(episode.frames) - wanted[:, None]).abs().max() <= error
        assert torch.equal(episode.frames[[length, 2, 3]], episode.frames[:][[length, 2, 3]])


def test_columns():
    dataset = pureward.read_episodes(FIXTURES / "films", images=("wrist", "front"))
    second, third = dataset[1], dataset[2]
    assert second.frames.shape == (8, 6, 64, 64)
    wrist, front = shown(second.frames)[:, 0], shown(second.frames)[:, 3]
    assert (wrist - front - 20).abs().max() < 3
    assert second.rewards.tolist() == [frame / 8 for frame in range(7)]
    assert second.success.tolist() == [False] * 6 + [True]
    assert (second.rated, second.succeeds, third.succeeds) == (True, True, False)
    assert second.actions.tolist() == [[frame, -1] for frame in range(7)]
    assert second.state.tolist() == [[1, frame] for frame in (*range(7), 6)]
    assert second.terminated


def test_cameras_and_splits(tmp_path):
    with pytest.raises(pureward.InputError, match="one image, got .*front.*wrist.*; say which"):
        pureward.read_episodes(FIXTURES / "films")
    with pytest.raises(pureward.InputError, match=r"'top'; choose from \['front', .* --images"):
        pureward.read_episodes(FIXTURES / "films", images="top")
    named = pureward.read_episodes(FIXTURES / "films", images="observation.images.wrist")
    assert [e.split for e in named].count("held-out") == 1
    folder = copy(tmp_path, "pictures")
    announce(splits={"train": "0:1", "val": "1:3"})(folder)
    splits = [e.split for e in pureward.read_episodes(folder)]
    assert splits == ["train", "held-out", "held-out"]


def test_two_columns_of_one_short_name_are_told_apart(tmp_path):
    folder = copy(tmp_path)
    features = json.loads((folder / "meta/info.json").read_text())["features"]
    announce(features=features | {"front": features["observation.images.front"]})(folder)
    both = r"got \['observation.images.front', .*'front'\]; say which"
    with pytest.raises(pureward.InputError, match=both):
        pureward.read_episodes(folder)
    named = pureward.read_episodes(folder, images="observation.images.front")
    whole = pureward.read_episodes(FIXTURES / "films", images="front")
    assert torch.equal(named[0].frames[:], whole[0].frames[:])


# Bad datasets.


def copy(tmp_path, name="films"):
    return Path(shutil.copytree(FIXTURES / name, tmp_path / name))


def announce(**changes):
    def damage(folder):
        file = folder / "meta/info.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return damage


def column(file, name, change):
    """Change a column of a parquet file."""

    def damage(folder):
        table = pq.read_table(folder / file)
        values = change(table.column(name).to_pylist())
        at = table.column_names.index(name)
        if values is None:
            table = table.drop_columns([name])
        else:
            table = table.set_column(at, name, pa.array(values))
        pq.write_table(table, folder / file)

    return damage


def truncate(file, keep):
    def damage(folder):
        data = (folder / file).read_bytes()
        (folder / file).write_bytes(data[: int(keep * len(data))])

    return damage


def _bomb(folder):
    """A million equal rows take a few kilobytes."""
    first = pq.read_table(folder / DATA).slice(0, 1)
    names = ("episode_index", "timestamp", "next.reward", "next.success", "next.done")
    rows = {name: pa.repeat(first.column(name)[0], 10**6) for name in names}
    pairs = pa.FixedSizeListArray.from_arrays(pa.repeat(pa.scalar(0.0), 2 * 10**6), 2)
    rows |= {"action": pairs, "observation.state": pairs}
    pq.write_table(pa.table(rows), folder / DATA, compression="zstd")


def _link(folder):
    (folder / FRONT).rename(folder.parent / "secret.mp4")
    (folder / FRONT).symlink_to(folder.parent / "secret.mp4")


def _linked_folder(folder):
    (folder / "meta/episodes/chunk-000").rename(folder.parent / "elsewhere")
    (folder / "meta/episodes/chunk-000").symlink_to(folder.parent / "elsewhere")


def _other_rows(folder):
    shutil.rmtree(folder / "data")
    shutil.copytree(FIXTURES / "pictures/data", folder / "data")


DATA, EPISODES = "data/chunk-000/file-000.parquet", "meta/episodes/chunk-000/file-000.parquet"
DAMAGES = {
    "another version": (announce(codebase_version="v2.1"), "codebase_version must be v3.0, got"),
    "no rate": (announce(fps=0), "info.json: fps must be a number above 0, got 0"),
    "another rate": (announce(fps=30), "announces 30 frames per second, and rows are 0.1 s apart"),
    "more episodes": (announce(total_episodes=4), "announces 4 episodes, and 3 are listed here"),
    "many episodes": (announce(total_episodes=10**12), "and 3 are listed here"),
    "more frames": (announce(total_frames=17), "announces 17 frames, and the episodes have 16"),
    "a count of text": (
        announce(total_episodes="3"),
        "total_episodes must be a whole number above 0, got '3'",
    ),
    "no features": (announce(features={}), r"info.json: there must be one image, got \[\]|unknown"),
    "a path out of the folder": (
        announce(video_path="../{video_key}/x.mp4"),
        "a path must stay in the dataset's folder, got '../{video_key}/x.mp4'",
    ),
    "an absolute path": (announce(data_path="/etc/passwd"), "stay in the dataset's folder"),
    "a path that asks for attributes": (
        announce(data_path="{chunk_index.__class__}"),
        "cannot be read|must lie in",
    ),
    "a path with an unknown field": (
        announce(data_path="{secret}"),
        "a path may use .*chunk_index",
    ),
    "info of a list": (lambda f: (f / "meta/info.json").write_text("[]"), "codebase_version must"),
    "damaged info": (truncate("meta/info.json", 0.5), "info.json: cannot be read"),
    "no rows": (lambda f: (f / DATA).unlink(), "file-000.parquet: cannot be read"),
    "damaged rows": (truncate(DATA, 0.7), "file-000.parquet: cannot be read"),
    "damaged episodes": (truncate(EPISODES, 0.7), "file-000.parquet: cannot be read"),
    "no times": (column(DATA, "timestamp", lambda v: None), "must have a column 'timestamp'"),
    "other times": (
        column(DATA, "timestamp", lambda v: [t + 100 for t in v]),
        "frame at the time of every row, later than the one before, and has none at 100.000 s",
    ),
    "two rows at one time": (
        column(DATA, "timestamp", lambda v: [*v[:2], v[1], *v[3:]]),
        "frame at the time of every row, later than the one before, and has none at 0.100 s",
    ),
    "gaps": (
        column(DATA, "next.reward", lambda v: [None, *v[1:]]),
        "next.reward must have a value in every row",
    ),
    "text": (
        column(DATA, "next.reward", lambda v: ["x"] * len(v)),
        "values must be real numbers, got object",
    ),
    "NaN": (
        column(DATA, "next.reward", lambda v: [float("nan")] * len(v)),
        "episode 0: rewards must be finite",
    ),
    "other rows": (_other_rows, "episode 1 must have 7 rows in sequence, got 0"),
    "rows of other episodes": (
        column(DATA, "episode_index", lambda v: v[::-1]),
        # Its rows are at 0.6, 0, 0.1, 0.2 and 0.3 s, and the second is not after the first.
        "frame at the time of every row, later than the one before, and has none at 0.000 s",
    ),
    "longer episode": (
        column(EPISODES, "length", lambda v: [6, 6, 4]),
        "episode 0 must have 6 rows in sequence, got 5",
    ),
    "empty episode": (column(EPISODES, "length", lambda v: [0, 12, 4]), "length must be numbers"),
    "negative file": (
        column(EPISODES, "data/file_index", lambda v: [-1] * 3),
        "data/file_index must be numbers from 0",
    ),
    "episodes out of order": (
        column(EPISODES, "episode_index", lambda v: [2, 1, 0]),
        "out of order",
    ),
    "too many rows": (_bomb, "bytes cannot hold the .* values that it declares"),
    "no film": (lambda f: (f / FRONT).unlink(), "file-000.mp4: cannot be read"),
    "damaged film": (truncate(FRONT, 0.8), "file-000.mp4: .*(cut off|cannot be read)"),
    "a link to another folder": (_linked_folder, "chunk-000 must lie in .* and it links to"),
    "a link out of the folder": (_link, "file-000.mp4 must lie in .*films, and it links to"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_bad_dataset_is_refused_in_a_sentence(name, tmp_path):
    damage, sentence = DAMAGES[name]
    folder = copy(tmp_path)
    damage(folder)
    with pytest.raises(pureward.InputError, match=sentence) as caught:
        for episode in pureward.read_episodes(folder, images="front"):
            episode.frames[:]
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda v: [{"bytes": None, "path": "/etc/passwd"}] * len(v), "hold the image of row 0"),
        (lambda v: [{"bytes": b"%!PS", "path": ""}] * len(v), "episode 0: cannot be read|parquet:"),
        (lambda v: [1.0] * len(v), "must hold images as bytes, got double"),
    ],
)
def test_bad_images_in_rows_are_refused(change, sentence, tmp_path):
    folder = copy(tmp_path, "pictures")
    column(DATA, "observation.images.front", change)(folder)
    with pytest.raises(pureward.InputError, match=sentence):
        pureward.read_episodes(folder)[0].frames[:]
