# SPDX-License-Identifier: Apache-2.0
"""Risks: what a discriminator minimises."""

from dataclasses import dataclass

from pureward.registry import Registry
from pureward.rewards.risks.pu import Loss, Risk, RiskFunction, nnpnu, nnpu, pn, upu

__all__ = ["RISKS", "Loss", "Risk", "RiskFunction", "RiskKind", "nnpnu", "nnpu", "pn", "upu"]


@dataclass(frozen=True, kw_only=True)
class RiskKind:
    """A risk and the batches that it needs."""

    function: RiskFunction
    """From logits of positives and of unlabeled frames to a `Risk`."""
    takes_failures: bool = False
    """Whether it also takes `failure_logits`, of known failures."""


#: Name → risk. Add one with `RISKS.register("mine")(RiskKind(function=mine))`.
RISKS: Registry[RiskKind] = Registry("risk")
RISKS |= {
    "pn": RiskKind(function=pn),
    "upu": RiskKind(function=upu),
    "nnpu": RiskKind(function=nnpu),
    "nnpnu": RiskKind(function=nnpnu, takes_failures=True),
}
