"""`train_all`: runs finish, a failure is reported, and finished runs are skipped."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pureward.distributed.processes import LocalProcesses
from pureward.distributed.training import Training, train_all
from pureward.errors import TrainingError
from pureward.runs.directory import RunDirectory
from tiny import tiny


def status(path: Path) -> dict:
    return RunDirectory(path).read_status()


def test_runs_train_in_parallel_and_only_once(tmp_path, capfd, monkeypatch):
    configs = [tiny(tmp_path / str(n), env_steps=80, seed=n) for n in range(2)]
    train_all(configs, at_once=2)
    for n in range(2):
        assert status(tmp_path / str(n))["state"] == "finished"
        assert "replay of 400 steps" in (tmp_path / str(n) / "log.txt").read_text()
    assert "replay" not in capfd.readouterr().out, "the output of runs goes to their logs"
    monkeypatch.setattr(LocalProcesses, "start", lambda *_: pytest.fail("all runs are finished"))
    train_all(configs, at_once=2)


def test_a_run_that_reached_its_return_is_not_finished_for_a_higher_one(tmp_path):
    config = tiny(tmp_path / "run", env_steps=480, stop_at_return=5.0)
    with RunDirectory(tmp_path / "run") as directory:
        directory.write_status("finished", env_steps=240, **{"return": 6.0})
    assert Training(config=config).finished()
    assert not Training(config=replace(config, stop_at_return=90.0)).finished()
    assert Training(config=replace(config, stop_at_return=90.0, env_steps=240)).finished()


@pytest.mark.slow
def test_a_failure_is_reported_with_the_last_line(tmp_path):
    config = tiny(tmp_path / "run", env_steps=80)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{")
    with pytest.raises(TrainingError, match=r"failed \(.*config.json must be the JSON that"):
        train_all([config])


# A shell that starts tests in the background makes them and their children ignore SIGINT.
SCRIPT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, {tests!r})
from pathlib import Path
from tiny import tiny
from pureward.distributed.training import train_all
if __name__ == "__main__":
    train_all([tiny(Path(sys.argv[1]), env_steps=800_000)])
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_runs_stop_with_their_parent_and_can_be_resumed(tmp_path, number):
    script = tmp_path / "start.py"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parents[1])))
    run = tmp_path / "run"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    parent = subprocess.Popen([sys.executable, str(script), str(run)], env=environment)
    written = run / "metrics.jsonl"
    try:
        _wait_for(lambda: written.exists() and written.stat().st_size)
        parent.send_signal(number)
        parent.wait(timeout=300)
    finally:
        parent.kill()  # its runs stop too
    _wait_for(lambda: status(run)["state"] == "interrupted")
    done = status(run)["env_steps"]
    train_all([replace(tiny(run), env_steps=done + 80)])
    assert status(run) | {"state": "finished", "env_steps": done + 80} == status(run)


def _wait_for(condition) -> None:
    until = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < until, "timed out"
        time.sleep(0.2)
