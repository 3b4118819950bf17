# SPDX-License-Identifier: Apache-2.0
"""Checks that the fused update is correct on this machine.

Its kernels are compiled for this GPU and this version of Triton. Before "auto" uses them, two equal
agents make two updates, one of them fused. If that fails or differs, torch's own kernels are used,
and a warning gives the reason.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from pureward.agents.agent import Batch
from pureward.agents.d4pg.plain import PlainD4PG
from pureward.kernels.verify import trusted

# TF32 keeps 11 bits of each factor: in small batches, gradients of first layers are wrong by a few
# hundredths, since they are small differences. Those of a wrong kernel are wrong by their own size.
_LARGEST_ERROR = 0.15
# From equal gradients both must take equal steps, up to this share of it and float32 rounding.
_LARGEST_SLIP, _ROUNDING = 0.01, 1e-6


def agrees(agent: PlainD4PG, batch: int) -> bool:
    """Return whether fused updates of an agent's shape and a batch size equal the plain ones."""
    return trusted(
        lambda: _differences(agent, batch),
        f"fused updates are not used on {agent.device} ({{reason}}); plain updates are used "
        "instead, which are slower",
    )


def _differences(agent: PlainD4PG, batch: int) -> Iterator[str]:
    """Yield what is wrong with fused updates."""
    from pureward.kernels.d4pg.update import FusedUpdate

    plain, twin = agent.twin(), agent.twin()
    fused = FusedUpdate(twin, batch)
    for seed in range(2):
        sample = _batch(agent, batch, seed)
        for one in (plain, twin):
            one.observe(sample.state)
        metrics = plain.find_gradients(sample)
        fused.find_gradients(sample)
        found = fused.gradients.sum(dim=0)
        for name, right, mine in _pairs(plain, found):
            error = _error(mine, right)
            if not error <= _LARGEST_ERROR:  # also true for NaN
                yield f"the relative error of the gradient by {name} is {error:.2g}"
        plain.weights.gradients[: len(found)] = found
        plain.move()
        found_metrics = fused.move(fused.gradients)
        pair = (torch.stack(list(one.values())) for one in (found_metrics, metrics))
        error = _error(*pair)
        if not error <= _LARGEST_ERROR:
            yield f"the relative error of the metrics is {error:.2g}"
        slip = float((twin.weights.values - plain.weights.values).abs().max())
        rate = max(agent.config.actor_rate, agent.config.critic_rate)
        if not slip <= _LARGEST_SLIP * rate + _ROUNDING:
            yield f"the error of a weight or a target is {slip / rate:.2g} steps"


def _batch(agent: PlainD4PG, size: int, seed: int) -> Batch:
    """Random steps, a tenth of them terminal, sampled on the CPU with their own generator."""
    rng = torch.Generator().manual_seed(seed)

    def sampled(*shape: int) -> Tensor:
        return torch.randn(shape, generator=rng)

    reach = agent.config.value_high - agent.config.value_low
    terminal = torch.rand(size, generator=rng) < 0.1
    batch = Batch(
        state=sampled(size, agent.state_size),
        action=sampled(size, agent.action_size).tanh(),
        reward=0.05 * reach * sampled(size),
        discount=torch.where(terminal, 0.0, 0.95),
        next_state=sampled(size, agent.state_size),
    )
    return Batch(**{name: tensor.to(agent.device) for name, tensor in vars(batch).items()})


def _pairs(plain: PlainD4PG, found: Tensor) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Name, plain gradient and fused gradient of every trained parameter."""
    for network in ("actor", "critic"):
        for name, parameter in getattr(plain, network).named_parameters():
            first = parameter.storage_offset()
            mine = found[first : first + parameter.numel()].view_as(parameter)
            yield f"{network}.{name}", parameter.grad, mine


def _error(found: Tensor, right: Tensor) -> float:
    return float((found - right).norm() / right.norm())
