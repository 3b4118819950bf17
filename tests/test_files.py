"""Files that appear whole or not at all."""

import errno
import os
import subprocess
import sys

import pytest

from pureward.errors import InputError
from pureward.files import PARTIAL, whole_file, whole_folder

_TOO_LARGE = """
import resource, signal, sys
from pathlib import Path
import torch
from pureward.files import whole_file, write_tensors
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # as on a full disk
try:
    with whole_file(Path(sys.argv[1])) as partial:
        write_tensors(partial, {"weight": torch.zeros(1000)})
except OSError as error:
    print(error.errno, error)
"""


def test_tensors_that_the_disk_cannot_take_are_an_error_of_the_system(tmp_path):
    # A process of its own: the limit holds for whatever file takes this one's output, too.
    command = [sys.executable, "-c", _TOO_LARGE, str(tmp_path / "weights")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"{errno.EFBIG} ")
    assert "weights" in said
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_names_its_file(tmp_path):
    with (
        pytest.raises(OSError, match=r"No space left.*kept\.json"),
        whole_file(tmp_path / "kept.json"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_two_may_write_one_file_at_a_time_and_neither_is_cut(tmp_path, monkeypatch):
    path = tmp_path / "film"
    with whole_file(path) as one:
        one.write_text("first")
        monkeypatch.setattr(os, "getpid", lambda: 12345)  # another process
        with whole_file(path) as other:
            other.write_text("second")
        assert path.read_text() == "second"
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_two_do_not_write_one_folder_at_a_time(tmp_path):
    with whole_folder(tmp_path / "data") as one:
        (one / "file").write_text("first")
        with pytest.raises(InputError, match="another is writing"), whole_folder(tmp_path / "data"):
            pass
    assert (tmp_path / "data" / "file").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_what_a_killed_process_left_does_not_become_part_of_a_folder(tmp_path):
    left = tmp_path / f"{PARTIAL}data"
    (left / "deep").mkdir(parents=True)
    (left / "half").write_text("half")
    with whole_folder(tmp_path / "data") as partial:
        (partial / "file").write_text("whole")
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["file"]
