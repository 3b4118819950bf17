# SPDX-License-Identifier: Apache-2.0
"""Episodes that the task's script begins and the policy ends.

Random actions never stack two blocks. In some worlds a script begins each episode and the policy
takes over at a random step, so that the policy practises every stage of the task from the start.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from pureward.envs import BatchEnv


class Guide:
    """Acts in a share of the worlds until each episode's own handover."""

    def __init__(self, env: BatchEnv, *, share: float, generator: torch.Generator) -> None:
        """Guide this share of the worlds, spread evenly over them."""
        self._script = env.script()
        self._elapsed = env.elapsed
        self._latest = env.horizon // 2  # scripts are done by then
        self._generator = generator
        place = torch.arange(env.worlds, device=env.device, dtype=torch.float64)
        self.guided = ((place + 1) * share).floor() > (place * share).floor()
        self.handover = self._draw()

    def __call__(self, action: Tensor, noise: Tensor) -> Tensor:
        """The policy's actions, and where the script still acts its own, with this noise."""
        self.handover.copy_(torch.where(self._elapsed == 0, self._draw(), self.handover))
        scripted = (self._script() + noise).clamp(-1.0, 1.0)
        acts = self.guided & (self._elapsed < self.handover)
        return torch.where(acts[:, None], scripted, action)

    def tensors(self) -> Mapping[str, Tensor]:
        """What changes and has to be saved, by name."""
        return {"handover": self.handover, **self._script.tensors()}

    def limits(self) -> Mapping[str, tuple[int, int]]:
        """Lowest and highest number of what is saved, by name."""
        return {"handover": (0, self._latest - 1), "move": (0, self._script.last_move)}

    def _draw(self) -> Tensor:
        """Control steps into an episode at which each world's policy takes over."""
        return torch.randint(
            self._latest,
            self._elapsed.shape,
            generator=self._generator,
            device=self._elapsed.device,
        )
