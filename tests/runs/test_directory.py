"""The run directory and the metrics log."""

import errno
import fcntl
import json
import math
import os
import stat
import subprocess
import sys

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from pureward.errors import InputError, InUseError, TrainingError
from pureward.runs.directory import RunDirectory
from pureward.runs.log import MetricsLog, read_metrics


def test_a_second_process_is_refused(tmp_path):
    script = (
        "import sys, pathlib; from pureward.runs.directory import RunDirectory\n"
        "with RunDirectory(pathlib.Path(sys.argv[1])): pass"
    )
    with RunDirectory(tmp_path):
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True
        )
    assert done.returncode != 0
    assert "is in use (process " in done.stderr
    again = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True)
    assert again.returncode == 0


def test_the_same_process_cannot_take_it_twice(tmp_path):
    with (
        RunDirectory(tmp_path),
        pytest.raises(InputError, match="one process at a time"),
        RunDirectory(tmp_path),
    ):
        pass


def test_a_process_that_asks_whether_it_is_in_use_keeps_no_run_from_starting(tmp_path, monkeypatch):
    asking = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(asking, fcntl.LOCK_SH)
    monkeypatch.setattr("pureward.runs.directory.time.sleep", lambda _: os.close(asking))
    with RunDirectory(tmp_path):
        assert RunDirectory(tmp_path).in_use()


def test_a_file_system_without_locks_is_not_taken_for_another_process(tmp_path, monkeypatch):
    """`InUseError` means that waiting helps; here it would not."""

    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with (
        pytest.raises(InputError, match="cannot be locked .*No locks") as caught,
        RunDirectory(tmp_path),
    ):
        pass
    assert not isinstance(caught.value, InUseError)
    assert not RunDirectory(tmp_path).in_use()


def test_status_is_written_and_read(tmp_path):
    with RunDirectory(tmp_path) as directory:
        assert directory.read_status() == {}
        directory.write_status("running", env_steps=5)
        assert directory.read_status() == {"state": "running", "env_steps": 5}


@pytest.mark.parametrize("text", ["", '{"state": "fin', "[1]", "\x00"])
def test_a_damaged_status_is_read_as_empty(tmp_path, text):
    (tmp_path / "status.json").write_text(text)
    assert RunDirectory(tmp_path).read_status() == {}


def test_resuming_removes_metrics_after_the_checkpoint(tmp_path):
    path, events = tmp_path / "metrics.jsonl", tmp_path / "tensorboard"
    with MetricsLog(path, events) as log:
        log.write("train", 10, {"loss": 0.5})
        offset = log.offset()
        log.write("eval", 20, {"return": 3.0})
    with path.open("a") as file:
        file.write('{"kind": "train", "st')  # a kill in the middle of a line
    assert [row["step"] for row in read_metrics(path)] == [10, 20]
    assert read_metrics(path, "eval") == [{"kind": "eval", "step": 20, "return": 3.0}]
    with MetricsLog(path, events, offset=offset, step=10) as log:
        log.write("train", 15, {"loss": 0.25})
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [10, 15]
    assert _shown(events, "train/loss") == [(10, 0.5), (15, 0.25)]
    assert _shown(events, "eval/return") == []


def _shown(folder, curve):
    """The points of a curve as TensorBoard reads them."""
    board = EventAccumulator(str(folder)).Reload()
    points = board.Scalars(curve) if curve in board.Tags()["scalars"] else []
    return [(point.step, point.value) for point in points]


def test_a_full_disk_raises_one_error_in_the_writing_thread(tmp_path):
    """In a subprocess, because the limit applies to all files of a process."""
    path, events = tmp_path / "metrics.jsonl", tmp_path / "tensorboard"
    script = f"""
import resource, signal
from pathlib import Path
from pureward.runs.log import MetricsLog
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    with MetricsLog(Path({str(path)!r}), Path({str(events)!r})) as log:
        for step in range(10_000):
            log.write("train", step, dict(loss=0.5))
except OSError as error:
    print("one", type(error).__name__)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("one OSError\n", "")


def test_a_truncated_metrics_file_continues_on_a_new_line(tmp_path):
    path, events = tmp_path / "metrics.jsonl", tmp_path / "tensorboard"
    with MetricsLog(path, events) as log:
        log.write("train", 10, {"loss": 0.5})
        log.write("train", 20, {"loss": 0.5})
        offset = log.offset()
    path.write_bytes(path.read_bytes()[:-5])
    with MetricsLog(path, events, offset=offset, step=20) as log:
        log.write("train", 30, {"loss": 0.25})
        assert log.offset() == path.stat().st_size
    assert [row["step"] for row in read_metrics(path)] == [10, 30]
    assert b"\0" not in path.read_bytes()


def test_damaged_lines_and_values_of_metrics_are_skipped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    lines = [
        b'{"kind": "eval", "step": 1, "return": 2.0, "success": "x", "other": null}',
        b'{"kind": "eval", "step": 2, "ret\xff\xfe": 3.0}',
        b'{"kind": "eval", "step": "3", "return": 2.0}',
        b'{"step": 4, "return": 2.0}',
        b"[5]",
        b"[" * 100_000,
    ]
    path.write_bytes(b"\n".join(lines))
    first, second = read_metrics(path, "eval")
    assert first == {"kind": "eval", "step": 1, "return": 2.0}
    assert second["step"] == 2


FILES = ["lock", "metrics.jsonl", "config.json", "log.txt"]
FOLDERS = ["checkpoints", "snapshots", "videos", "tensorboard", "reward", "probe"]


@pytest.mark.parametrize("name", FILES + FOLDERS)
def test_a_link_out_of_the_directory_is_refused(tmp_path, name):
    run, outside = tmp_path / "run", tmp_path / "outside"
    run.mkdir()
    outside.mkdir()
    victim = outside / ".partial-mine"
    victim.write_text("precious")
    (run / name).symlink_to(victim if name in FILES else outside)
    with pytest.raises(InputError, match=f"itself, and .*{name} is a link"), RunDirectory(run):
        pass
    assert victim.read_text() == "precious"


@pytest.mark.parametrize(
    "name", ["metrics.jsonl", "status.json", "checkpoints", "snapshots", "reward/reward.json"]
)
def test_files_of_others_are_not_taken_for_a_run(tmp_path, name):
    own = tmp_path / name
    own.parent.mkdir(exist_ok=True)
    own.write_text("precious")
    holds = f"holds {name.split('/')[0]}, which a run would replace, without a run's config.json"
    with pytest.raises(InputError, match=holds), RunDirectory(tmp_path):
        pass
    assert own.read_text() == "precious"
    assert not (tmp_path / "lock").exists()


def test_a_run_that_was_killed_before_it_wrote_its_settings_starts_again(tmp_path):
    (tmp_path / "notes.txt").write_text("of the user")
    for _ in range(2):
        with RunDirectory(tmp_path) as directory:
            directory.write_status("failed")
            directory.metrics.touch()
            directory.checkpoints.mkdir(exist_ok=True)
    assert (tmp_path / "notes.txt").read_text() == "of the user"


def test_the_directory_itself_may_be_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    with RunDirectory(tmp_path / "run") as directory:
        directory.write_status("running")
        directory.check_place()
    assert RunDirectory(tmp_path / "disk").read_status() == {"state": "running"}


def test_a_linked_metrics_file_is_refused(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "metrics.jsonl").symlink_to(victim)
    with pytest.raises(InputError, match="must be a regular file"):
        MetricsLog(tmp_path / "metrics.jsonl", tmp_path / "tensorboard")
    with pytest.raises(InputError, match="must be a regular file"):
        read_metrics(tmp_path / "metrics.jsonl")
    assert victim.read_text() == "precious"


def test_a_fifo_as_metrics_file_is_refused_without_blocking(tmp_path):
    os.mkfifo(tmp_path / "metrics.jsonl")
    for use in (read_metrics, lambda path: MetricsLog(path, tmp_path / "tensorboard")):
        with pytest.raises(InputError, match="must be a regular file"):
            use(tmp_path / "metrics.jsonl")


@pytest.mark.parametrize("event", ["deleted", "replaced"])
def test_a_deleted_metrics_file_stops_the_log(tmp_path, event):
    path = tmp_path / "metrics.jsonl"
    with MetricsLog(path, tmp_path / "tensorboard") as log:
        log.write("train", 10, {"loss": 0.5})
        path.unlink()
        if event == "replaced":
            path.touch()
        with pytest.raises(FileNotFoundError, match="was moved or deleted; bring it back"):
            log.write("train", 20, {"loss": 0.5})
        with pytest.raises(FileNotFoundError, match="was moved or deleted; bring it back"):
            log.offset()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_metric_that_is_not_finite_is_an_error_and_not_written(tmp_path, value):
    path = tmp_path / "metrics.jsonl"
    with (
        MetricsLog(path, tmp_path / "tensorboard") as log,
        pytest.raises(TrainingError, match=rf"error is {value} \(fit, step 0\)"),
    ):
        log.write("fit", 0, {"epoch": 1, "error": value})
    assert path.read_bytes() == b""


def test_deleting_the_lock_file_does_not_unlock(tmp_path):
    with RunDirectory(tmp_path) as directory:
        (tmp_path / "lock").unlink()
        assert RunDirectory(tmp_path).in_use()
        with pytest.raises(InUseError, match="one process at a time"), RunDirectory(tmp_path):
            pass
        directory.check_place()
    assert not RunDirectory(tmp_path).in_use()


def test_without_folder_locks_a_deleted_lock_file_stops_the_run(tmp_path, monkeypatch):
    """NFS locks only what is open for writing, which a folder cannot be."""
    original = fcntl.flock

    def flock(descriptor, kind):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EBADF, "Bad file descriptor")
        original(descriptor, kind)

    monkeypatch.setattr("fcntl.flock", flock)
    with RunDirectory(tmp_path) as directory:
        directory.check_place()
        with pytest.raises(InUseError, match="one process at a time"), RunDirectory(tmp_path):
            pass
        (tmp_path / "lock").unlink()
        with pytest.raises(FileNotFoundError, match="lock was moved or deleted; bring it back"):
            directory.check_place()


def test_partial_files_of_killed_processes_are_deleted(tmp_path):
    left = [tmp_path / name / ".partial-7-x" for name in ("snapshots", "reward", "videos", ".")]
    for path in left:
        path.mkdir(parents=True)
        (path / ".tmpabc").write_text("half")
    (tmp_path / "snapshots" / "step-000000000001.safetensors").write_text("whole")
    (tmp_path / "lock").touch()
    with RunDirectory(tmp_path):
        assert not any(path.exists() for path in left)
        assert (tmp_path / "snapshots" / "step-000000000001.safetensors").exists()
