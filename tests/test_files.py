"""Atomic writing of files and folders, and reading of untrusted ones."""

import errno
import os
import subprocess
import sys

import pytest

from pureward.errors import InputError
from pureward.files import (
    PARTIAL,
    check_writable,
    clear_leftovers,
    is_held,
    open_tensors,
    read_file,
    read_object,
    whole_file,
    whole_folder,
    write_json,
)

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


def test_tensors_on_a_full_disk_raise_oserror(tmp_path):
    # In another process, since the limit also applies to the file with the output of this one.
    command = [sys.executable, "-c", _TOO_LARGE, str(tmp_path / "weights")]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output.startswith(f"{errno.EFBIG} ")
    assert "weights" in output
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_names_its_file(tmp_path):
    with (
        pytest.raises(OSError, match=r"No space left.*kept\.json"),
        whole_file(tmp_path / "kept.json"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_two_processes_may_write_one_file_at_once(tmp_path, monkeypatch):
    path = tmp_path / "film"
    with whole_file(path) as one:
        one.write_text("first")
        monkeypatch.setattr(os, "getpid", lambda: 12345)  # another process
        with whole_file(path) as other:
            other.write_text("second")
        assert path.read_text() == "second"
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_two_processes_cannot_write_one_folder_at_once(tmp_path):
    with whole_folder(tmp_path / "data") as one:
        (one / "file").write_text("first")
        with pytest.raises(InputError, match="another is writing"), whole_folder(tmp_path / "data"):
            pass
    assert (tmp_path / "data" / "file").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_leftovers_of_a_killed_process_do_not_get_into_a_folder(tmp_path):
    left = tmp_path / f"{PARTIAL}data"
    (left / "deep").mkdir(parents=True)
    (left / "half").write_text("half")
    with whole_folder(tmp_path / "data") as partial:
        (partial / "file").write_text("whole")
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["file"]


def test_a_folder_is_flushed_with_all_that_is_in_it(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr("pureward.files._flush", lambda path: flushed.append(path.name))
    with whole_folder(tmp_path / "data") as partial:
        (partial / "deep").mkdir()
        (partial / "deep" / "file").write_text("whole")
    assert {"deep", "file"} < set(flushed)


def test_a_folder_that_cannot_be_made_or_written_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    check_writable(tmp_path / "new" / "deep")
    for path in ("file", "file/deep"):
        with pytest.raises(InputError, match=f"{path} must be a folder .*file is a file or read-"):
            check_writable(tmp_path / path)
    monkeypatch.setattr(os, "access", lambda *_: False)  # tests may run as root
    with pytest.raises(InputError, match=f"{tmp_path} is a file or read-only; choose another"):
        check_writable(tmp_path / "new")


def test_links_are_not_followed_when_writing(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / f"{PARTIAL}{os.getpid()}-status.json").symlink_to(victim)
    (folder / "status.json").symlink_to(victim)
    write_json(folder / "status.json", {"state": "running"})
    assert victim.read_text() == "precious"
    assert read_object(folder / "status.json") == {"state": "running"}


def test_only_regular_files_are_read(tmp_path):
    (tmp_path / "file").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for name in ("link", "folder", "fifo"):
        with pytest.raises(InputError, match=f"{name} must be a regular file"):
            read_file(tmp_path / name)
        with (
            pytest.raises(InputError, match="must be a regular file"),
            open_tensors(tmp_path / name),
        ):
            pass
        assert read_object(tmp_path / name) == {}
    assert not is_held(tmp_path / "fifo")
    assert read_file(tmp_path / "file") == b"{}"


def test_a_file_above_the_size_limit_is_not_read(tmp_path):
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(2**33)  # sparse: it takes no space
    with pytest.raises(InputError, match="at most 4,194,304 bytes, and has 8,589,934,592"):
        read_file(path)


def test_infinity_is_not_written_as_json(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "status.json", {"return": float("inf")})
    assert list(tmp_path.iterdir()) == []


_WRITES = """
import sys, time
from pathlib import Path
from pureward.files import whole_file
with whole_file(Path(sys.argv[1])) as partial:
    partial.write_text("half")
    print("writing", flush=True)
    time.sleep(600)
"""


def test_leftovers_of_killed_processes_are_cleared_and_files_of_live_ones_stay(tmp_path):
    command = [sys.executable, "-c", _WRITES, str(tmp_path / "step-1.safetensors")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        clear_leftovers(tmp_path)
        assert len(list(tmp_path.iterdir())) == 1
        process.kill()
        process.wait()
    assert len(list(tmp_path.iterdir())) == 1
    clear_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == []
