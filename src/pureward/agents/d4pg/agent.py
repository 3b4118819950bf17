# SPDX-License-Identifier: Apache-2.0
"""D4PG whose updates use the fused CUDA kernels where they can."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import Tensor

from pureward.agents.agent import Batch
from pureward.agents.d4pg.config import D4PGConfig
from pureward.agents.d4pg.plain import PlainD4PG
from pureward.errors import InputError

if TYPE_CHECKING:
    from pureward.kernels.d4pg.update import FusedUpdate

#: Of updates. "plain" is the reference, torch's operations in float32. "fused" is our CUDA kernels
#: (`kernels/d4pg`), a fifth of the launches; their matrix products round factors to TF32 (10 bits)
#: and sum in float32. "auto" is fused on CUDA if Triton is installed and the kernels agree with
#: plain on this machine, for this batch size.
Arithmetic = Literal["auto", "plain", "fused"]


class D4PG(PlainD4PG):
    """The agent of a run: `PlainD4PG`, with a choice of arithmetic for its updates."""

    def __init__(
        self,
        config: D4PGConfig,
        *,
        state_size: int,
        action_size: int,
        device: torch.device | str = "cpu",
        seed: int = 0,
        arithmetic: Arithmetic = "auto",
    ) -> None:
        """Build networks, targets and optimiser.

        Args:
            config: shape and learning settings.
            state_size: numbers in a state.
            action_size: numbers in an action.
            device: of the networks and of all batches.
            seed: of the initial weights, the same on every device.
            arithmetic: "auto" for the fastest of the device; see `Arithmetic`.
        """
        shape = {"state_size": state_size, "action_size": action_size}
        super().__init__(config, **shape, device=device, seed=seed)
        self.arithmetic = self._resolved(arithmetic)
        self._fused: dict[int, FusedUpdate | None] = {}

    @torch.no_grad()
    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Update critic and actor with a batch; return metrics, detached."""
        fused = self._fused_update(len(batch.state))
        if fused is None:
            return super().update(batch)
        fused.find_gradients(batch)
        return fused.move(fused.gradients)

    def _resolved(self, arithmetic: Arithmetic) -> Arithmetic:
        """Return "plain" if the kernels cannot run; raise InputError if "fused" was requested."""
        if arithmetic not in get_args(Arithmetic):
            raise InputError(
                f"unknown arithmetic {arithmetic!r}; choose from {get_args(Arithmetic)}"
            )
        covered = self.device.type == "cuda" and find_spec("triton") is not None
        if covered:
            from pureward.kernels.d4pg.update import supports

            covered = supports(self.config, self.state_size, self.action_size)
        if arithmetic == "fused" and not covered:
            raise InputError(
                f"fused updates need a CUDA device, Triton and layers of usual size, got "
                f"{self.device} and {self.config.actor_layers}, {self.config.critic_layers}; "
                "use 'auto'"
            )
        return arithmetic if covered else "plain"

    def _fused_update(self, batch: int) -> "FusedUpdate | None":
        """The fused kernels for a batch size, or None for plain arithmetic."""
        if self.arithmetic == "plain":
            return None
        if batch not in self._fused:
            from pureward.kernels.d4pg.update import FusedUpdate
            from pureward.kernels.d4pg.verify import agrees

            # Comparing waits for the device, which a graph cannot; warm-up calls come before it.
            trusted = self.arithmetic == "fused" or (
                not torch.cuda.is_current_stream_capturing() and agrees(self, batch)
            )
            self._fused[batch] = FusedUpdate(self, batch) if trusted else None
        return self._fused[batch]
