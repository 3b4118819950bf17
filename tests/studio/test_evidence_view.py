"""Runs on the page: curves, verdicts, episodes where reward and truth differ, and marks."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("starlette", reason="needs the extra studio")

import pureward
from pureward.envs.tasks import TASKS
from pureward.errors import InputError
from pureward.files import write_json
from pureward.rewards.config import RewardConfig
from pureward.rewards.learned import LearnedReward, RewardSpec
from pureward.rewards.network import NetworkConfig, ResidualCNN
from pureward.rewards.saved import save_reward
from pureward.runs.config_file import to_json
from pureward.studio import evidence
from pureward.studio.evidence import Runs, Search, thinned
from pureward.studio.server import _is_run
from pureward.studio.source import short_names
from synthetic import course, write_run
from tiny import SMALL_REWARD, tiny


def probed(final: float) -> list[dict]:
    late = {"success/train": 0.9, "mean/train": 0.8, "mean/as_trained": 0.7}
    return course(final, probe=late, train={"prior": 0.4, "prior/value": 0.3})


def test_a_source_has_one_colour_whichever_others_were_probed(tmp_path):
    given = {"a": ("train", "held_out", "failure"), "b": ("train", "failure")}
    paths = [
        write_run(
            tmp_path / name, "nn-pugail", course(1.0, probe={f"success/{s}": 0.5 for s in own})
        )
        for name, own in given.items()
    ]
    for path in paths:
        (line,) = Runs([path]).describe()
        (chart,) = (chart for chart in line["charts"] if chart["title"] == "P(success)")
        inks = {each["label"]: each["ink"] for each in chart["series"]}
        assert (inks["trained frames"], inks["failures"]) == ("accent", "bad")


def test_runs_of_one_name_are_shown_by_the_paths_that_tell_them_apart(tmp_path):
    names = ["rewards/mine", "runs/mine", "runs/other"]
    paths = [write_run(tmp_path / name, "gail", course(1.0)) for name in names]
    (line,) = Runs(paths).describe()
    assert sorted(run["name"] for run in line["runs"]) == ["other", "rewards/mine", "runs/mine"]


def test_the_shortest_end_of_a_path_that_tells_it_apart(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert short_names([Path("."), Path("/a/x/c"), Path("/b/x/c")]) == [
        tmp_path.name, "a/x/c", "b/x/c"
    ]  # fmt: skip
    assert short_names([Path("/c"), Path("/b/c"), Path("/b/c")]) == ["/c", "b/c", "b/c"]


def test_runs_that_differ_in_their_seed_are_one_line_with_an_interval(tmp_path):
    paths = [write_run(tmp_path / f"s{n}", "nn-pugail", probed(10.0 + n), seed=n) for n in (0, 1)]
    (line,) = Runs(paths).describe()
    assert line["label"] == "reach, nn-pugail (2 seeds)"
    assert [run["name"] for run in line["runs"]] == ["s0", "s1"]
    charts = {chart["title"]: chart["series"] for chart in line["charts"]}
    (true,) = charts["Return"]
    assert true["x"] == [200, 400, 600, 800, 1000]
    assert true["y"][-1] == 10.5
    # Two runs: 12.706 times the standard error, 0.5.
    assert true["half"][-1] == pytest.approx(12.706 * 0.5, abs=0.001)
    assert {each["label"]: each["y"][0] for each in charts["Class prior η"]} == {
        "used": 0.4,
        "estimated": 0.3,
    }
    views = charts["Mean D of trained frames"]
    assert {each["label"]: each["y"][0] for each in views} == {"as trained": 0.7, "as scored": 0.8}


def test_a_run_in_training_is_read_again_when_it_has_new_lines(tmp_path):
    path = write_run(tmp_path / "run", "nn-pugail", course(10.0))
    runs = Runs([path])
    assert runs.describe()[0]["runs"][0]["steps"] == 1000
    assert runs.histories()[0] is runs.histories()[0]  # not read again
    with (path / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"kind": "eval", "step": 2000, "return": 50.0}) + "\n")
    (line,) = runs.describe()
    assert line["runs"][0]["steps"] == 2000
    assert line["charts"][0]["series"][0]["y"][-1] == 50.0


def test_a_run_that_was_deleted_or_damaged_leaves_the_others(tmp_path):
    kept, other = (write_run(tmp_path / name, "gail", course(10.0)) for name in ("a", "b"))
    runs = Runs([other, kept])

    def shown():
        return [run["name"] for line in runs.describe() for run in line["runs"]]

    assert shown() == ["b", "a"]
    other.rename(tmp_path / "gone")
    assert shown() == shown() == ["a"]
    (tmp_path / "gone").rename(other)
    assert shown() == ["b", "a"]
    (other / "config.json").unlink()
    (other / "metrics.jsonl").unlink()
    assert shown() == ["a"]
    kept.rename(tmp_path / "gone")
    assert shown() == []


def test_long_curves_are_thinned_and_keep_their_peaks():
    values = np.zeros(10_000)
    values[[1234, 8765]] = 5.0, -3.0
    kept = thinned(values, 400)
    assert len(kept) <= 400
    assert {1234, 8765} <= set(kept.tolist())
    assert thinned(np.arange(3), 400).tolist() == [0, 1, 2]


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="config"):
        Runs([tmp_path])


@pytest.fixture(autouse=True)
def _few_episodes(monkeypatch):
    monkeypatch.setattr(evidence, "_EPISODES", 4)


@pytest.fixture(scope="module")
def run(short_episodes, tmp_path_factory):
    """A run of `nn-purl` whose reward is random."""
    path = tmp_path_factory.mktemp("run")
    pureward.train(tiny(path, env_steps=40, warmup_steps=20))
    network = NetworkConfig(frame_channels=3, stage_channels=(4, 4), stage_blocks=0)
    torch.manual_seed(0)
    spec = RewardSpec(reward="gated", network=network, members=1, ceiling=1.0)
    reward = LearnedReward(spec, discriminator=ResidualCNN(network), members=[ResidualCNN(network)])
    save_reward(reward, path / "reward")
    made = tiny(path, method="nn-purl", reward=RewardConfig(ceiling=1.0), annotations="somewhere")
    write_json(path / "config.json", to_json(made))
    return path


def searched(run) -> Search:
    search = Search(run)
    search._work()  # in this thread
    assert search.describe()["error"] == ""
    return search


def test_episodes_are_scored_sorted_and_shown(run):
    search = searched(run)
    rows = search.describe()["episodes"]
    assert len(rows) == 4
    gaps = [row["predicted_return"] - row["true_return"] for row in rows]
    assert gaps == sorted(gaps, reverse=True)
    first = search.episode(rows[0]["number"])
    steps = TASKS["reach"].horizon
    assert (first["steps"], first["count"]) == (steps, steps + 1)
    assert set(first["tracks"]) == {"true r", "paid", "r_φ", "D"}
    assert sum(first["tracks"]["true r"]) == pytest.approx(rows[0]["true_return"], abs=1e-3)
    assert search.strip(0, 0)[:4] == b"\x89PNG"
    with pytest.raises(InputError, match="no episode 4"):
        search.episode(4)


def test_another_runs_reward_scores_the_same_episode(run, tmp_path):
    search = searched(run)
    assert search.compare(0, run) == {
        name: track for name, track in search.episode(0)["tracks"].items() if name != "true r"
    }
    network = NetworkConfig(frame_channels=6, stage_channels=(4, 4), stage_blocks=0)
    spec = RewardSpec(reward="imitation", network=network, ceiling=1.0, stack=2)
    save_reward(LearnedReward(spec, discriminator=ResidualCNN(network)), tmp_path / "stacked")
    compared = search.compare(0, tmp_path / "stacked")
    assert set(compared) == {"paid", "D"}
    paid = [min(1.0, -np.log1p(-share)) for share in compared["D"]]
    assert compared["paid"] == pytest.approx(paid, abs=1e-4)
    larger = NetworkConfig(frame_channels=3, height=32, width=32, stage_channels=(4, 4))
    spec = RewardSpec(reward="imitation", network=larger, ceiling=1.0)
    save_reward(LearnedReward(spec, discriminator=ResidualCNN(larger)), tmp_path / "small")
    with pytest.raises(InputError, match="the reward sees frames of 32×32, got 64×64"):
        search.compare(0, tmp_path / "small")


@pytest.mark.slow
def test_marks_become_datasets_and_can_be_taken_back(run, monkeypatch):
    search = searched(run)
    failures = run / "marked/failures"
    assert search.mark(2, "failure") == {
        "failure": "1 failure is marked; one is enough. To train on failures too, add: "
        f"--failures {failures} --reward.risk nnpnu"
    }
    assert search.mark(3, "failure")["failure"].startswith("2 failures are marked")
    (two, three) = pureward.read_episodes(failures, size=None)
    steps = TASKS["reach"].horizon
    assert (two.split, len(two), two.frames.shape[0]) == ("failure", steps, steps + 1)
    assert torch.equal(three.frames[:], search._scored[3].episode.frames)
    assert set(search.mark(3, "success")) == {"failure", "success"}
    assert len(pureward.read_episodes(failures)) == 1
    again = searched(run)  # another search keeps the marks of the first
    assert again.describe()["marked"]["failure"].startswith("1 failure is marked")
    again.mark(0, "failure")
    assert len(pureward.read_episodes(failures)) == 2
    again.mark(0, "")
    assert len(pureward.read_episodes(failures)) == 1
    rows = {row["number"]: row["mark"] for row in again.describe()["episodes"]}
    assert rows == {0: "", 1: "", 2: "failure", 3: "success"}
    again.mark(2, "failure")  # not twice
    assert len(pureward.read_episodes(failures)) == 1
    assert set(again.mark(2, "")) == {"success"}
    with pytest.raises(InputError, match="a mark must be"):
        search.mark(0, "../x")
    monkeypatch.setattr(evidence, "write_episodes", full)
    with pytest.raises(OSError, match="full"):
        again.mark(1, "success")
    assert {row["number"]: row["mark"] for row in again.describe()["episodes"]}[1] == ""
    assert len(pureward.read_episodes(run / "marked/successes")) == 1


def full(*given, **named):
    raise OSError("the disk is full")


@pytest.mark.slow
def test_one_marked_episode_is_enough_as_the_page_says(run, tmp_path):
    search = searched(run)
    told = search.mark(1, "success")["success"]
    successes, failures = run / "marked/successes", run / "marked/failures"
    assert f"pureward train reach --demonstrations {successes} --prior 0.5. η must" in told
    search.mark(2, "failure")
    try:
        settings = {
            "method": "nn-pugail",
            "demonstrations": str(successes),
            "failures": str(failures),
            "env_steps": 48,
            "reward": replace(SMALL_REWARD, risk="nnpnu"),
        }
        assert "an estimate needs 5 held-out episodes, and marked ones are not" in told
        with pytest.raises(InputError, match="an estimate of η needs at least 5 held-out episodes"):
            pureward.train(tiny(tmp_path / "estimated", prior="bbe:0.002:0.8", **settings))
        pureward.train(tiny(tmp_path / "given", prior="0.5", **settings))
        assert (tmp_path / "given/reward/reward.json").exists()
    finally:
        search.mark(1, "")
        search.mark(2, "")


def test_a_link_in_place_of_marked_episodes_is_not_followed(run, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/marked").symlink_to(run)
    with pytest.raises(InputError, match="must be a folder, and is a link"):
        Search(tmp_path / "run")._marked([])


def test_a_run_on_the_true_reward_has_nothing_to_compare(tmp_path):
    search = Search(write_run(tmp_path / "run", "truth", course(10.0)))
    search._work()
    found = search.describe()
    assert found["state"] == "failed"
    assert "nothing to compare" in found["error"]


def test_a_fit_is_shown_in_its_own_words_and_has_no_policy_to_search(tmp_path):
    probe = {"kind": "probe", "step": 4, "success/train": 0.8, "success/replay": 0.3}
    run = write_run(tmp_path / "fit", "nn-pugail", [probe], task="offline")
    told = {"state": "finished", "verdict": "undecided", "sentence": "30% on the logs"}
    (run / "status.json").write_text(json.dumps(told))
    (line,) = Runs([run]).describe()
    assert told.items() <= line["runs"][0].items()
    (chart,) = line["charts"]
    assert line["unit"] == chart["unit"] == "updates"
    assert [one["label"] for one in chart["series"]] == ["trained frames", "the logs"]
    search = Search(run)
    search._work()
    assert "has no policy; score episodes" in search.describe()["error"]


def test_a_dataset_with_a_file_config_json_is_no_run(run, tmp_path):
    np.save(tmp_path / "0.npy", np.zeros((4, 8, 8, 3), np.uint8))
    write_json(tmp_path / "config.json", {})
    assert [_is_run(path) for path in (run, tmp_path)] == [True, False]
