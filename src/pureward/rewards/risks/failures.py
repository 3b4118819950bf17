# SPDX-License-Identifier: Apache-2.0
"""A risk for positives, unlabeled frames and known failures."""

from numbers import Real

import torch
from torch import Tensor

from pureward.errors import InputError
from pureward.rewards.risks.pu import (
    Loss,
    Risk,
    checked,
    checked_logits,
    class_weights,
    detached,
    label_risk,
)


def nnpnu(
    positive_logits: Tensor,
    unlabeled_logits: Tensor,
    *,
    failure_logits: Tensor | None = None,
    failure_weight: float | Tensor = 0.2,
    prior: float | Tensor,
    slack: float = 0.0,
    step_back: float = 1.0,
    loss: Loss = "logistic",
    even: bool = False,
) -> Risk:
    """Non-negative risk with known failures N: η·R¹(P) + ρ(1−η)·R⁰(N) + max(−β, B).

    B = (1−ρ)·(R⁰(U) − η·R⁰(P)) is the failure risk estimated from unlabeled frames. Only B can be
    negative, so only B is bounded: below −β the objective is −γ·B, as in `nnpu`. With ρ = 0 this
    is `nnpu`, with ρ = 1 positive-negative learning on P and N.

    Args:
        positive_logits: (n,) logits of demonstrations or annotated states.
        unlabeled_logits: (m,) logits of the agent's states.
        failure_logits: (k,) logits of states of known failures.
        failure_weight: ρ in [0, 1]. Known failures come from other policies than the current one,
            so ρ is small.
        prior: η.
        slack: β.
        step_back: γ.
        loss: "logistic" or "sigmoid".
        even: whether successes and failures have equal weights.
    """
    p, u = checked(positive_logits, unlabeled_logits, prior, slack, step_back, even)
    if failure_logits is None:
        raise InputError("nnpnu needs failure_logits, got none; use nnpu without known failures")
    n = checked_logits("failure", failure_logits)
    if not isinstance(failure_weight, Tensor) and not (
        isinstance(failure_weight, Real) and 0 <= failure_weight <= 1
    ):
        raise InputError(f"failure_weight must lie in [0, 1], got {failure_weight!r}; try 0.2")
    successes, failures = class_weights(prior, even)
    positive = successes * label_risk(p, 1, loss)
    known = failures * failure_weight * (1 - prior) * label_risk(n, 0, loss)
    pu_negative = label_risk(u, 0, loss) - prior * label_risk(p, 0, loss)
    estimated = failures * (1 - failure_weight) * pu_negative
    violated = estimated < -slack
    value = positive + known + estimated.clamp(min=-slack)
    objective = torch.where(violated, -step_back * estimated, positive + known + estimated)
    return detached(value, objective, positive, known + estimated, violated)
