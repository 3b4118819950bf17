# SPDX-License-Identifier: Apache-2.0
"""A policy averaged over the latest part of its learning.

Beside a reward that learns too, a policy swings about where both are content. The mean of its
weights over a swing stays nearer to that than any one of them.
"""

from copy import deepcopy

import torch
from torch import Tensor

from pureward.agents.d4pg.network import Actor
from pureward.agents.d4pg.weights import flattened


class AveragedPolicy:
    """Follows a policy at a pace that slows down as 1/t: its window is a share of all rounds."""

    def __init__(self, actor: Actor, weights: Tensor, window: float) -> None:
        """Begin where the policy is.

        Args:
            actor: the policy that learns.
            weights: all its weights, flat, as `flattened` made them.
            window: share of the rounds so far, the latest ones, that are averaged.
        """
        self.actor = deepcopy(actor)
        self._own = flattened(self.actor).parts[0]
        self._weights = weights
        self._window = window
        self.rounds = torch.zeros((), device=weights.device)

    @torch.no_grad()
    def follow(self) -> None:
        """Take account of the policy as it is now; capturable."""
        self._own.lerp_(self._weights.detach(), 1.0 / (1.0 + self._window * self.rounds))
        self.rounds.add_(1.0)

    def tensors(self) -> dict[str, Tensor]:
        """What changes and has to be saved, by name."""
        weights = {f"actor.{name}": t for name, t in self.actor.state_dict().items()}
        return weights | {"rounds": self.rounds}
