# SPDX-License-Identifier: Apache-2.0
"""Class priors η by name: fixed or estimated."""

from pureward.rewards.priors.estimated import EstimatedPrior
from pureward.rewards.priors.prior import PRIORS, FixedPrior, Prior, PriorData, parse_prior

__all__ = ["PRIORS", "EstimatedPrior", "FixedPrior", "Prior", "PriorData", "parse_prior"]
