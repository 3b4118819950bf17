# SPDX-License-Identifier: Apache-2.0
"""Checks that the fused kernels are correct on this machine.

They are compiled for this GPU and this version of Triton. Before "auto" uses them, they compute one
small batch, which is compared with plain float32. If they fail or differ, torch's bfloat16 is used,
and a warning gives the reason.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, product
from typing import get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from pureward.kernels.verify import trusted
from pureward.rewards.network import NetworkConfig, ResidualCNN
from pureward.rewards.risks.pu import Loss, RiskFunction, nnpu, pn, upu
from pureward.rewards.view import viewed

#: A differentiable function of a network and uint8 frames that returns one number per frame.
Output = Callable[[ResidualCNN, Tensor], Tensor]
#: A function of a risk, logits, the number of positives and the risk's settings. It returns
#: metrics, the fields of `Risk` first, and the gradient of the objective by the logits.
DifferentiatedRisk = Callable[..., tuple[Tensor, Tensor]]

_SAMPLES = 16
# bfloat16 keeps 8 bits: after a dozen layers, outputs have errors of some hundredths of their
# standard deviation, or a tenth if that is small, and gradients are rotated by some degrees.
# torch's bfloat16 shows how much of that is rounding; the error of a wrong kernel is far larger.
_LARGEST_ERROR = 0.1
_LARGEST_ROTATION = 0.01  # 1 − cosine
_TIMES_ROUNDING = 3.0
# Enough logits for several warps, and not a power of two: the kernel must mask the rest.
_POSITIVES, _LOGITS = 120, 300
# The risk is float32 in both: only the order of sums may differ.
_LARGEST_RISK_ERROR = 1e-4


def agrees(
    config: NetworkConfig, device: torch.device, fused: Output, fused_risk: DifferentiatedRisk
) -> bool:
    """Return whether fused outputs, risks and their gradients equal those of plain float32."""
    return trusted(
        lambda: chain(
            _output_differences(config, device, fused), _risk_differences(device, fused_risk)
        ),
        f"fused kernels are not used on {device} ({{reason}}); "
        "torch's bfloat16 is used instead, which is slower",
    )


def _output_differences(
    config: NetworkConfig, device: torch.device, fused: Output
) -> Iterator[str]:
    """Yield what is wrong with the fused output."""
    shape = (_SAMPLES, config.frame_channels, config.height, config.width)
    # Leave the caller's random state unchanged.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)  # of the CPU only
        frames = torch.randint(0, 256, shape, dtype=torch.uint8).to(device)
        network = ResidualCNN(replace(config, dropout=0.0)).to(device)
    scored = viewed(frames, config.view.scored)
    exact = _with_gradient(network, scored, lambda net, seen: net(seen))
    error, rotation = _apart(_with_gradient(network, frames, fused), exact)
    rounding, rounded_rotation = _apart(_with_gradient(network, scored, _rounded), exact)
    # `not <=` is also true for NaN.
    if not error <= max(_LARGEST_ERROR, _TIMES_ROUNDING * rounding):
        yield f"the output error is {error:.2g} standard deviations, of rounding {rounding:.2g}"
    if not rotation <= max(_LARGEST_ROTATION, _TIMES_ROUNDING * rounded_rotation):
        yield f"the cosine of the gradient and the exact one is {1 - rotation:.3f}"


def _rounded(network: ResidualCNN, frames: Tensor) -> Tensor:
    """The network in torch's bfloat16."""
    with torch.autocast(frames.device.type, torch.bfloat16):
        features = network.embed(frames)
    return network.read_out(features, None)


def _apart(found: tuple[Tensor, Tensor], right: tuple[Tensor, Tensor]) -> tuple[float, float]:
    """Largest error of the outputs in standard deviations, and 1 − cosine of the gradients."""
    error = (found[0] - right[0]).abs().max() / right[0].std()
    return float(error), 1.0 - float(F.cosine_similarity(found[1], right[1], dim=0))


def _with_gradient(network: ResidualCNN, frames: Tensor, output: Output) -> tuple[Tensor, Tensor]:
    """Outputs, and the gradient of their weighted sum by all parameters as one vector."""
    network.zero_grad(set_to_none=True)
    with torch.inference_mode(False), torch.enable_grad():  # whatever the caller's mode
        values = output(network, frames)
        weights = torch.linspace(-1.0, 1.0, len(values), device=values.device)
        (values * weights).sum().backward()  # backward(weights) would import sympy
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in network.parameters()]
    return values.detach().float(), torch.cat([g.float().reshape(-1) for g in gradients])


def _risk_differences(device: torch.device, fused: DifferentiatedRisk) -> Iterator[str]:
    """Yield what is wrong with the fused risks."""
    # A discriminator at chance, and one so confident that nnPU takes its second branch.
    kinds = product((pn, upu, nnpu), get_args(Loss), (0.0, 8.0), (False, True))
    for risk, loss, margin, even in kinds:
        error = _risk_error(risk, loss, margin, even, device, fused)
        if not error <= _LARGEST_RISK_ERROR:
            name = getattr(risk, "__name__", str(risk))
            yield f"the relative error of the {loss} {name} risk or its gradient is {error:.2g}"


def _risk_error(
    risk: RiskFunction,
    loss: Loss,
    margin: float,
    even: bool,
    device: torch.device,
    fused: DifferentiatedRisk,
) -> float:
    """Largest error of a risk's fields or of its gradient, relative to the largest of them."""
    with torch.inference_mode(False), torch.enable_grad():
        logits = torch.linspace(-2.0, 2.0, _LOGITS, device=device).roll(97)
        logits[:_POSITIVES] += margin
        logits[_POSITIVES:] -= margin
        logits.requires_grad_()
        prior = torch.tensor(0.4, device=device)
        settings = {"prior": prior, "slack": 0.05, "step_back": 0.5, "loss": loss, "even": even}
        exact = risk(logits[:_POSITIVES], logits[_POSITIVES:], **settings)
        (exact_gradient,) = torch.autograd.grad(exact.objective, logits)
    metrics, gradient = fused(risk, logits.detach(), _POSITIVES, **settings)
    fields = torch.stack([field.detach().float() for field in exact])
    pairs = ((metrics[: len(fields)], fields), (gradient, exact_gradient))
    errors = [(ours - right).abs().max() / right.abs().max() for ours, right in pairs]
    return float(torch.stack(errors).max())
