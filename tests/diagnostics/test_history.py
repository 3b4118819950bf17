"""Runs read back: returns to compare with, from cards; folders that are not runs."""

import json
from pathlib import Path

import pytest

from pureward.diagnostics.history import against_demonstrations, read_histories, read_history
from pureward.errors import InputError
from pureward.runs.directory import RunDirectory
from pureward.runs.references import read_references
from synthetic import course, write_card, write_run


def test_returns_to_measure_against_come_from_the_card(tmp_path):
    data = write_card(tmp_path / "data", train=90.0, failure=10.0)
    for method in ("gail", "prl"):
        run = read_history(write_run(tmp_path / method, method, course(50.0), data=data))
        assert (run.expert, run.failure) == (90.0, 10.0)
        assert run.verdict().numbers["share_of_expert"] == pytest.approx((50 - 10) / (90 - 10))


def test_a_run_can_be_compared_with_other_demonstrations(tmp_path):
    own = write_card(tmp_path / "own", train=95.0, failure=5.0)
    run = read_history(write_run(tmp_path / "run", "prl", course(50.0), data=own))
    assert (run.expert, run.expert_label) == (95.0, "best annotated")
    write_card(tmp_path / "other", train=90.0, failure=10.0)
    held = against_demonstrations(run, tmp_path / "other")
    assert (held.expert, held.expert_label, held.failure) == (90.0, "expert", 10.0)
    without = against_demonstrations(run, tmp_path / "nowhere")
    assert (without.expert, without.failure) == (None, None)


def test_the_expert_of_annotated_episodes_is_the_best_of_them(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    splits = {"train": {"return_mean": 40.0, "return_max": 95.0}}
    (data / "card.json").write_text(json.dumps({"splits": splits}))
    run = read_history(write_run(tmp_path / "run", "nn-purl", [], data=str(data)))
    assert (run.expert, run.failure) == (95.0, None)


@pytest.mark.parametrize(
    "card",
    [
        "",
        "[]",
        '{"splits": 3}',
        '{"splits": {"train": 3}}',
        '{"splits": {"train": {"return_mean": "90"}, "failure": {"return_mean": null}}}',
        '{"splits": {"train": {"return_mean": NaN}, "failure": {"return_mean": -Infinity}}}',
        "[" * 100_000,
    ],
)
def test_data_without_a_usable_card_has_no_expert(tmp_path, card):
    data = tmp_path / "data"
    data.mkdir()
    (data / "card.json").write_text(card)
    run = read_history(write_run(tmp_path / "run", "gail", [], data=str(data)))
    assert (run.expert, run.failure) == (None, None)


def test_a_run_keeps_the_returns_of_data_that_is_gone(tmp_path):
    data = Path(write_card(tmp_path / "data", train=90.0, failure=10.0))
    run = write_run(tmp_path / "run", "gail", course(50.0), data=str(data))
    (data / "card.json").unlink()
    assert (read_history(run).expert, read_history(run).failure) == (90.0, 10.0)


def test_a_folder_cleared_for_another_run_has_no_returns_of_the_first(tmp_path):
    data = write_card(tmp_path / "data", train=90.0, failure=10.0)
    run = write_run(tmp_path / "run", "gail", [], data=data)
    RunDirectory(run).clear()
    assert read_references(RunDirectory(run)) == {}


@pytest.mark.parametrize("text", ["{", "[]", '{"expert": NaN, "failure": "1", "expert_label": []}'])
def test_damaged_references_are_left_out(tmp_path, text):
    run = write_run(tmp_path / "run", "gail", course(50.0))
    (run / "references.json").write_text(text)
    history = read_history(run)
    assert (history.expert, history.failure, history.expert_label) == (None, None, "expert")


def test_a_series_leaves_out_nan(tmp_path):
    rows = [{"kind": "eval", "step": n, "return": v} for n, v in ((1, 2.0), (2, float("nan")))]
    run = read_history(write_run(tmp_path / "run", "gail", [*rows, {"odd": 1}]))
    assert run.series("eval", "return").tolist() == [[1.0, 2.0]]
    assert run.series("probe", "success/train").shape == (0, 2)
    assert run.series("eval", "kind").shape == (0, 2)


@pytest.mark.parametrize("step", ["NaN", "Infinity", "-Infinity", "1" + "0" * 400])
def test_a_line_without_a_finite_step_is_left_out(tmp_path, step):
    path = write_run(tmp_path / "run", "gail", course(50.0))
    with (path / "metrics.jsonl").open("a") as file:
        file.write(f'{{"kind": "eval", "step": {step}, "return": 1.0}}\n')
    run = read_history(path)
    assert run.rows == course(50.0)
    assert run.verdict().numbers["return"] == 50.0


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1" + "0" * 400])
def test_a_value_that_is_not_finite_is_left_out_of_its_line(tmp_path, value):
    path = write_run(tmp_path / "run", "gail", [])
    line = f'{{"kind": "eval", "step": 5, "return": {value}, "success": 1.0}}'
    (path / "metrics.jsonl").write_text(line)
    assert read_history(path).rows == [{"kind": "eval", "step": 5, "success": 1.0}]


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("[" * 100_000, "cannot be read"),
        (None, "is not a run: it has no config.json"),
        ("{", "cannot be read"),
        ("{}", "must name a task and a method"),
        (
            '{"task": "reach", "method": "guess"}',
            "config.json cannot be read: unknown method 'guess'",
        ),
    ],
)
def test_folders_that_are_not_runs_are_refused(tmp_path, config, sentence):
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    with pytest.raises(InputError, match=sentence):
        read_history(tmp_path)


def test_a_run_of_several_names_is_read_once(tmp_path):
    one, two = (write_run(tmp_path / name, "gail", course(1.0)) for name in ("one", "two"))
    (tmp_path / "link").symlink_to(one)
    runs = read_histories([one, two, one, tmp_path / "link", tmp_path / "two" / ".." / "one"])
    assert [run.path for run in runs] == [one, two]


def test_no_run_at_all_is_refused():
    with pytest.raises(InputError, match="at least one run directory"):
        read_histories([])
