# SPDX-License-Identifier: Apache-2.0
"""Risks by name, each with the batches of frames that it takes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pureward.registry import Registry
from pureward.rewards.risks.pu import RiskFunction

#: Makes a third batch from positive and unlabeled frames: frames, and keywords for the risk.
MakeBatch = Callable[[Tensor, Tensor, torch.Generator], tuple[Tensor, dict[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class RiskKind:
    """A risk and what it needs."""

    function: RiskFunction
    """Takes logits of positives and of unlabeled frames, and the keyword of a third batch."""
    third: str = ""
    """Keyword by which it takes the logits of a third batch; "" if it takes two."""
    make_third: MakeBatch | None = None
    """Makes the third batch; without it, the batch is of known failures."""
    prior: str = ""
    """The only prior that makes sense with it; "" if the user may choose."""

    @property
    def takes_failures(self) -> bool:
        """Whether every update needs frames of known failures."""
        return bool(self.third) and self.make_third is None


#: Name → risk. Add one with `RISKS.register("mine")(RiskKind(function=mine))`.
RISKS: Registry[RiskKind] = Registry("risk")
