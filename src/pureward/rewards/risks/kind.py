# SPDX-License-Identifier: Apache-2.0
"""Risks by name, each with the batches of frames that it takes."""

from dataclasses import dataclass

from pureward.registry import Registry
from pureward.rewards.risks.pu import RiskFunction


@dataclass(frozen=True, kw_only=True)
class RiskKind:
    """A risk and what it needs."""

    function: RiskFunction
    """Takes logits of positives and of unlabeled frames."""
    takes_failures: bool = False
    """Whether it also takes `failure_logits`, those of known failures."""


#: Name → risk. Add one with `RISKS.register("mine")(RiskKind(function=mine))`.
RISKS: Registry[RiskKind] = Registry("risk")
