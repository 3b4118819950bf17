# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false, reportIndexIssue=false
# ruff: noqa: N803 - capitals are Triton's compile-time constants
"""The risks of `pureward.rewards.risks.pu`, their gradient and the metrics in one kernel.

As plain tensor operations they take about 60 launches on a few hundred numbers, a tenth of
the time of an update. The equations are documented there; tests compare this kernel with them.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from pureward.rewards.risks.pu import (
    CERTAIN,
    LARGEST_LOGIT,
    Loss,
    RiskFunction,
    check_loss,
    checked,
    nnpu,
    pn,
    upu,
)

KINDS: dict[RiskFunction, int] = {pn: 0, upu: 1, nnpu: 2}
MAX_SAMPLES = 8192


def supports(risk: RiskFunction, samples: int) -> bool:
    """Return whether the kernel supports a risk and a number of samples."""
    return risk in KINDS and samples <= MAX_SAMPLES


@triton.jit
def risk_and_gradient(
    logits,
    prior,
    metrics,
    gradient,
    POSITIVES: tl.constexpr,
    SAMPLES: tl.constexpr,
    KIND: tl.constexpr,
    SIGMOID: tl.constexpr,
    SLACK: tl.constexpr,
    STEP_BACK: tl.constexpr,
    EVEN: tl.constexpr,
    CERTAIN: tl.constexpr,
    LARGEST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Metrics, and the gradient of the objective by the logits; the grid is one program."""
    i = tl.arange(0, BLOCK)
    eta = tl.load(prior)
    logit = tl.load(logits + i, mask=i < SAMPLES, other=0.0)
    certain = (logit > CERTAIN) & (i < POSITIVES) & (KIND == 1)
    is_flat = certain | (tl.abs(logit) > LARGEST)  # clamped logits have no gradient
    logit = tl.where(certain, CERTAIN, logit)
    logit = tl.where(logit > LARGEST, LARGEST, tl.where(logit < -LARGEST, -LARGEST, logit))
    success = tl.sigmoid(logit)
    if SIGMOID:
        loss_one, loss_zero = 1 - success, success
        slope_zero = success * (1 - success)
        slope_one = -slope_zero
    else:
        bend = tl.log(1 + tl.exp(-tl.abs(logit)))
        loss_one, loss_zero = tl.maximum(-logit, 0.0) + bend, tl.maximum(logit, 0.0) + bend
        slope_one, slope_zero = success - 1, success
    of_positives = tl.where(i < POSITIVES, 1.0 / POSITIVES, 0.0)
    of_unlabeled = tl.where((i >= POSITIVES) & (i < SAMPLES), 1.0 / (SAMPLES - POSITIVES), 0.0)
    successes, failures = eta, 1.0
    if EVEN:
        successes, failures = 0.5, 0.5 / (1 - eta)
    positive = successes * tl.sum(of_positives * loss_one, 0)
    negative = tl.sum(of_unlabeled * loss_zero, 0)
    by_logit = successes * of_positives * slope_one
    if KIND == 0:
        negative *= 1 - eta
        by_negative = (1 - eta) * of_unlabeled * slope_zero
    else:
        negative -= eta * tl.sum(of_positives * loss_zero, 0)
        by_negative = (of_unlabeled - eta * of_positives) * slope_zero
    negative *= failures
    by_negative *= failures
    violated = (negative < -SLACK) & (KIND > 0)
    value = positive + negative
    objective = value
    by_logit += by_negative
    if KIND == 2:
        value = positive + tl.maximum(negative, -SLACK)
        objective = tl.where(violated, -STEP_BACK * negative, objective)
        by_logit = tl.where(violated, -STEP_BACK * by_negative, by_logit)
    by_logit = tl.where(is_flat, 0.0, by_logit)
    tl.store(gradient + i, by_logit, mask=i < SAMPLES)
    tl.store(metrics, value)
    tl.store(metrics + 1, objective)
    tl.store(metrics + 2, positive)
    tl.store(metrics + 3, negative)
    tl.store(metrics + 4, violated.to(tl.float32))
    tl.store(metrics + 5, tl.sum(of_positives * success, 0))
    tl.store(metrics + 6, tl.sum(of_unlabeled * success, 0))


def differentiated(
    risk: RiskFunction,
    logits: Tensor,
    positives: int,
    *,
    prior: Tensor,
    slack: float,
    step_back: float = 1.0,
    loss: Loss,
    even: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the metrics of an update and the gradient of its objective by the logits.

    Args:
        risk: one of `KINDS`.
        logits: (n,) float32, at most `MAX_SAMPLES`, the positives first.
        positives: number of positive logits.
        prior: 0-d, on the logits' device.
        slack: β.
        step_back: γ.
        loss: "logistic" or "sigmoid".
        even: whether successes and failures have equal weights.

    Returns:
        (7,): value, objective, positive and negative part, violated, and mean D of positives and
        unlabeled; and the gradient, (n,).
    """
    checked(logits[:positives], logits[positives:], prior, slack, step_back, even)
    check_loss(loss)
    metrics, gradient = logits.new_empty(7), torch.empty_like(logits)
    risk_and_gradient[(1,)](
        logits, prior, metrics, gradient, POSITIVES=positives, SAMPLES=len(logits),
        KIND=KINDS[risk], SIGMOID=loss == "sigmoid", SLACK=slack, STEP_BACK=step_back,
        EVEN=even, CERTAIN=CERTAIN, LARGEST=LARGEST_LOGIT,
        BLOCK=triton.next_power_of_2(len(logits)),
    )  # fmt: skip
    return metrics, gradient
