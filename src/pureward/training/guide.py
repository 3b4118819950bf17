# SPDX-License-Identifier: Apache-2.0
"""Episodes that the task's script starts and the policy finishes.

Random actions never stack two blocks. In a share of the worlds the script acts up to a random step
of each episode, so the policy practises every stage of the task.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from pureward.envs import BatchEnv


class Guide:
    """Replaces actions by the script's until the handover step of each episode."""

    def __init__(self, env: BatchEnv, *, share: float, generator: torch.Generator) -> None:
        """Guide this share of the worlds, spread evenly."""
        self._script = env.script()
        self._env = env
        self._latest = env.horizon // 2  # scripts have finished by then
        self._generator = generator
        place = torch.arange(env.worlds, device=env.device, dtype=torch.float64)
        self.guided = ((place + 1) * share).floor() > (place * share).floor()
        self.handover = self._sample()

    def __call__(self, action: Tensor, noise: Tensor) -> Tensor:
        """Return actions (worlds, action size): the script's plus noise before the handover."""
        elapsed = self._env.elapsed
        self.handover.copy_(torch.where(elapsed == 0, self._sample(), self.handover))
        scripted = (self._script() + noise).clamp(-1.0, 1.0)
        acts = self.guided & (elapsed < self.handover)
        return torch.where(acts[:, None], scripted, action)

    def tensors(self) -> Mapping[str, Tensor]:
        """Return the state for a checkpoint."""
        return {"handover": self.handover, **self._script.tensors()}

    def limits(self) -> Mapping[str, tuple[int, int]]:
        """Return the lowest and highest value of the tensors, by name."""
        return {"handover": (0, self._latest - 1), "move": (0, self._script.last_move)}

    def _sample(self) -> Tensor:
        """Handover steps, one per world."""
        shape, device = self._env.elapsed.shape, self._env.elapsed.device
        return torch.randint(self._latest, shape, generator=self._generator, device=device)
