# SPDX-License-Identifier: Apache-2.0
"""Risks: what a discriminator minimises."""

from pureward.rewards.risks.failures import nnpnu
from pureward.rewards.risks.kind import RISKS, RiskKind
from pureward.rewards.risks.pu import Loss, Risk, RiskFunction, nnpu, pn, upu

RISKS.register("pn")(RiskKind(function=pn))
RISKS.register("upu")(RiskKind(function=upu))
RISKS.register("nnpu")(RiskKind(function=nnpu))
RISKS.register("nnpnu")(RiskKind(function=nnpnu, takes_failures=True))

__all__ = ["RISKS", "Loss", "Risk", "RiskFunction", "RiskKind", "nnpnu", "nnpu", "pn", "upu"]
