# SPDX-License-Identifier: Apache-2.0
"""Whether the fused kernels may be trusted on this machine.

They are compiled for the GPU and the Triton that are here, not for the ones they were written on.
So before "auto" uses them they compute one small batch beside plain float32; where they fail or
differ, the library's own bfloat16 serves, and a warning says why.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from pureward.kernels.verify import trusted
from pureward.rewards.network import NetworkConfig, ResidualCNN
from pureward.rewards.risks.pu import Loss, RiskFunction, nnpu, pn, upu
from pureward.rewards.view import viewed

#: Maps a network and uint8 frames to one number a frame, differentiably.
Output = Callable[[ResidualCNN, Tensor], Tensor]
#: Maps a risk, logits, the number of positives among them and the risk's settings to metrics,
#: which begin with the members of `Risk`, and to the gradient of the objective by the logits.
DifferentiatedRisk = Callable[..., tuple[Tensor, Tensor]]

_SAMPLES = 16
# bfloat16 keeps 8 bits: after a dozen layers its outputs are some hundredths of their spread off,
# or a tenth where that is small, and its gradients point some degrees beside the right way. The
# library's own bfloat16 tells how much of that is rounding; a wrong kernel misses by far more.
_LARGEST_ERROR = 0.1
_LARGEST_TURN = 0.01  # one less the cosine
_TIMES_ROUNDING = 3.0
# Enough logits for several warps, and no power of two: the kernel must leave the rest out.
_POSITIVES, _LOGITS = 120, 300
# The risk is float32 on both sides: only the order of its sums may differ.
_LARGEST_RISK_ERROR = 1e-4


def agrees(
    config: NetworkConfig, device: torch.device, fused: Output, fused_risk: DifferentiatedRisk
) -> bool:
    """Whether fused outputs, risks and their gradients are those of plain float32."""
    return trusted(
        lambda: _output_difference(config, device, fused) or _risk_difference(device, fused_risk),
        f"the fused kernels are not used on {device} ({{reason}}); "
        "bfloat16 through the library is, which is slower",
    )


def _output_difference(config: NetworkConfig, device: torch.device, fused: Output) -> str:
    """What is wrong with the fused output, or nothing."""
    shape = (_SAMPLES, config.frame_channels, config.height, config.width)
    # The caller's random numbers stay as they were.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)  # the CPU's alone
        frames = torch.randint(0, 256, shape, dtype=torch.uint8).to(device)
        network = ResidualCNN(replace(config, dropout=0.0)).to(device)
    scored = viewed(frames, config.view.scored)
    exact = _with_gradient(network, scored, lambda net, seen: net(seen))
    error, turn = _apart(_with_gradient(network, frames, fused), exact)
    rounding, rounded_turn = _apart(_with_gradient(network, scored, _rounded), exact)
    # Compared so that a NaN counts as a difference.
    if not error <= max(_LARGEST_ERROR, _TIMES_ROUNDING * rounding):
        return f"an output is off by {error:.2g} of the outputs' spread, rounding by {rounding:.2g}"
    if not turn <= max(_LARGEST_TURN, _TIMES_ROUNDING * rounded_turn):
        return f"a gradient's cosine to the right one is {1 - turn:.3f}"
    return ""


def _rounded(network: ResidualCNN, frames: Tensor) -> Tensor:
    """The network in the library's bfloat16."""
    with torch.autocast(frames.device.type, torch.bfloat16):
        features = network.embed(frames)
    return network.read_out(features, None)


def _apart(found: tuple[Tensor, Tensor], right: tuple[Tensor, Tensor]) -> tuple[float, float]:
    """Largest error of the outputs in units of their spread, and one less the gradients' cosine."""
    error = (found[0] - right[0]).abs().max() / right[0].std()
    return float(error), 1.0 - float(F.cosine_similarity(found[1], right[1], dim=0))


def _with_gradient(network: ResidualCNN, frames: Tensor, output: Output) -> tuple[Tensor, Tensor]:
    """Outputs, and the gradient of their weighted sum by all parameters as one vector."""
    network.zero_grad(set_to_none=True)
    with torch.inference_mode(False), torch.enable_grad():  # whatever the asker is doing
        values = output(network, frames)
        values.backward(torch.linspace(-1.0, 1.0, len(values), device=values.device))
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in network.parameters()]
    return values.detach().float(), torch.cat([g.float().reshape(-1) for g in gradients])


def _risk_difference(device: torch.device, fused: DifferentiatedRisk) -> str:
    """What is wrong with the fused risks, or nothing."""
    # A discriminator that knows nothing, and one that is so sure that nnPU steps back.
    kinds = product((pn, upu, nnpu), get_args(Loss), (0.0, 8.0), (False, True))
    for risk, loss, sureness, even in kinds:
        error = _risk_error(risk, loss, sureness, even, device, fused)
        if not error <= _LARGEST_RISK_ERROR:
            name = getattr(risk, "__name__", str(risk))
            return f"the {loss} {name} risk or its gradient is off by {error:.2g} of its size"
    return ""


def _risk_error(
    risk: RiskFunction,
    loss: Loss,
    sureness: float,
    even: bool,
    device: torch.device,
    fused: DifferentiatedRisk,
) -> float:
    """Largest error of a risk's members or of its gradient, as a share of the largest of them."""
    with torch.inference_mode(False), torch.enable_grad():
        logits = torch.linspace(-2.0, 2.0, _LOGITS, device=device).roll(97)
        logits[:_POSITIVES] += sureness
        logits[_POSITIVES:] -= sureness
        logits.requires_grad_()
        prior = torch.tensor(0.4, device=device)
        settings = {"prior": prior, "slack": 0.05, "step_back": 0.5, "loss": loss, "even": even}
        exact = risk(logits[:_POSITIVES], logits[_POSITIVES:], **settings)
        (right_way,) = torch.autograd.grad(exact.objective, logits)
    metrics, way = fused(risk, logits.detach(), _POSITIVES, **settings)
    members = torch.stack([member.detach().float() for member in exact])
    pairs = ((metrics[: len(members)], members), (way, right_way))
    errors = [(ours - right).abs().max() / right.abs().max() for ours, right in pairs]
    return float(torch.stack(errors).max())
