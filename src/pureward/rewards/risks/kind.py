# SPDX-License-Identifier: Apache-2.0
"""Registry of risks."""

from dataclasses import dataclass

from pureward.registry import Registry
from pureward.rewards.risks.pu import RiskFunction


@dataclass(frozen=True, kw_only=True)
class RiskKind:
    """A risk and the batches that it needs."""

    function: RiskFunction
    """From logits of positives and of unlabeled frames to a `Risk`."""
    takes_failures: bool = False
    """Whether it also takes `failure_logits`, of known failures."""


#: Name → risk. Add one with `RISKS.register("mine")(RiskKind(function=mine))`.
RISKS: Registry[RiskKind] = Registry("risk")
