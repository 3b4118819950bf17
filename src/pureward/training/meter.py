# SPDX-License-Identifier: Apache-2.0
"""Metrics that stay on the device until somebody asks: means, and the first sign of trouble."""

from collections.abc import Mapping

import torch
from torch import Tensor

from pureward.errors import TrainingError

# Room must be there before the metrics are named: a captured graph writes to fixed places.
_MOST = 32


class Meter:
    """Takes metrics in without waiting for the device, also inside a captured graph."""

    def __init__(self, device: torch.device, *, updates: int = 1) -> None:
        """Begin with nothing; each set of metrics stands for so many updates."""
        self._updates = updates
        self._names: list[str] = []
        self._sum = torch.zeros(_MOST, device=device)
        self._count = torch.zeros((), dtype=torch.int64, device=device)
        self._taken = torch.zeros((), dtype=torch.int64, device=device)
        self._first_bad = torch.zeros(_MOST, dtype=torch.int64, device=device)

    def take(self, metrics: Mapping[str, Tensor]) -> Tensor:
        """Add one set of metrics, the same names each time."""
        self._names = list(metrics)
        values = torch.stack([value.float() for value in metrics.values()])
        self._sum[: len(values)] += values
        self._count += 1
        self._taken += 1
        first_bad = self._first_bad[: len(values)]
        newly_bad = ~values.isfinite() & (first_bad == 0)
        first_bad.copy_(torch.where(newly_bad, self._taken, first_bad))
        return values

    def read(self) -> dict[str, float]:
        """Means since the last reading; waits for the device, raises if one is no number."""
        self.check()
        count = int(self._count)
        if not count:
            return {}
        means = (self._sum[: len(self._names)] / count).tolist()
        self._sum.zero_()
        self._count.zero_()
        return dict(zip(self._names, means, strict=True))

    def check(self) -> None:
        """Raise if a metric has not been finite, naming it and the update."""
        for name, taken in zip(self._names, self._first_bad.tolist(), strict=False):
            if taken:
                raise TrainingError(
                    f"{name} is not finite since update {taken * self._updates}; the last good "
                    "checkpoint is kept: lower the learning rates or look at the rewards"
                )

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint must hold for the next reading to be the same."""
        return {
            "sum": self._sum,
            "count": self._count,
            "taken": self._taken,
            "first_bad": self._first_bad,
        }
