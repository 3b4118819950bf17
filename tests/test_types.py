# SPDX-License-Identifier: Apache-2.0
import pytest
import torch

from pureward.errors import InputError
from pureward.rewards.arithmetic import usable_device
from pureward.types import find_device


@pytest.fixture
def two_gpus(monkeypatch):
    """A machine with two GPUs, of which the second is current."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)


@pytest.mark.parametrize("name", ["auto", "cuda", "cuda:1"])
def test_the_current_gpu_is_used(name, two_gpus):
    assert find_device(name) == torch.device("cuda", 1)


def test_another_gpu_than_the_current_one_is_refused(two_gpus, monkeypatch):
    with pytest.raises(InputError, match="CUDA_VISIBLE_DEVICES=0 and use 'cuda'"):
        find_device("cuda:0")
    monkeypatch.setattr(torch, "empty", lambda *_, **__: None)  # there is no GPU to allocate on
    with pytest.raises(InputError, match=r"got 'cuda:0'.*torch.cuda.set_device\(0\)"):
        usable_device("cuda:0")


def test_a_gpu_that_is_not_there_is_refused(two_gpus):
    with pytest.raises(InputError, match="this machine has 2"):
        find_device("cuda:2")
