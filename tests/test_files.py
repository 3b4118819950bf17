"""Files that appear whole or not at all."""

import resource
import signal

import pytest
import torch

from pureward.files import whole_file, write_tensors


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
