"""Sketches beside the data: their format, their revisions, and the episodes that they rate."""

import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import pureward
from pureward.data.dataset import known_failures
from pureward.data.sketches import (
    ConflictError,
    Sketch,
    annotators,
    load_sketch,
    parse_sketch,
    save_sketch,
    sidecar,
)
from pureward.diagnostics.history import read_history
from pureward.errors import InputError
from pureward.rewards.config import RewardConfig
from synthetic import course, write_card, write_run

_ = None


@pytest.fixture
def data(tmp_path):
    """Three episodes of four steps."""
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(3):
        np.save(folder / f"{number}.npy", np.full((5, 8, 8, 3), 10 * number, np.uint8))
    return folder


def sketch(*rewards, success=(_, _, _, _), outcome="", revision=0) -> Sketch:
    return Sketch(rewards=rewards, success=success, outcome=outcome, revision=revision)


def test_a_saved_sketch_rates_its_episode_and_leaves_the_others_out(data):
    before = {path: path.read_bytes() for path in data.iterdir()}
    save_sketch(sidecar(data), "anna", 1, sketch(_, 0.2, _, 0.8))
    found = pureward.read_dataset(f"{data}.sketches")
    assert len(found) == 1
    # Gaps: the first value continues to the left, a straight line joins 0.2 and 0.8.
    assert found[0].rewards.tolist() == pytest.approx([0.2, 0.2, 0.5, 0.8])
    assert found[0].rated
    assert found[0].success is None
    assert int(found[0].frames[0, 0, 0, 0]) == 10
    assert {path: path.read_bytes() for path in data.iterdir()} == before


def test_two_people_are_averaged_and_each_can_be_read_alone(data):
    save_sketch(sidecar(data), "anna", 0, sketch(0.0, 0.0, 0.5, 1.0))
    save_sketch(sidecar(data), "ben", 0, sketch(0.5, 0.5, 0.5, 0.5))
    both = pureward.read_episodes(f"{data}.sketches")[0]
    assert both.rewards.tolist() == [0.25, 0.25, 0.5, 0.75]
    ben = pureward.read_episodes(f"{data}.sketches/ben")[0]
    assert ben.rewards.tolist() == [0.5] * 4


def test_marks_become_success_and_the_split_of_failures(data):
    save_sketch(sidecar(data), "anna", 0, sketch(0.1, 0.1, 0.9, 0.9, success=(_, False, True, _)))
    save_sketch(sidecar(data), "anna", 1, sketch(0.1, 0.1, 0.9, 0.9, outcome="success"))
    save_sketch(sidecar(data), "anna", 2, sketch(_, _, _, _, outcome="failure"))
    steps, whole, failed = pureward.read_episodes(f"{data}.sketches")
    assert steps.success.tolist() == [False, False, True, False]
    assert whole.success.tolist() == [False, False, False, True]  # solved at the end
    assert (failed.split, failed.succeeds, failed.rewards.sum()) == ("failure", False, 0)


def test_only_marked_sketches_are_known_failures(data):
    save_sketch(sidecar(data), "anna", 0, sketch(0.1, 0.1, 0.9, 0.9))
    learn = {"demonstrations": data, "failures": f"{data}.sketches", "prior": 0.5, "device": "cpu"}
    config = RewardConfig(risk="nnpnu")
    with pytest.raises(InputError, match=r"marked a failure, got none; mark one with the key f"):
        pureward.OnlineReward(**learn, config=config)
    opened = {**learn, "failures": pureward.read_episodes(f"{data}.sketches")}
    with pytest.raises(InputError, match=r"marked a failure, got none; mark one with the key f"):
        pureward.OnlineReward(**opened, config=config)
    save_sketch(sidecar(data), "anna", 2, sketch(_, _, _, _, outcome="failure"))
    pureward.OnlineReward(**learn, config=config)
    episodes = pureward.read_episodes(f"{data}.sketches")
    assert [e.split for e in known_failures(episodes)] == ["failure"]
    assert len(known_failures(pureward.read_episodes(data))) == 3  # no split: all


def test_a_run_on_sketches_is_compared_with_the_returns_of_the_dataset(tmp_path):
    data = write_card(tmp_path / "rated", train=90.0, failure=10.0)
    for number, folder in enumerate((f"{data}.sketches", f"{data}.sketches/anna")):
        run = write_run(tmp_path / f"{number}", "nn-purl", course(80.0), data=folder)
        assert (read_history(run).expert, read_history(run).failure) == (90.0, 10.0)


def test_people_who_disagree_make_no_failure(data):
    save_sketch(sidecar(data), "anna", 0, sketch(1.0, 1.0, 1.0, 1.0, outcome="success"))
    save_sketch(sidecar(data), "ben", 0, sketch(0.0, 0.0, 0.0, 0.0, outcome="failure"))
    assert pureward.read_episodes(f"{data}.sketches")[0].split != "failure"


def test_an_older_revision_is_refused_and_the_newer_one_stays(data):
    folder = sidecar(data)
    first = save_sketch(folder, "anna", 0, sketch(0.1, _, _, _))
    save_sketch(folder, "anna", 0, sketch(0.2, _, _, _, revision=first.revision))
    with pytest.raises(ConflictError) as conflict:
        save_sketch(folder, "anna", 0, sketch(0.3, _, _, _, revision=first.revision))
    assert (conflict.value.stored.rewards[0], conflict.value.stored.revision) == (0.2, 2)
    assert load_sketch(folder, "anna", 0) == conflict.value.stored


def test_of_writers_at_once_one_wins_each_revision(data):
    folder, won = sidecar(data), []

    def write(value):
        try:
            save_sketch(folder, "anna", 0, sketch(value, _, _, _))
        except ConflictError:
            return
        won.append(value)

    threads = [threading.Thread(target=write, args=(n / 8,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored = load_sketch(folder, "anna", 0)
    assert stored is not None
    assert (stored.rewards[0], stored.revision) == (won[0], 1)
    assert len(won) == 1


KILLED = """
import os, signal, sys
from pathlib import Path
from pureward import files
from pureward.data.sketches import Sketch, save_sketch
files._publish = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
sketch = Sketch(rewards=(0.9,) * 4, success=(None,) * 4, revision=1)
save_sketch(Path(sys.argv[1]), "anna", 0, sketch)
"""


def test_a_kill_while_saving_leaves_the_old_sketch_and_no_lock(data):
    folder = sidecar(data)
    save_sketch(folder, "anna", 0, sketch(0.1, 0.1, 0.1, 0.1))
    killed = subprocess.run([sys.executable, "-c", KILLED, str(folder)], timeout=60)
    assert killed.returncode == -9
    assert [path.name for path in (folder / "anna").glob(".partial*")]
    assert load_sketch(folder, "anna", 0) == sketch(0.1, 0.1, 0.1, 0.1, revision=1)
    save_sketch(folder, "anna", 0, sketch(0.2, 0.2, 0.2, 0.2, revision=1))
    assert [path.name for path in (folder / "anna").iterdir()] == ["episode-000000.json"]


@pytest.mark.parametrize("name", ["", "..", "a/b", "../x", "a" * 41, "a b", ".hidden", "é"])
def test_a_name_that_is_no_folder_is_refused(data, name):
    with pytest.raises(InputError, match="annotator's name must be 1 to 40 letters"):
        save_sketch(sidecar(data), name, 0, sketch(0.1, _, _, _))


def test_links_in_place_of_folders_and_files_are_refused(data, tmp_path):
    folder, outside = sidecar(data), tmp_path / "outside"
    outside.mkdir()
    folder.symlink_to(outside)
    with pytest.raises(InputError, match="must be a folder, and is a link"):
        save_sketch(folder, "anna", 0, sketch(0.1, _, _, _))
    folder.unlink()
    folder.mkdir()
    (folder / "anna").symlink_to(outside)
    with pytest.raises(InputError, match="must be a folder, and is a link"):
        save_sketch(folder, "anna", 0, sketch(0.1, _, _, _))
    assert annotators(folder) == []
    (folder / "ben").mkdir()
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps({"rewards": [1], "success": [None]}))
    (folder / "ben/episode-000000.json").symlink_to(secret)
    with pytest.raises(InputError, match="must be a regular file"):
        load_sketch(folder, "ben", 0)
    assert not list(outside.iterdir())


BAD = [
    ([], "must be a JSON object"),
    ({"rewards": [0.1], "success": []}, "lists of one length"),
    ({"rewards": [], "success": []}, "lists of one length"),
    ({"rewards": [1.5], "success": [None]}, "must lie in \\[0, 1\\]"),
    ({"rewards": [float("nan")], "success": [None]}, "must lie in \\[0, 1\\]"),
    ({"rewards": [True], "success": [None]}, "must lie in \\[0, 1\\]"),
    ({"rewards": ["<b>"], "success": [None]}, "must lie in \\[0, 1\\]"),
    ({"rewards": [0.1], "success": [1]}, "must be true, false or null"),
    ({"rewards": [0.1], "success": [None], "outcome": "won"}, "outcome must be"),
    ({"rewards": [0.1], "success": [None], "revision": -1}, "revision must be a count"),
]


@pytest.mark.parametrize(("value", "message"), BAD)
def test_what_is_no_sketch_is_refused(value, message):
    with pytest.raises(InputError, match=message):
        parse_sketch(value, "file")


def test_files_that_do_not_fit_the_data_are_named(data):
    folder = sidecar(data)
    with pytest.raises(InputError, match="not a dataset"):
        pureward.read_episodes(folder)
    folder.mkdir()
    with pytest.raises(InputError, match="sketch of at least one episode, got none; draw some"):
        pureward.read_episodes(folder)
    save_sketch(folder, "anna", 1, Sketch(rewards=(0.1,) * 9, success=(_,) * 9))
    with pytest.raises(InputError, match="episode 1: the sketch has 9 steps, and the episode 4"):
        pureward.read_episodes(folder)[0]
    save_sketch(folder, "anna", 7, sketch(0.1, 0.1, 0.1, 0.1))
    with pytest.raises(InputError, match="sketch of episode 7, and .* has 3"):
        pureward.read_episodes(folder)
    (folder / "anna/episode-000001.json").write_text("{")
    with pytest.raises(InputError, match="is not a sketch"):
        pureward.read_episodes(folder)
    os.rename(data, data.with_name("elsewhere"))
    with pytest.raises(InputError, match="which does not exist; bring it back"):
        pureward.read_episodes(folder)
