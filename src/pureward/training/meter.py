# SPDX-License-Identifier: Apache-2.0
"""Sums of metrics on the device, and the first update at which each was not finite."""

from collections.abc import Mapping

import torch
from torch import Tensor

from pureward.errors import InputError, TrainingError

# Allocated before the metrics are known: a captured graph writes to fixed addresses.
_MOST_METRICS = 32


class Meter:
    """Adds up metrics without waiting for the device, also inside a captured graph."""

    def __init__(self, device: torch.device, *, updates: int = 1) -> None:
        """Start at 0; `updates` is the number of updates per call of `add`."""
        self._updates = updates
        self._names: list[str] = []
        self._sum = torch.zeros(_MOST_METRICS, device=device)
        self._count = torch.zeros((), dtype=torch.int64, device=device)
        self._taken = torch.zeros((), dtype=torch.int64, device=device)
        self._first_bad = torch.zeros(_MOST_METRICS, dtype=torch.int64, device=device)

    def add(self, metrics: Mapping[str, Tensor]) -> Tensor:
        """Add metrics, 0-d tensors with the same names at each call; return them stacked."""
        if len(metrics) > _MOST_METRICS:
            raise InputError(
                f"an update may return at most {_MOST_METRICS} metrics, got {len(metrics)}; "
                "leave some out"
            )
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
        """Return means since the last call; waits for the device, raises if one is not finite."""
        self.check()
        count = int(self._count)
        if not count:
            return {}
        means = (self._sum[: len(self._names)] / count).tolist()
        self._sum.zero_()
        self._count.zero_()
        return dict(zip(self._names, means, strict=True))

    def check(self) -> None:
        """Raise TrainingError if a metric was not finite."""
        for name, first_bad in zip(self._names, self._first_bad.tolist(), strict=False):
            if first_bad:
                raise TrainingError(
                    f"{name} is not finite since update {first_bad * self._updates}; the last good "
                    "checkpoint is kept: lower the learning rates or look at the rewards"
                )

    def tensors(self) -> dict[str, Tensor]:
        """Return the state for a checkpoint."""
        return {
            "sum": self._sum,
            "count": self._count,
            "taken": self._taken,
            "first_bad": self._first_bad,
        }
