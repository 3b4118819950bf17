"""Sweeps: the runs of a file, bad files, the table, and resuming."""

import json
import re
import sys
from pathlib import Path

import pytest

from at_once import AtOnce
from pureward.cli import main
from pureward.distributed.sweep import read_sweep, run_sweep, table
from pureward.errors import InputError

BASE = """
task = "reach"
device = "cpu"
worlds = 4
env_steps = 80
warmup_steps = 40
batch = 16
evaluate_every = 0
evaluate_episodes = 1
checkpoint_every = 40
demonstrations = "data/demos"
annotations = "data/rated"
agent.actor_layers = [16]
agent.critic_layers = [16]
"""


def written(folder: Path, vary: str, base: str = BASE) -> Path:
    path = folder / "mine.toml"
    path.write_text(f"{base}\n[vary]\n{vary}\n")
    return path


def test_every_combination_is_a_run_with_its_own_folder_and_data(tmp_path):
    vary = 'method = ["gail", "nn-purl"]\nreward.updates = [1, 2]\nseed = [3, 4]'
    sweep = read_sweep(written(tmp_path, vary), out=tmp_path / "out")
    assert sweep.varied == ("method", "reward.updates", "seed")
    assert sweep.values[:3] == (("gail", 1, 3), ("gail", 2, 3), ("nn-purl", 1, 3))
    outs = [str(run.out.relative_to(tmp_path / "out")) for run in sweep.runs]
    assert len(set(outs)) == 8
    assert outs[0] == "gail-updates-1/seed-3"
    assert outs[-1] == "nn-purl-updates-2/seed-4"
    first, last = sweep.runs[0].config, sweep.runs[-1].config
    assert (first.demonstrations, first.annotations) == ("data/demos", "")
    assert (last.demonstrations, last.annotations) == ("", "data/rated")
    assert (last.reward.updates, last.seed, last.worlds) == (2, 4, 4)


@pytest.mark.parametrize("without", ["demonstrations", "annotations"])
def test_a_sweep_without_a_method_has_that_of_its_data(tmp_path, without):
    base = "\n".join(line for line in BASE.splitlines() if not line.startswith(without))
    sweep = read_sweep(written(tmp_path, "seed = [3]", base), out=tmp_path)
    method = {"annotations": "nn-pugail", "demonstrations": "nn-purl"}[without]
    assert sweep.runs[0].config.method == method


def test_lists_of_lists_vary_a_setting_that_is_a_list(tmp_path):
    sweep = read_sweep(written(tmp_path, "agent.critic_layers = [[8], [8, 9]]"), out=tmp_path)
    assert [run.out.name for run in sweep.runs] == ["critic_layers-8", "critic_layers-8-9"]
    assert getattr(sweep.runs[1].config.agent, "critic_layers", None) == (8, 9)


@pytest.mark.parametrize(
    ("vary", "base", "says"),
    [
        ("seed = [0]", BASE + "batsh = 3", "unknown setting 'batsh' of a run; try batch"),
        ("reward.updats = [1]", BASE, "unknown setting 'reward.updats' of a run; try"),
        ("seed = 3", BASE, "vary.seed must be a list of values, got 3"),
        ("seed = []", BASE, "vary.seed must be a list of values, got []; write at least one"),
        ("", BASE, "at most 10,000 runs, got 0 in"),
        ("seed = [0, 0]", BASE, "two for"),
        ('method = ["gaill"]', BASE, "unknown method 'gaill'"),
        ('batch = ["many"]', BASE, "batch must be a whole number, without quotes, got 'many'"),
        ("seed = [0]", BASE + 'preset = ["fast"]', "unknown preset ['fast']; choose from fast"),
        ("seed = [0", BASE, "must be a TOML file of settings"),
        (f"seed = {[*range(10_001)]}", BASE, "at most 10,000 runs"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path, capsys, vary, base, says):
    with pytest.raises(SystemExit) as end:
        main(["sweep", str(written(tmp_path, vary, base)), "--out", str(tmp_path / "out")])
    said = capsys.readouterr().err.strip()
    assert end.value.code == 2
    assert says in said
    assert "\n" not in said
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_a_number_is_refused(tmp_path):
    with pytest.raises(InputError, match="^out must be text, got 3"):
        read_sweep(written(tmp_path, "seed = [0]", BASE + "out = 3"))


def test_runs_train_once_and_the_table_has_means_over_seeds(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("pureward.distributed.jobs._POLL_SECONDS", 0.01)
    sweep = read_sweep(written(tmp_path, "seed = [0, 1]"), out=tmp_path / "out")
    outcomes = run_sweep(sweep, AtOnce())
    assert [one.state for one in outcomes] == ["finished", "finished"]
    for number, run in enumerate(sweep.runs):
        line = {"kind": "eval", "step": 80, "return": 10.0 + 2 * number, "success": 0.5}
        (run.out / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    shown = table(sweep, {})
    cells = [cell.strip() for cell in shown.splitlines()[2].split("|")[1:-1]]
    assert cells == ["0", "finished", "80 of 80", "10", "0.5"]
    # 12.706 · √2 / √2: the quantile of one degree of freedom times the standard error of 10 and 12.
    assert "| 2     | 11.0 ± 12.7 " in shown
    assert (tmp_path / "out" / "table.md").read_text().count("finished") == 2
    again = AtOnce()
    assert [one.state for one in run_sweep(sweep, again)] == ["found", "found"]
    assert again.started == []
    changed = written(tmp_path, "seed = [0, 1]", BASE.replace("batch = 16", "batch = 17"))
    with pytest.raises(InputError, match="was run with other settings"):
        read_sweep(changed, out=tmp_path / "out")


def damaged(folder: Path) -> None:
    """Write data that is there and cannot be read."""
    folder.mkdir(parents=True)
    (folder / "metadata.json").write_text("{")


@pytest.mark.parametrize(
    ("vary", "base", "lost"),
    [
        ('method = ["truth", "gail"]', BASE, "data/demos"),
        ('method = ["gail", "nn-purl"]', BASE, "data/rated"),
        ('reward.risk = ["nnpnu"]', BASE + 'method = "pugail"\nfailures = "data/bad"', "data/bad"),
    ],
)
@pytest.mark.parametrize("dry", [True, False])
def test_missing_data_is_told_before_a_run_starts(
    vary, base, lost, dry, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pureward.distributed.sweep.run_jobs", lambda *_: pytest.fail("started"))
    for name in {"data/demos", "data/rated"} - {lost}:
        damaged(tmp_path / name)
    command = ["sweep", str(written(tmp_path, vary, base)), "--out", "out"]
    with pytest.raises(SystemExit) as end:
        main(command + ["--dry-run"] * dry)
    out, said = capsys.readouterr()
    assert end.value.code == 2
    assert said.startswith(f"pureward: {lost} is not a dataset, and no file or folder in ")
    assert said.count("\n") == 1
    assert ("waiting" in out) == dry
    assert not (tmp_path / "out").exists()


def test_data_is_not_read_before_its_run_starts(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, 'method = ["gail", "nn-purl"]')
    damaged(tmp_path / "data/demos")
    damaged(tmp_path / "data/rated")
    main(["sweep", str(path), "--dry-run"])
    assert capsys.readouterr().out.count("waiting") == 2


def test_finished_runs_need_no_data(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pureward.distributed.training.Training.finished", lambda _: True)
    main(["sweep", str(written(tmp_path, "seed = [0, 1]")), "--dry-run"])
    assert capsys.readouterr().out.count("finished") == 2


def test_a_failed_run_is_reported_and_others_finish(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    damaged(tmp_path / "data/demos")
    monkeypatch.setattr("pureward.distributed.jobs._POLL_SECONDS", 0.01)
    monkeypatch.setattr("pureward.distributed.sweep.run_sweep", lambda s, _: run_sweep(s, AtOnce()))
    path = written(tmp_path, 'method = ["truth", "gail"]')
    with pytest.raises(SystemExit) as end:
        main(["sweep", str(path), "--out", str(tmp_path / "out")])
    out, said = capsys.readouterr()
    assert end.value.code == 1
    assert "1 of 2 runs did not finish" in said
    assert "data/demos" in said
    assert "finished" in out


def test_without_ray_one_sentence_says_what_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    path = written(tmp_path, 'method = ["truth"]')
    with pytest.raises(SystemExit) as end:
        main(["sweep", str(path), "--out", str(tmp_path / "out"), "--executor", "ray"])
    assert end.value.code == 2
    assert "pip install 'pureward[ray]'" in capsys.readouterr().err


def test_the_local_executor_takes_no_address(tmp_path, capsys):
    path = written(tmp_path, 'method = ["truth"]')
    with pytest.raises(SystemExit) as end:
        main(["sweep", str(path), "--out", str(tmp_path / "out"), "--address", "auto"])
    assert end.value.code == 2
    assert "the executor 'local' takes no address" in capsys.readouterr().err


def test_the_sweeps_of_the_docs_are_valid(tmp_path):
    page = Path(__file__).parents[2] / "docs/how-to/distributed.md"
    blocks = re.findall(r"```toml\n(.*?)```", page.read_text(), re.S)
    assert blocks
    for block in blocks:
        (tmp_path / "rates.toml").write_text(block)
        sweep = read_sweep(tmp_path / "rates.toml")
        assert len(sweep.runs) in (6, 18)
        if len(sweep.runs) == 18:
            assert str(sweep.runs[0].out) == "runs/rates/gail-learning_rate-0.0001/seed-0"
