# SPDX-License-Identifier: Apache-2.0
"""Whether the fused kernels may be trusted on this machine.

They are compiled for the GPU and the Triton that are here, not for the ones they were written on.
So before "auto" uses them they compute one small batch beside plain float32; where they fail or
differ, the library's own bfloat16 serves, and a warning says why.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from pureward.reward.network import NetworkConfig, ResidualCNN

#: Maps a network and uint8 frames to one number a frame, differentiably.
Output = Callable[[ResidualCNN, Tensor], Tensor]

_SAMPLES = 16
# bfloat16 keeps 8 bits: after a dozen layers its outputs are some hundredths of their spread off,
# and its gradients point within a degree of the right way. A wrong kernel misses both by far.
_LARGEST_ERROR = 0.1
_SMALLEST_COSINE = 0.99


def agrees(config: NetworkConfig, device: torch.device, fused: Output) -> bool:
    """Whether a fused output and its gradient are those of plain float32, up to rounding."""
    try:
        reason = _difference(config, device, fused)
    except Exception as error:  # a compiler's, a driver's or a kernel's own: all mean "do not use"
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
    if reason:
        warnings.warn(
            f"the fused kernels are not used on {device} ({reason}); "
            "bfloat16 through the library is, which is slower",
            RuntimeWarning,
            stacklevel=2,
        )
    return not reason


def _difference(config: NetworkConfig, device: torch.device, fused: Output) -> str:
    """What is wrong with the fused output, or nothing."""
    shape = (_SAMPLES, config.frame_channels, config.height, config.width)
    # Whoever asks must find their own random numbers untouched afterwards.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)  # the CPU's alone
        frames = torch.randint(0, 256, shape, dtype=torch.uint8).to(device)
        network = ResidualCNN(replace(config, dropout=0.0)).to(device)
    expected, right_way = _with_gradient(network, frames, lambda net, seen: net(seen))
    actual, way = _with_gradient(network, frames, fused)
    error = float((actual - expected).abs().max() / expected.std())
    cosine = float(torch.nn.functional.cosine_similarity(way, right_way, dim=0))
    # Compared so that a NaN counts as a difference.
    if not error <= _LARGEST_ERROR:
        return f"an output is off by {error:.2g} of the outputs' spread"
    if not cosine >= _SMALLEST_COSINE:
        return f"a gradient's cosine to the right one is {cosine:.3f}"
    return ""


def _with_gradient(network: ResidualCNN, frames: Tensor, output: Output) -> tuple[Tensor, Tensor]:
    """Outputs, and the gradient of their weighted sum by all parameters as one vector."""
    network.zero_grad(set_to_none=True)
    with torch.inference_mode(False), torch.enable_grad():  # whatever the asker is doing
        values = output(network, frames)
        values.backward(torch.linspace(-1.0, 1.0, len(values), device=values.device))
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in network.parameters()]
    return values.detach().float(), torch.cat([g.float().reshape(-1) for g in gradients])
