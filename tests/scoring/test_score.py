"""`score`: tables that can be continued, copies that other libraries read, and films."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import av
import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import pureward
from pureward.cli import main
from pureward.files import locked_folder
from pureward.scoring import score as scoring
from pureward.scoring import table

FILMS = Path(__file__).parents[1] / "data/lerobot/films"
PICTURES = FILMS.with_name("pictures")
LENGTHS = (5, 7, 4)


def rows(folder):
    return pq.read_table(folder / "rewards.parquet").to_pydict()


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_table_has_a_row_per_frame(tmp_path, a_reward, capsys):
    folder, reward = a_reward("gated", 6, stack=2)
    out = tmp_path / "scores"
    main(["score", str(folder), str(FILMS), "--images", "front", "--out", str(out)])
    found = rows(out)
    assert list(found) == ["episode", "frame", "reward", "D", "r_phi"]
    # The image of the state after the last action is the last one again.
    assert found["episode"] == [n for n, length in enumerate(LENGTHS) for _ in range(length + 1)]
    assert found["frame"] == [t for length in LENGTHS for t in range(length + 1)]
    episode = pureward.read_episodes(FILMS, images="front", size=(32, 32))[1]
    stacks = torch.cat([episode.frames[[2]], episode.frames[[3]]], dim=1)
    at = found["frame"].index(3, 6)
    assert found["reward"][at] == pytest.approx(float(reward(stacks)), abs=1e-5)
    assert found["r_phi"][at] == pytest.approx(float(reward.predicted(stacks)), abs=1e-5)
    assert sorted(path.name for path in out.iterdir()) == ["rewards.parquet", "score.json"]
    assert json.loads((out / "score.json").read_text())["state"] == "finished"
    assert "3 episodes, 19 frames, mean reward" in capsys.readouterr().out


def test_the_rewards_of_the_dataset_are_compared(tmp_path, a_reward, capsys):
    folder, _ = a_reward("imitation")
    main(["score", str(folder), str(PICTURES), "--out", str(tmp_path / "scores")])
    assert "\ncorrelation with the dataset's rewards: " in capsys.readouterr().out


KILLED = """
import os, signal, sys
from pathlib import Path
from pureward.scoring import score, table
table._SAVE_EVERY = 0.0
honest = table.Table.write
def write(self, scored):
    for number, count in honest(self, scored):
        if number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        yield number, count
table.Table.write = write
score.score(sys.argv[1], sys.argv[2], Path(sys.argv[3]), images="front", device="cpu")
"""


@pytest.mark.slow
def test_a_killed_call_is_continued(tmp_path, a_reward, monkeypatch, capsys):
    folder, _ = a_reward("imitation")
    out, whole = tmp_path / "scores", tmp_path / "whole"
    command = [sys.executable, "-c", KILLED, str(folder), str(FILMS), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert json.loads((out / "score.json").read_text())["state"] == "unfinished"
    asked = []
    honest = scoring.score_episodes
    monkeypatch.setattr(
        scoring, "score_episodes", lambda *a: asked.append(list(a[2])) or honest(*a)
    )
    main(["score", str(folder), str(FILMS), "--images", "front", "--out", str(out)])
    assert asked == [[2]]
    assert "2 episodes had been scored before" in capsys.readouterr().out
    assert not (out / "parts").exists()
    scoring.score(folder, FILMS, whole, images="front", device="cpu")
    one, other = rows(out), rows(whole)
    assert one["frame"] == other["frame"]
    assert one["reward"] == pytest.approx(other["reward"], abs=1e-5)


def test_an_error_keeps_what_was_scored(tmp_path, a_reward):
    folder, _ = a_reward("imitation")
    data = Path(shutil.copytree(PICTURES, tmp_path / "data"))
    last = data / "data/chunk-000/file-002.parquet"
    good = last.read_bytes()
    last.write_bytes(b"")
    for _ in range(2):
        with pytest.raises(pureward.InputError, match="file-002.parquet: cannot be read"):
            scoring.score(folder, data, tmp_path / "scores", device="cpu")
    last.write_bytes(good)
    made = scoring.score(folder, data, tmp_path / "scores", device="cpu")
    assert made.continued <= 2
    assert rows(tmp_path / "scores")["frame"] == [t for n in LENGTHS for t in range(n + 1)]


def test_a_folder_holds_the_scores_of_one_reward_and_source(tmp_path, a_reward):
    folder, _ = a_reward("imitation")
    other, _ = a_reward("gated")
    out = tmp_path / "scores"
    scoring.score(folder, PICTURES, out, device="cpu")
    with pytest.raises(pureward.InputError, match="scores of another call: reward was"):
        scoring.score(other, PICTURES, out, device="cpu")
    with pytest.raises(pureward.InputError, match="source was .*pictures.* and is .*films"):
        scoring.score(folder, FILMS, out, images="front", device="cpu")
    with pytest.raises(pureward.InputError, match="must be a new folder or one of scores"):
        scoring.score(folder, PICTURES, tmp_path, device="cpu")
    with pytest.raises(pureward.InputError, match="has episodes 0 to 2, got 3 in films"):
        scoring.score(folder, PICTURES, out, films=[3], device="cpu")
    with pytest.raises(pureward.InputError, match=r"discount must lie in \[0, 1\), got -1"):
        scoring.score(folder, PICTURES, out, discount=-1, device="cpu")
    with pytest.raises(pureward.InputError, match="must lie outside of .*pictures"):
        scoring.score(folder, PICTURES, PICTURES / "scores", device="cpu")
    refused = pytest.raises(pureward.InputError, match="another is writing .*scores")
    with locked_folder(out), refused:
        scoring.score(folder, PICTURES, out, device="cpu")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"out": None}, "out must be text, got None; name a folder"),
        ({"films": 3}, "films must be a list of episodes' numbers, got 3"),
        ({"films": ["0"]}, "films must be a list of episodes' numbers, got"),
        ({"discount": "0.9"}, r"discount must lie in \[0, 1\), got '0.9'"),
        ({"copy": "no"}, "copy must be true or false, without quotes, got 'no'"),
    ],
)
def test_a_setting_of_another_type_is_refused(tmp_path, a_reward, settings, said):
    folder, _ = a_reward("imitation")
    with pytest.raises(pureward.InputError, match=said):
        scoring.score(folder, PICTURES, **({"out": tmp_path, "device": "cpu"} | settings))


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_read(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(pureward.InputError, match="must be a folder that can be written"):
        scoring.score("not read", "not read", tmp_path / "file")


def test_scores_of_other_episodes_of_the_same_path_are_refused(tmp_path, a_reward):
    folder, _ = a_reward("imitation")
    source, out = tmp_path / "one.npy", tmp_path / "scores"
    np.save(source, np.full((5, 32, 32, 3), 9, np.uint8))
    scoring.score(folder, source, out, device="cpu")
    before = contents(out)
    np.save(source, np.full((5, 32, 32, 3), 99, np.uint8))
    with pytest.raises(pureward.InputError, match="scores of other episodes than .*one.npy has"):
        scoring.score(folder, source, out, device="cpu")
    assert contents(out) == before
    about = json.loads((out / "score.json").read_text())
    del about["data"]  # as the first scores were stored
    (out / "score.json").write_text(json.dumps(about))
    scoring.score(folder, source, out, device="cpu")


def test_a_dataset_is_scored_by_its_path(tmp_path, a_reward):
    folder, _ = a_reward("imitation")
    with pytest.raises(pureward.InputError, match="by its path, got Dataset; name its folder"):
        scoring.score(folder, pureward.read_episodes(PICTURES), tmp_path / "out", device="cpu")


def test_a_call_that_scored_nothing_does_not_keep_the_folder(tmp_path, a_reward):
    folder, _ = a_reward("imitation")
    with pytest.raises(pureward.InputError, match="a frame here has 2 images"):
        scoring.score(folder, FILMS, tmp_path / "s", images=("front", "wrist"), device="cpu")
    made = scoring.score(folder, FILMS, tmp_path / "s", images="front", device="cpu")
    assert made.continued == 0


def test_the_cameras_are_those_of_the_reward_in_its_order(tmp_path, a_reward, capsys):
    folder, _ = a_reward("imitation", 6, stack=1, images=("wrist", "front"))
    words = ["score", str(folder), str(FILMS), "--out", str(tmp_path / "scores")]
    for swapped in (["front", "wrist"], ["observation.images.front", "wrist"]):
        with pytest.raises(SystemExit, match="2"):
            main([*words, "--images", *swapped])
        assert (
            "images must be in the order that the reward was trained on, ['wrist', 'front'], got "
            f"['front', 'wrist'] of {FILMS}; choose --images wrist front"
        ) in capsys.readouterr().err
    assert not (tmp_path / "scores").exists()
    main(words)
    assert "a reward of RGB images of 2 cameras (wrist, front)\n" in capsys.readouterr().out
    # Rewards saved before have no names: images as they are given.
    unnamed, reward = a_reward("imitation", 6, stack=1)
    out = tmp_path / "unnamed"
    scoring.score(unnamed, FILMS, out, images=("front", "wrist"), device="cpu")
    assert rows(tmp_path / "scores")["reward"] != pytest.approx(rows(out)["reward"], abs=1e-5)
    ours = pureward.read_episodes(FILMS, images=("wrist", "front"), size=(32, 32))[0].frames[:]
    assert rows(tmp_path / "scores")["reward"][:6] == pytest.approx(reward(ours).tolist(), abs=1e-5)


def test_an_online_reward_saves_the_names_of_its_data(tmp_path):
    data = pureward.read_episodes(FILMS, images=("wrist", "front"), size=(32, 32))
    reward = pureward.OnlineReward(data, prior=0.5, stack=2, device="cpu")
    reward.save(tmp_path)
    assert pureward.load_reward(tmp_path).spec.images == ("wrist", "front")


def test_cameras_of_other_names_are_chosen_by_the_caller(tmp_path, a_reward):
    folder, _ = a_reward("imitation", 6, stack=1, images=("top", "side"))
    chosen = scoring.score(folder, FILMS, tmp_path / "a", images=("wrist", "front"), device="cpu")
    assert len(chosen.scores) == 3
    with pytest.raises(pureward.InputError, match="unknown image 'top'; choose .* or --images"):
        scoring.score(folder, FILMS, tmp_path / "b", device="cpu")
    with pytest.raises(pureward.InputError, match=r"\(top, side\), .* 1 image; .* in the import"):
        scoring.score(folder, PICTURES, tmp_path / "c", device="cpu")
    one, _ = a_reward("imitation", stack=1, images=("top",))
    assert len(scoring.score(one, PICTURES, tmp_path / "d", device="cpu").scores) == 3


def test_imported_cameras_keep_their_names(tmp_path, a_reward):
    folder, _ = a_reward("imitation", 6, stack=1, images=("wrist", "front"))
    for name, images in (("good", ("wrist", "front")), ("swapped", ("front", "wrist"))):
        made = pureward.import_episodes(FILMS, tmp_path / name, images=images)
        assert made.images == images
    made = scoring.score(folder, tmp_path / "good", tmp_path / "a", copy=True, device="cpu")
    assert pureward.read_episodes(tmp_path / "a/relabelled").images == ("wrist", "front")
    assert len(made.scores) == 3
    with pytest.raises(
        pureward.InputError, match=r"got \['front', 'wrist'\] of .*swapped.* in the import"
    ):
        scoring.score(folder, tmp_path / "swapped", tmp_path / "b", device="cpu")


@pytest.mark.parametrize("damage", ["gap", "cut"])
def test_damaged_parts_are_refused(damage, tmp_path, a_reward, monkeypatch):
    folder, _ = a_reward("imitation")
    out = tmp_path / "scores"
    monkeypatch.setattr(table, "_SAVE_EVERY", 0.0)
    monkeypatch.setattr(table.Table, "finish", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        scoring.score(folder, PICTURES, out, device="cpu")
    parts = sorted((out / "parts").iterdir())
    assert len(parts) == 3
    if damage == "gap":
        parts[1].unlink()
    else:
        parts[1].write_bytes(parts[1].read_bytes()[:-20])
    with pytest.raises(pureward.InputError, match="must begin with episode 1|cannot be read"):
        scoring.score(folder, PICTURES, out, device="cpu")


# Copies.


@pytest.mark.parametrize("source", [FILMS, PICTURES], ids=lambda path: path.name)
def test_a_lerobot_copy_differs_in_its_rewards_alone(source, tmp_path, a_reward):
    folder, _ = a_reward("imitation")
    before = contents(source)
    made = scoring.score(folder, source, tmp_path / "out", images="front", copy=True, device="cpu")
    assert contents(source) == before
    copy = tmp_path / "out/relabelled"
    for number, (one, other) in enumerate(
        zip(*(pureward.read_episodes(p, images="front") for p in (copy, source)), strict=True)
    ):
        assert one.rewards.tolist() == made.scores.of(number)["reward"][1:].tolist()
        assert torch.equal(one.frames[:], other.frames[:])
        assert torch.equal(one.actions, other.actions)
        assert (one.split, one.terminated) == (other.split, other.terminated)
    for name in ("data/chunk-000/file-000.parquet", "meta/episodes/chunk-000/file-000.parquet"):
        one, other = (pq.read_table(p / name) for p in (copy, source))
        assert one.column_names == other.column_names
        assert one.schema.types == other.schema.types
        same = [n for n in one.column_names if "next.reward" not in n]
        assert one.select(same).equals(other.select(same))
    every = np.concatenate([made.scores.of(number)["reward"][1:] for number in range(3)])
    stats = json.loads((copy / "meta/stats.json").read_text())["next.reward"]
    assert stats["count"] == [16]
    assert stats["mean"][0] == pytest.approx(every.mean(), abs=1e-6)
    told = pq.read_table(copy / "meta/episodes/chunk-000/file-000.parquet")
    highest = told.column("stats/next.reward/max").to_pylist()
    assert highest[0][0] == pytest.approx(max(made.scores.of(0)["reward"][1:]), abs=1e-6)


def test_a_lerobot_dataset_without_rewards_gets_the_feature(tmp_path, a_reward):
    folder, _ = a_reward("imitation")
    data = Path(shutil.copytree(PICTURES, tmp_path / "data"))
    for file in data.glob("data/*/*.parquet"):
        read = pq.read_table(file).drop_columns(["next.reward"])
        told = json.loads(read.schema.metadata[b"huggingface"])
        del told["info"]["features"]["next.reward"]
        pq.write_table(read.replace_schema_metadata({"huggingface": json.dumps(told)}), file)
    about = json.loads((data / "meta/info.json").read_text())
    del about["features"]["next.reward"]
    (data / "meta/info.json").write_text(json.dumps(about))
    assert not pureward.read_episodes(data)[0].rated
    scoring.score(folder, data, tmp_path / "out", copy=True, device="cpu")
    copy = tmp_path / "out/relabelled"
    assert [e.rated for e in pureward.read_episodes(copy)] == [True] * 3
    feature = json.loads((copy / "meta/info.json").read_text())["features"]["next.reward"]
    assert feature == {"dtype": "float32", "shape": [1], "names": None}
    schema = pq.read_schema(copy / "data/chunk-000/file-000.parquet")
    told = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
    assert told["next.reward"] == {"dtype": "float32", "_type": "Value"}


@pytest.mark.parametrize("dtype", [np.float64, np.int64, None])
def test_a_robomimic_copy_differs_in_its_rewards_alone(dtype, tmp_path, a_reward):
    folder, _ = a_reward("imitation")
    path = tmp_path / "x.hdf5"
    with h5py.File(path, "w") as file:
        file.create_group("data").attrs["env_args"] = '{"env_kwargs": {"control_freq": 20}}'
        for demo, length in (("demo_0", 4), ("demo_10", 5), ("demo_2", 6)):
            group = file.create_group(f"data/{demo}")
            group["obs/image"] = np.full((length, 24, 32, 3), length * 30, np.uint8)
            group["actions"] = np.zeros((length, 2))
            if dtype is not None:
                group["rewards"] = np.ones(length, dtype)
    before = path.read_bytes()
    made = scoring.score(folder, path, tmp_path / "out", copy=True, device="cpu")
    assert path.read_bytes() == before
    assert pureward.read_episodes(path).fps == 20.0
    with h5py.File(tmp_path / "out/relabelled.hdf5") as file:
        for number, demo in enumerate(("demo_0", "demo_2", "demo_10")):
            wanted = made.scores.of(number)["reward"][1:]
            assert np.allclose(file[f"data/{demo}/rewards"][()], wanted)
            assert (file[f"data/{demo}/obs/image"][()] == len(wanted) * 30).all()
            assert not np.allclose(wanted, 1.0)


def test_other_formats_are_copied_to_our_own(tmp_path, a_reward):
    folder, _ = a_reward("imitation")
    images = np.random.default_rng(0).integers(0, 256, (6, 40, 30, 3), dtype=np.uint8)
    np.save(tmp_path / "x.npy", images)
    made = scoring.score(folder, tmp_path / "x.npy", str(tmp_path / "out"), copy=True, device="cpu")
    (episode,) = pureward.read_episodes(tmp_path / "out/relabelled", size=None)
    assert torch.equal(episode.frames[:], torch.from_numpy(images).permute(0, 3, 1, 2))
    assert episode.rewards.tolist() == made.scores.of(0)["reward"][1:].tolist()
    assert episode.rated


def test_terminal_steps_are_paid_for_the_absorbing_state(tmp_path, a_reward):
    """All fixtures end in a terminal state: r + γ r' / (1 − γ) with r' of a black frame."""
    folder, reward = a_reward("imitation", absorbing=True)
    with pytest.raises(pureward.InputError, match="needs the discount of the RL library"):
        scoring.score(folder, PICTURES, tmp_path / "out", copy=True, device="cpu")
    assert not (tmp_path / "out").exists()
    options = {"copy": True, "discount": 0.9, "device": "cpu"}
    made = scoring.score(folder, PICTURES, tmp_path / "out", **options)
    black = float(reward(torch.zeros(1, 3, 32, 32, dtype=torch.uint8)))
    episode = pureward.read_episodes(tmp_path / "out/relabelled")[0]
    values = made.scores.of(0)["reward"][1:]
    assert episode.rewards[:-1].tolist() == values[:-1].tolist()
    assert float(episode.rewards[-1]) == pytest.approx(values[-1] + 9.0 * black, rel=1e-4)
    assert scoring.score(folder, PICTURES, tmp_path / "out", **options).files == made.files
    scoring.score(folder, PICTURES, tmp_path / "out", device="cpu")  # keeps what the copy has
    with pytest.raises(pureward.InputError, match="made with discount 0.9, got 0.99"):
        scoring.score(folder, PICTURES, tmp_path / "out", **options | {"discount": 0.99})


# Films.


@pytest.mark.parametrize("kind", ["gated", "imitation", "regression"])
def test_a_film_shows_every_step(kind, tmp_path, a_reward):
    folder, _ = a_reward(kind)
    out = tmp_path / "out"
    made = scoring.score(folder, PICTURES, out, films=[1, 2], device="cpu")
    assert made.files[1:] == [out / "episode-1.mp4", out / "episode-2.mp4"]
    with av.open(str(out / "episode-1.mp4")) as container:
        assert container.streams.video[0].average_rate == 10
        shown = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(shown) == 7
    # The picture's grey level is that of the arrival frame: 10 + 60 · 1 + 8 · frame.
    middle = [image[100:150, 350:400].mean() for image in shown]
    assert middle == pytest.approx([70 + 8 * t for t in (1, 2, 3, 4, 5, 6, 6)], abs=4)
    colour = shown[3].astype(int)
    red = (colour[..., 0] - colour[..., 1:].max(-1) > 80).any(1)  # rows of the cursor
    assert red.sum() > 50
    assert not red[:270].any()  # the picture, and the title of the curves
    assert not red[-20:].any()  # the label of their axis


def test_a_film_of_data_without_rewards(tmp_path, a_reward):
    folder, _ = a_reward("gated")
    np.save(tmp_path / "x.npy", np.zeros((6, 32, 32, 3), np.uint8))
    scoring.score(folder, tmp_path / "x.npy", tmp_path / "out", films=[0], device="cpu")
    assert (tmp_path / "out/episode-0.mp4").stat().st_size > 1000
