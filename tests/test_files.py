"""Files that appear whole or not at all."""

import resource
import signal

import pytest
import torch

from pureward.errors import InputError
from pureward.files import PARTIAL, whole_file, whole_folder, write_tensors


@pytest.fixture
def full_disk():
    """No file may grow beyond a thousand bytes: writing more fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_tensors_that_the_disk_cannot_take_are_an_error_of_the_system(tmp_path, full_disk):
    told = "cannot be written .*File too large"
    with pytest.raises(OSError, match=told), whole_file(tmp_path / "weights") as partial:
        write_tensors(partial, {"weight": torch.zeros(1000)})
    assert list(tmp_path.iterdir()) == []


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
