"""The demo: equal settings, a report, and no repeated work."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pureward.demo import SHOWN, Size, _dataset_text, _notes, demo, run_config
from pureward.errors import InputError
from pureward.runs.config import RunConfig

TINY = Size(expert_steps=480, episodes=2, held_out=5, steps=320, warmup=160, evaluated=2)


def test_the_four_runs_differ_only_in_their_method():
    configs = [run_config(method, Path("demo"), Size()) for method in SHOWN]
    of_method = {"method", "out", "prior", "demonstrations", "annotations"}
    same = {name: getattr(RunConfig(), name) for name in of_method}
    plain = [replace(config, reward=replace(config.reward, even=False)) for config in configs]
    assert len({repr(replace(config, **same)) for config in plain}) == 1


def test_every_run_gets_the_steps_of_its_size():
    for method in SHOWN:
        assert run_config(method, Path("demo"), Size(steps=800)).env_steps == 800


@pytest.mark.parametrize(
    "card",
    ["{", "[" * 100_000, "[]", '{"splits": {"train": []}}', '{"splits": {"train": %s}}', None],
)
def test_a_damaged_card_is_rejected(tmp_path, card):
    folder = tmp_path / "annotations"
    folder.mkdir()
    if card is None:
        (folder / "card.json").symlink_to(__file__)
    else:
        huge = '{"episodes": 2, "return_mean": 1, "return_min": 1, "return_max": 1%s}' % ("0" * 400)
        (folder / "card.json").write_text(card.replace("%s", huge))
    with pytest.raises(InputError, match=f"card.json must be the card .*; delete {folder} to"):
        _dataset_text(tmp_path, "annotations")


def test_the_report_says_which_runs_see_the_true_reward(tmp_path, monkeypatch):
    monkeypatch.setattr("pureward.demo._dataset_text", lambda _, name: name)
    configs = [run_config(method, tmp_path, Size()) for method in SHOWN]
    assert [config.method for config in configs if config.annotations] == ["prl", "nn-purl"]
    text = _notes(tmp_path, Size(), configs, 1.0)[0]
    assert "only in the annotated episodes, from which prl and nn-purl learn" in text


@pytest.mark.slow
def test_a_demo_writes_a_report_and_skips_finished_runs(tmp_path, capfd):
    done = demo(tmp_path, TINY)
    assert [run.method for run in done.runs] == list(SHOWN)
    page = done.report.read_text()
    assert len(re.findall(r'src="data:image/png;base64,', page)) == 4 + 4  # plots and evidence
    for run in done.runs:
        assert run.verdict().sentence.split("'")[0] in page
    assert "2 demonstrations" in capfd.readouterr().out
    written = {path: path.stat().st_mtime for path in tmp_path.glob("*/metrics.jsonl")}
    assert len(written) == 5
    again = demo(tmp_path, TINY)
    assert {path: path.stat().st_mtime for path in written} == written, "nothing is trained twice"
    assert again.report == done.report
