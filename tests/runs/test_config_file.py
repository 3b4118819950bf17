"""Settings on disk: what differs is told by name, and what cannot matter is not."""

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pureward.agents import AGENTS, AgentConfig
from pureward.errors import InputError
from pureward.rewards.config import RewardConfig
from pureward.runs import config_file
from pureward.runs.config import RunConfig
from pureward.runs.config_file import (
    differences,
    flat,
    from_json,
    read_config,
    read_toml,
    to_json,
    to_toml,
    with_settings,
)
from pureward.runs.directory import RunDirectory


def test_nested_settings_by_name():
    assert flat({"a": 1, "b": {"c": 2, "d": {"e": 3}}}) == {"a": 1, "b.c": 2, "b.d.e": 3}


def test_a_difference_is_told_where_it_is():
    run = RunConfig(method="gail", demonstrations="data")
    other = replace(run, reward=RewardConfig(ceiling=0.5), out="elsewhere")
    assert differences(run, run) == []
    assert differences(run, other) == ["reward.ceiling 1.0 → 0.5"]


def test_a_run_on_the_task_s_reward_has_no_settings_of_a_learned_one():
    run = RunConfig()
    assert differences(run, replace(run, reward=RewardConfig(ceiling=0.5))) == []
    assert differences(run, replace(run, batch=7)) == [f"batch {run.batch} → 7"]


def test_another_algorithm_is_a_difference(monkeypatch):
    @dataclass(frozen=True, kw_only=True)
    class Other(AgentConfig):
        rate: float = 0.1

    monkeypatch.setitem(AGENTS, "other", replace(AGENTS["d4pg"], config=Other))
    run = RunConfig()
    other = replace(run, algorithm="other", agent=Other())
    assert differences(run, other) == ["algorithm d4pg → other"]
    assert differences(other, run) == ["algorithm other → d4pg"]


def test_what_was_written_is_read_back():
    run = RunConfig(method="gail", demonstrations="data")
    patient = replace(run.reward.model, patience=3)
    run = replace(run, reward=replace(run.reward, model=patient), budget_seconds=60)
    assert from_json(to_json(run)) == run


def test_settings_written_as_toml_are_read_back(tmp_path):
    run = RunConfig(out="runs/η and 😀", images=('a "b"', "c\\d"))
    path = tmp_path / "settings.toml"
    path.write_text(to_toml(run, {}), encoding="utf-8")
    assert with_settings(RunConfig(), read_toml(path)) == run


def test_toml_with_the_byte_order_mark_of_some_editors_is_read(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_bytes(b"\xef\xbb\xbfworlds = 4\r\n")
    assert read_toml(path) == {"worlds": 4}


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("agent.atoms", "51", "a whole number, without quotes"),
        ("agent.actor_layers", [[300]], "a list of whole numbers"),
        ("reward.network.dropout", [0.5], "a number"),
    ],
)
def test_a_setting_of_a_part_of_another_type_is_refused_by_name(name, value, rule):
    with pytest.raises(InputError, match=f"^{name} must be {rule}"):
        with_settings(RunConfig(), {name: value})


def test_folders_may_be_paths():
    run = RunConfig(method="gail", demonstrations="data/one", out="runs/x")
    same = replace(run, demonstrations=Path("data/one"), out=Path("runs/x"))
    assert to_json(same) == to_json(run)
    assert differences(same, run) == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"worlds": "16"},
            "worlds of a saved RunConfig must be a whole number, without quotes, got '16'",
        ),
        ({"worlds": True}, "worlds of a saved RunConfig must be a whole number, got True"),
        ({"guided": None}, "guided of a saved RunConfig must be a number, got None"),
        ({"task": []}, "task of a saved RunConfig must be text, got "),
        ({"replay": None}, "a saved ReplayConfig must be a JSON object, got None"),
        ({"replay": []}, "a saved ReplayConfig must be a JSON object, got "),
        ({"agent": {"actor_layers": 3}}, "actor_layers of a saved D4PGConfig must be a list"),
        ({"agent": {"actor_layers": ["x"]}}, "actor_layers of a saved D4PGConfig must be a list"),
    ],
)
def test_settings_of_another_type_are_refused_by_name(tmp_path, changes, told):
    run = RunDirectory(tmp_path)
    run.config.write_text(json.dumps(to_json(RunConfig()) | changes))
    with pytest.raises(InputError, match=f"config.json cannot be read: {told}"):
        read_config(run)


@pytest.mark.parametrize("text", ["null", "7", "[" * 100_000])
def test_what_holds_no_settings_is_refused(tmp_path, text):
    run = RunDirectory(tmp_path)
    run.config.write_text(text)
    with pytest.raises(InputError, match="config.json (cannot be read|must be the JSON)"):
        read_config(run)


def test_a_folder_or_a_file_in_the_place_of_another_is_told(tmp_path):
    (tmp_path / "config.json").mkdir()
    with pytest.raises(InputError, match="config.json must be the JSON that the run wrote"):
        read_config(RunDirectory(tmp_path))
    (tmp_path / "file").write_text("no run")
    with pytest.raises(
        InputError, match="file is not a run: it has no config.json; check the path"
    ):
        read_config(RunDirectory(tmp_path / "file"))


def test_settings_that_are_a_fifo_or_too_large_are_refused(tmp_path):
    run = RunDirectory(tmp_path)
    os.mkfifo(run.config)
    with pytest.raises(InputError, match=r"config.json must be the JSON .*a regular file"):
        read_config(run)
    run.config.unlink()
    with run.config.open("wb") as file:
        file.truncate(2**31)  # sparse
    with pytest.raises(InputError, match="config.json must be the JSON .*at most"):
        read_config(run)


def test_settings_are_read_once(tmp_path, monkeypatch):
    run, read = RunDirectory(tmp_path), []
    run.config.write_text(json.dumps(to_json(RunConfig(worlds=7))))
    honest = config_file.read_file
    monkeypatch.setattr(config_file, "read_file", lambda path: read.append(path) or honest(path))
    assert read_config(run).worlds == 7
    assert read == [run.config]
