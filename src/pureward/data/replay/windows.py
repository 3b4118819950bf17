# SPDX-License-Identifier: Apache-2.0
"""n-step windows: what a replay hands out, before anyone has said what it is worth."""

from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Windows:
    """Up to n consecutive steps of one episode, for each sample of a batch.

    A window of m ≤ n steps leaves `state` by `action` and arrives, m steps later, at
    `next_state`. It is shorter than n where the episode, or what is known of it, ends.
    """

    state: Tensor
    """s_t, float32 (batch, state size)."""
    action: Tensor
    """a_t, float32 (batch, action size)."""
    task_reward: Tensor
    """The task's own reward of each arrival, float32 (batch, n); for `truth` and logs."""
    mask: Tensor
    """Which of the n steps the window has, bool (batch, n); the first always."""
    weight: Tensor
    """γ^j, float32 (n,): what a reward j steps ahead counts."""
    discount: Tensor
    """γ^m, or 0 where the window ends in a terminal state, float32 (batch,)."""
    next_state: Tensor
    """s_t+m, float32 (batch, state size)."""
    steps: Tensor
    """Places of the steps in the ring, int64 (batch, n); `Replay.arrival_frames` reads them.

    Steps the window lacks repeat its last one, so every place is a real one.
    """

    def n_step_return(self, rewards: Tensor) -> Tensor:
        """Discounted sum over the window of rewards (batch, n) of its arrivals: (batch,)."""
        # Rewards of steps the window lacks may be anything, NaN too, and count nothing.
        return torch.where(self.mask, rewards * self.weight, 0.0).sum(dim=1)

    def chunk(self, parts: int) -> list["Windows"]:
        """Cut a batch into equal ones: one draw and one relabelling for several updates."""
        shared = {"weight": self.weight}
        names = [field.name for field in fields(self) if field.name not in shared]
        pieces = zip(*(getattr(self, name).chunk(parts) for name in names), strict=True)
        return [Windows(**dict(zip(names, piece, strict=True)), **shared) for piece in pieces]
