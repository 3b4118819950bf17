# SPDX-License-Identifier: Apache-2.0
"""A risk that takes known failures beside positives and unlabeled frames."""

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
    is_number,
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

    B = (1−ρ)·(R⁰(U) − η·R⁰(P)) is the part for failures that the unlabeled give. It alone can
    fall below zero, so it alone is held, tighter than a bound on the whole failure part: below
    −β the objective is −γ·B, as in `nnpu`. With ρ = 0 this is `nnpu`, with ρ = 1 plain
    positive-negative learning on P and N.

    Args:
        positive_logits: (n,) logits of demonstrations or annotated states.
        unlabeled_logits: (m,) logits of the agent's states.
        failure_logits: (k,) logits of states of known failures.
        failure_weight: ρ in [0, 1]. Failures on file are those of other policies than the one
            at hand, so the unlabeled keep the larger say.
        prior: η.
        slack: β.
        step_back: γ.
        loss: "logistic" or "sigmoid".
        even: whether successes and failures count alike.
    """
    p, u = checked(positive_logits, unlabeled_logits, prior, slack, step_back, even)
    if failure_logits is None:
        raise InputError("nnpnu needs failure_logits, got none; use nnpu without known failures")
    n = checked_logits("failure", failure_logits)
    if not isinstance(failure_weight, Tensor) and not (
        is_number(failure_weight) and 0 <= failure_weight <= 1
    ):
        raise InputError(f"failure_weight must lie in [0, 1], got {failure_weight!r}; try 0.2")
    successes, failures = class_weights(prior, even)
    positive = successes * label_risk(p, 1, loss)
    known = failures * failure_weight * (1 - prior) * label_risk(n, 0, loss)
    unmixed = label_risk(u, 0, loss) - prior * label_risk(p, 0, loss)
    hidden = failures * (1 - failure_weight) * unmixed
    violated = hidden < -slack
    value = positive + known + hidden.clamp(min=-slack)
    objective = torch.where(violated, -step_back * hidden, positive + known + hidden)
    return detached(value, objective, positive, known + hidden, violated)
