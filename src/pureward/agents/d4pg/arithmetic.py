# SPDX-License-Identifier: Apache-2.0
"""Chooses between torch's operations and the fused kernels (`kernels/d4pg`) for updates.

"plain" is the reference, float32 throughout. "fused" needs CUDA and a fifth of the launches; its
matrix products round their factors to TF32 (10 bits) and sum in float32. "auto" is fused on CUDA
if Triton is installed and the kernels agree with plain on this machine, for this batch size.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, get_args

import torch

from pureward.errors import InputError

if TYPE_CHECKING:
    from pureward.agents.d4pg.agent import D4PG
    from pureward.kernels.d4pg.update import FusedUpdate

Arithmetic = Literal["auto", "plain", "fused"]


def resolve(arithmetic: Arithmetic, agent: "D4PG") -> Arithmetic:
    """Return "plain" if the kernels cannot run; raise InputError if "fused" was requested."""
    if arithmetic not in get_args(Arithmetic):
        raise InputError(f"unknown arithmetic {arithmetic!r}; choose from {get_args(Arithmetic)}")
    covered = agent.device.type == "cuda" and _covered(agent)
    if arithmetic == "fused" and not covered:
        raise InputError(
            f"fused updates need a CUDA device, Triton and layers of usual size, got "
            f"{agent.device} and {agent.config.actor_layers}, {agent.config.critic_layers}; "
            "use 'auto'"
        )
    return arithmetic if covered else "plain"


def fused_update(agent: "D4PG", batch: int) -> "FusedUpdate | None":
    """Return the kernels for an agent and a batch size, or None if they may not be used."""
    from pureward.kernels.d4pg.update import FusedUpdate
    from pureward.kernels.d4pg.verify import agrees

    # Comparing waits for the device, which a graph cannot; warm-up calls come before it.
    trusted = agent.arithmetic == "fused" or (
        not torch.cuda.is_current_stream_capturing() and agrees(agent, batch)
    )
    return FusedUpdate(agent, batch) if trusted else None


def _covered(agent: "D4PG") -> bool:
    if find_spec("triton") is None:
        return False
    from pureward.kernels.d4pg.update import supports

    return supports(agent.config, agent.state_size, agent.action_size)
