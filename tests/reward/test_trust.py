# SPDX-License-Identifier: Apache-2.0
"""Kernels are used only where they agree with plain arithmetic."""

import pytest
import torch

from pureward.reward.network import ResidualCNN
from pureward.reward.trust import agrees

CPU = torch.device("cpu")


def rounded(network: ResidualCNN, frames: torch.Tensor) -> torch.Tensor:
    """What bfloat16 makes of it."""
    with torch.autocast("cpu", torch.bfloat16):
        return network(frames).float()


def shifted(network, frames):
    return network(frames.roll(1, dims=0))


def stuck(network, frames):
    """Right outputs, but a gradient that misses the first stage."""
    with torch.no_grad():
        features = network.embed(frames)
    return network.read_out(features, None)


def not_numbers(network, frames):
    return network(frames) * float("nan")


def broken(network, frames):
    raise RuntimeError("out of resources: shared memory\nand more")


def test_the_network_itself_and_its_rounded_self_agree(small_network):
    assert agrees(small_network, CPU, lambda network, frames: network(frames))
    assert agrees(small_network, CPU, rounded)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (shifted, "an output is off by"),
        (stuck, "gradient"),
        (not_numbers, "an output is off by nan"),
        (broken, r"RuntimeError: out of resources: shared memory\); bfloat16"),
    ],
)
def test_a_wrong_kernel_is_not_used_and_the_reason_told(small_network, output, reason):
    with pytest.warns(RuntimeWarning, match=reason):
        assert not agrees(small_network, CPU, output)


def test_asking_changes_nothing_for_the_asker(small_network):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with torch.no_grad():
        assert agrees(small_network, CPU, lambda network, frames: network(frames))
    assert torch.equal(torch.rand(3), expected)
