# SPDX-License-Identifier: Apache-2.0
"""n-step windows: samples of a replay, before they have rewards."""

from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Windows:
    """Up to n consecutive steps of one episode, for each sample of a batch.

    A window of m ≤ n steps leaves `state` by `action` and arrives, m steps later, at
    `next_state`. It is shorter than n if the episode ends, or at the newest step.
    """

    state: Tensor
    """s_t, float32 (batch, state size)."""
    action: Tensor
    """a_t, float32 (batch, action size)."""
    task_reward: Tensor
    """The task's own reward of each arrival, float32 (batch, n); for `truth` and logs."""
    mask: Tensor
    """Which of the n steps the window has, bool (batch, n); always the first."""
    weight: Tensor
    """γ^j, float32 (n,): the weight of a reward j steps ahead."""
    discount: Tensor
    """γ^m, or 0 if the window ends in a terminal state, float32 (batch,)."""
    next_state: Tensor
    """s_t+m, float32 (batch, state size)."""
    steps: Tensor
    """Indices of the steps in the ring, int64 (batch, n), for `Replay.arrival_frames`.

    Steps the window lacks repeat its last one, so every index is valid.
    """

    def n_step_return(self, rewards: Tensor) -> Tensor:
        """Return the discounted sum of rewards (batch, n) over each window: (batch,)."""
        # Rewards of steps the window lacks may be NaN, so they are masked and not multiplied.
        return torch.where(self.mask, rewards * self.weight, 0.0).sum(dim=1)

    def absorbing_return(self, reward: Tensor, discount: float) -> Tensor:
        """Return the discounted sum of a constant reward after terminal states: (batch,).

        It is γ^m · r / (1 − γ) for a window that ends in a terminal state, else 0.

        Args:
            reward: of the absorbing state, float32 (1,).
            discount: γ, below 1.
        """
        last = torch.where(self.mask, self.weight, 1.0).amin(dim=1)  # γ^(m−1)
        after = last * discount / (1.0 - discount)
        return torch.where(self.discount == 0, after * reward, 0.0)

    def chunk(self, parts: int) -> list["Windows"]:
        """Split a batch into equal parts, for several updates of one sample."""
        shared = {"weight": self.weight}
        names = [field.name for field in fields(self) if field.name not in shared]
        pieces = zip(*(getattr(self, name).chunk(parts) for name in names), strict=True)
        return [Windows(**dict(zip(names, piece, strict=True)), **shared) for piece in pieces]
