# SPDX-License-Identifier: Apache-2.0
"""The state after a terminal one, seen as a black frame.

Imitation rewards −log(1 − D) are never negative. If nothing is paid after a terminal state, an
agent that avoids the end is paid more, even if the demonstrations end there. Here an episode that
terminates continues in an absorbing state to the time limit, for demonstrations and for the agent
(Kostrikov et al., Discriminator-Actor-Critic, 2019). D sees black frames in the shares that this
gives, and the reward r of a black frame is paid for ever: r / (1 − γ).
"""

from collections.abc import Mapping

import torch
from torch import Tensor


class Absorbing:
    """Shares of absorbing steps among demonstrations and among the agent's recent steps."""

    def __init__(
        self,
        *,
        horizon: int,
        positive_share: float,
        recent: int,
        frame_shape: tuple[int, int, int],
        device: torch.device | str,
        worlds: int = 0,
    ) -> None:
        """Begin with no agent steps.

        Args:
            horizon: steps to the time limit.
            positive_share: share of absorbing steps among positives.
            recent: number of agent steps over which their share is averaged.
            frame_shape: channels (of all stacked frames), height and width.
            device: the learner's.
            worlds: number of worlds; 0 takes that of the first `arrive`.
        """
        self._horizon, self._recent = horizon, recent
        self._positive_share = torch.tensor(positive_share, device=device)
        self.frame = torch.zeros(1, *frame_shape, dtype=torch.uint8, device=device)
        """The frame of the absorbing state, uint8 (1, channels, height, width)."""
        self._age = torch.zeros(worlds, dtype=torch.int64, device=device)
        self._counts = torch.zeros(2, dtype=torch.float64, device=device)  # absorbing, others

    @torch.no_grad()
    def arrive(self, terminated: Tensor, ended: Tensor, stepped: Tensor | None = None) -> None:
        """Count one step of every world, or of those that `stepped`; all are bool (worlds,)."""
        if len(self._age) != len(ended):
            self._age = torch.zeros(len(ended), dtype=torch.int64, device=self._age.device)
        self._age.add_(1 if stepped is None else stepped)
        left = (self._horizon - self._age).clamp(min=0) * terminated
        self._age.mul_(~ended)
        self._counts.mul_(1.0 - min(1.0, len(ended) / self._recent))
        self._counts[0] += left.sum()
        self._counts[1] += len(ended) if stepped is None else stepped.sum()

    @property
    def agent_share(self) -> Tensor:
        """Share of absorbing steps among the agent's, on the device."""
        return (self._counts[0] / self._counts.sum().clamp(min=1.0)).float()

    def among_positives(self, frames: Tensor, generator: torch.Generator) -> Tensor:
        """Replace positives by absorbing frames, each with the probability of their share."""
        return self._mixed(frames, self._positive_share, generator)

    def among_unlabeled(self, frames: Tensor, generator: torch.Generator) -> Tensor:
        """Replace agent frames by absorbing frames, each with the probability of their share."""
        return self._mixed(frames, self.agent_share, generator)

    def end_episodes(self) -> None:
        """Leave out the episodes that are under way: the next step begins new ones."""
        self._age.zero_()

    def tensors(self) -> Mapping[str, Tensor]:
        """Return the state to save, by name."""
        return {"age": self._age, "counts": self._counts}

    def load_tensors(self, saved: Mapping[str, Tensor]) -> None:
        """Load what `tensors` returned."""
        self._age = saved["age"].to(self._age, copy=True)  # `arrive` counts in place
        self._counts.copy_(saved["counts"])

    def _mixed(self, frames: Tensor, share: Tensor, generator: torch.Generator) -> Tensor:
        uniform = torch.rand(len(frames), device=frames.device, generator=generator)
        return torch.where((uniform < share).view(-1, 1, 1, 1), self.frame, frames)
