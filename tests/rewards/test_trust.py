# SPDX-License-Identifier: Apache-2.0
"""Kernels are used only if they agree with plain arithmetic."""

import os
from dataclasses import dataclass

import pytest
import torch

from pureward.kernels.rewards.verify import agrees
from pureward.rewards.network import ResidualCNN
from pureward.rewards.risks.pu import nnpu, upu

CPU = torch.device("cpu")
ON_CUDA = torch.cuda.is_available()
if not ON_CUDA:
    os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are first imported


def plain(network, frames):
    return network(frames)


def plain_risk(risk, logits, positives, **settings):
    """The result that the fused risk must have, by autograd."""
    logits = logits.clone().requires_grad_()
    with torch.enable_grad():
        result = risk(logits[:positives], logits[positives:], **settings)
        (gradient,) = torch.autograd.grad(result.objective, logits)
    return torch.stack([member.detach().float() for member in result]), gradient


def rounded(network: ResidualCNN, frames: torch.Tensor) -> torch.Tensor:
    """The network in bfloat16."""
    with torch.autocast("cpu", torch.bfloat16):
        return network(frames).float()


def shifted(network, frames):
    return network(frames.roll(1, dims=0))


def stuck(network, frames):
    """Correct outputs, but no gradient for the stages."""
    with torch.no_grad():
        features = network.embed(frames)
    return network.read_out(features, None)


def nan_output(network, frames):
    return network(frames) * float("nan")


def broken(network, frames):
    raise RuntimeError("out of resources: shared memory\nand more")


def test_plain_network_and_bfloat16_agree(small_network):
    assert agrees(small_network, CPU, plain, plain_risk)
    assert agrees(small_network, CPU, rounded, plain_risk)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (shifted, "the output error is"),
        (stuck, "gradient"),
        (nan_output, "the output error is nan"),
        (broken, r"RuntimeError: out of resources: shared memory\); torch's bfloat16"),
    ],
)
def test_wrong_kernel_is_not_used_and_warns(small_network, output, reason):
    with pytest.warns(RuntimeWarning, match=reason):
        assert not agrees(small_network, CPU, output, plain_risk)


@dataclass(frozen=True)
class WrongRisk:
    """A correct risk except for one fault."""

    fault: str

    def __call__(self, risk, logits, positives, **settings):
        if self.fault == "no second branch" and risk is nnpu:
            risk = upu
        if self.fault == "ignores the loss":
            settings["loss"] = "logistic"
        if self.fault == "ignores the prior":
            settings["prior"] = 0.5
        metrics, gradient = plain_risk(risk, logits, positives, **settings)
        if self.fault == "ignores the last logit":
            gradient[-1] = 0
        if self.fault == "NaN":
            gradient[3] = float("nan")
        if self.fault == "wrong negative part":
            metrics[3] = -metrics[3]
        if self.fault == "does not compile":
            raise RuntimeError("no such intrinsic")
        return metrics, gradient


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("no second branch", "error of the logistic nnpu risk or its gradient is"),
        ("ignores the loss", "error of the sigmoid pn risk or its gradient is"),
        ("ignores the prior", "logistic pn risk"),
        ("ignores the last logit", "logistic pn risk"),
        ("NaN", "gradient is nan"),
        ("wrong negative part", "logistic pn risk"),
        ("does not compile", r"RuntimeError: no such intrinsic\); torch's bfloat16"),
    ],
)
def test_wrong_risk_is_not_used_and_warns(small_network, fault, reason):
    with pytest.warns(RuntimeWarning, match=reason):
        assert not agrees(small_network, CPU, plain, WrongRisk(fault))


def test_fused_risk_agrees(small_network):
    pytest.importorskip("triton", reason="needs Triton: pip install -e '.[kernels]'")
    from pureward.kernels.rewards.risk import differentiated

    device = torch.device("cuda") if ON_CUDA else CPU
    assert agrees(small_network, device, plain, differentiated)


def test_check_leaves_the_random_state_unchanged(small_network):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with torch.no_grad():
        assert agrees(small_network, CPU, plain, plain_risk)
    assert torch.equal(torch.rand(3), expected)
