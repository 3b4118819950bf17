# SPDX-License-Identifier: Apache-2.0
"""Whether the fused update may be trusted on this machine.

Its kernels are compiled for the GPU and the Triton that are here, not for the ones they were
written on. So before "auto" uses them, two agents alike take two updates, one of them fused; where
that fails or differs, torch's own kernels serve, and a warning says why.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pureward.agents.d4pg.config import Batch
from pureward.kernels.verify import trusted

if TYPE_CHECKING:
    from pureward.agents.d4pg.agent import D4PG

# TF32 keeps 11 bits of each factor: gradients of first layers, which small differences make, are
# up to some hundredths off in small batches. A wrong kernel's are off by their own size.
_LARGEST_ERROR = 0.15
# From the same gradients both must take the same step; this share of it, and a float's rounding.
_LARGEST_SLIP, _ROUNDING = 0.01, 1e-6


def agrees(agent: "D4PG", batch: int) -> bool:
    """Whether fused updates of an agent's shape, on batches of a size, are those of plain ones."""
    return trusted(
        lambda: _difference(agent, batch),
        f"fused updates are not used on {agent.device} ({{reason}}); plain ones are, which are "
        "slower",
    )


def _difference(agent: "D4PG", batch: int) -> str:
    """What is wrong with fused updates, or nothing."""
    from pureward.kernels.d4pg.update import FusedUpdate

    plain, twin = agent.twin(), agent.twin()
    fused = FusedUpdate(twin, batch)
    for seed in range(2):
        made_up = _batch(agent, batch, seed)
        for one in (plain, twin):
            one.observe(made_up.state)
        metrics = plain.find_gradients(made_up)
        fused.find_gradients(made_up)
        found = fused.gradients.sum(dim=0)
        for name, right, mine in _pairs(plain, found):
            error = _error(mine, right)
            if not error <= _LARGEST_ERROR:  # so that a NaN counts as a difference
                return f"the gradient by {name} is off by {error:.2g} of its size"
        plain.weights.gradients[: len(found)] = found
        plain.move()
        told = fused.move(fused.gradients)
        error = _error(torch.stack(list(told.values())), torch.stack(list(metrics.values())))
        if not error <= _LARGEST_ERROR:
            return f"the metrics are off by {error:.2g} of their size"
        slip = float((twin.weights.values - plain.weights.values).abs().max())
        rate = max(agent.config.actor_rate, agent.config.critic_rate)
        if not slip <= _LARGEST_SLIP * rate + _ROUNDING:
            return f"a weight or a target is off by {slip / rate:.2g} steps"
    return ""


def _batch(agent: "D4PG", size: int, seed: int) -> Batch:
    """Random steps, a tenth of them terminal; drawn on the CPU from a generator of its own."""
    rng = torch.Generator().manual_seed(seed)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=rng)

    reach = agent.config.value_high - agent.config.value_low
    terminal = torch.rand(size, generator=rng) < 0.1
    batch = Batch(
        state=drawn(size, agent.state_size),
        action=drawn(size, agent.action_size).tanh(),
        reward=0.05 * reach * drawn(size),
        discount=torch.where(terminal, 0.0, 0.95),
        next_state=drawn(size, agent.state_size),
    )
    return Batch(**{name: tensor.to(agent.device) for name, tensor in vars(batch).items()})


def _pairs(plain: "D4PG", found: Tensor) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Name, right gradient and found gradient of every parameter that learns."""
    for network in ("actor", "critic"):
        for name, parameter in getattr(plain, network).named_parameters():
            first = parameter.storage_offset()
            mine = found[first : first + parameter.numel()].view_as(parameter)
            yield f"{network}.{name}", parameter.grad, mine


def _error(found: Tensor, right: Tensor) -> float:
    return float((found - right).norm() / right.norm())
