# SPDX-License-Identifier: Apache-2.0
"""The risks of the paper as pure functions on logits (Eqs. 3–9), and one with known failures.

A logit is high for a success: D = sigmoid(logit). Every risk takes one batch of positive and one
batch of unlabeled logits, `nnpnu` also one of known failures. It uses only the means over batches,
has no host sync, and returns a `Risk`. All have the same signature and work under
`torch.func.vmap`.
"""

from collections.abc import Callable
from numbers import Real
from typing import Literal, NamedTuple, Protocol, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from pureward.errors import InputError
from pureward.types import checked_tensor

Loss = Literal["logistic", "sigmoid"]

#: Logit at which D rounds to 1 in float32.
CERTAIN = 16.0

#: Logits are clamped to ± this, so that sums and squares of losses stay finite in float32.
LARGEST_LOGIT = 1e12


class Risk(NamedTuple):
    """A risk on one batch; all members are 0-d tensors, only `objective` carries gradient."""

    value: Tensor
    """The estimate to report: the right-hand side of the risk's equation."""
    objective: Tensor
    """The loss to minimise; the risk's docstring says where it differs from `value`."""
    positive: Tensor
    """The part for successes, η·R¹(P); ½·R¹(P) in an even risk."""
    negative: Tensor
    """The part for failures, R⁰(U) − η·R⁰(P), or (1−η)·R⁰(U) if U is labelled as failures; scaled
    by ½/(1−η) in an even risk."""
    violated: Tensor
    """Whether the negative part is below −β; a true risk is never negative."""


class RiskFunction(Protocol):
    """Signature of a risk."""

    def __call__(
        self,
        positive_logits: Tensor,
        unlabeled_logits: Tensor,
        *,
        prior: float | Tensor,
        slack: float = 0.0,
        step_back: float = 1.0,
        loss: Loss = "logistic",
        even: bool = False,
    ) -> Risk:
        """Return the risk of one batch of positive and one of unlabeled logits, each 1-d."""
        ...


def label_risk(logits: Tensor, label: Literal[0, 1], loss: Loss = "logistic") -> Tensor:
    """Labelled risk of a batch: the mean loss if every sample has this label (Eqs. 3, 4)."""
    check_loss(loss)
    wrong = -logits if label == 1 else logits
    return (F.softplus(wrong) if loss == "logistic" else torch.sigmoid(wrong)).mean()


def pn(
    positive_logits: Tensor,
    unlabeled_logits: Tensor,
    *,
    prior: float | Tensor = 0.5,
    slack: float = 0.0,
    step_back: float = 1.0,
    loss: Loss = "logistic",
    even: bool = False,
) -> Risk:
    """Positive-negative risk η·R¹(P) + (1−η)·R⁰(U), agent data labelled as failures (Eq. 5).

    With η = ½ and the logistic loss it is half of GAIL's objective, to be minimised with D high
    on the expert: −½·(E_expert[log D] + E_agent[log(1−D)]). `slack` and `step_back` have no
    effect, since a sum of losses is not negative.
    """
    p, u = checked(positive_logits, unlabeled_logits, prior, slack, step_back, even)
    successes, failures = class_weights(prior, even)
    positive = successes * label_risk(p, 1, loss)
    negative = failures * (1 - prior) * label_risk(u, 0, loss)
    objective = positive + negative
    return detached(objective, objective, positive, negative, torch.zeros_like(negative).bool())


def upu(
    positive_logits: Tensor,
    unlabeled_logits: Tensor,
    *,
    prior: float | Tensor,
    slack: float = 0.0,
    step_back: float = 1.0,
    loss: Loss = "logistic",
    even: bool = False,
) -> Risk:
    """Unbiased PU risk η·R¹(P) + R⁰(U) − η·R⁰(P) (Eqs. 7, 8).

    `violated` says where the non-negative risk would ascend; this one does not, so a flexible
    network drives it below zero. `step_back` has no effect.

    With the logistic loss a positive contributes −η·f for a logit f, so the risk has no lower bound
    and the weights would grow until they overflow. Positive logits are therefore clamped at
    `CERTAIN`, where the gradient is zero.
    """
    p, u = checked(positive_logits, unlabeled_logits, prior, slack, step_back, even)
    p = p.clamp(max=CERTAIN)
    successes, failures = class_weights(prior, even)
    positive = successes * label_risk(p, 1, loss)
    negative = failures * (label_risk(u, 0, loss) - prior * label_risk(p, 0, loss))
    objective = positive + negative
    return detached(objective, objective, positive, negative, negative < -slack)


def nnpu(
    positive_logits: Tensor,
    unlabeled_logits: Tensor,
    *,
    prior: float | Tensor,
    slack: float = 0.0,
    step_back: float = 1.0,
    loss: Loss = "logistic",
    even: bool = False,
) -> Risk:
    """Non-negative PU risk η·R¹(P) + max(−β, R⁰(U) − η·R⁰(P)) (Eqs. 9, 10, 13).

    The objective follows Algorithm 1: the whole risk if the negative part N is at least −β, and
    −γ·N alone if it is below, which raises N. The maximum itself would give unlabeled data no
    gradient there.

    Args:
        positive_logits: (n,) logits of demonstrations or annotated states.
        unlabeled_logits: (m,) logits of the agent's states; m may differ from n.
        prior: η, the assumed share of successes among the unlabeled, inside (0, 1); a 0-d
            tensor can be changed between replays of a captured graph.
        slack: β ≥ 0; the negative part may fall to −β.
        step_back: γ in (0, 1], the weight of the ascent; Algorithm 1 has 1.
        loss: the paper's "logistic" or the bounded "sigmoid".
        even: whether successes and failures have equal weights; see `class_weights`.
    """
    p, u = checked(positive_logits, unlabeled_logits, prior, slack, step_back, even)
    successes, failures = class_weights(prior, even)
    positive = successes * label_risk(p, 1, loss)
    negative = failures * (label_risk(u, 0, loss) - prior * label_risk(p, 0, loss))
    violated = negative < -slack
    value = positive + negative.clamp(min=-slack)
    objective = torch.where(violated, -step_back * negative, positive + negative)
    return detached(value, objective, positive, negative, violated)


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
    is `nnpu`, with ρ = 1 positive-negative learning on P and N. `nnpu` explains the arguments that
    are not listed here.

    Args:
        failure_logits: (k,) logits of states of known failures.
        failure_weight: ρ in [0, 1]. Known failures come from other policies than the current one,
            so ρ is small.
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


def class_weights(prior: float | Tensor, even: bool) -> tuple[float | Tensor, float | Tensor]:
    """Return the weights of the parts for successes and for failures.

    The paper's risk weighs successes by η and failures by 1 − η, so positives carry little weight
    if η is small. An even risk weighs both by ½. It is the same at η = ½, and GAIL's for η → 0. Its
    D is above ½ if a frame is likelier among successes than among failures.
    """
    return (0.5, 0.5 / (1 - prior)) if even else (prior, 1.0)


def detached(
    value: Tensor, objective: Tensor, positive: Tensor, negative: Tensor, violated: Tensor
) -> Risk:
    """Return a `Risk` in which only the objective has a gradient."""
    return Risk(value.detach(), objective, positive.detach(), negative.detach(), violated)


def check_loss(loss: str) -> None:
    """Raise `InputError` for an unknown loss."""
    if loss not in get_args(Loss):
        raise InputError(f"unknown loss {loss!r}; choose 'logistic' or 'sigmoid'")


def checked(
    positive: Tensor,
    unlabeled: Tensor,
    prior: float | Tensor,
    slack: float,
    step_back: float,
    even: bool,
) -> tuple[Tensor, Tensor]:
    """Check the arguments of a risk; return the logits as `checked_logits` does."""
    if isinstance(prior, Tensor):
        if prior.dim() != 0:
            raise InputError(
                f"prior must be one number, got a tensor of shape {tuple(prior.shape)}; "
                "pass a float or a 0-d tensor"
            )
        is_share = _all_pass(prior, lambda value: (value > 0) & (value < 1))
    else:
        is_share = isinstance(prior, Real) and 0 < prior < 1
    if not is_share:
        raise InputError(
            f"prior must lie inside (0, 1), got {prior!r}; it is the share of successes "
            "expected among the unlabeled data"
        )
    if not isinstance(slack, Real) or not 0 <= slack <= LARGEST_LOGIT:
        raise InputError(
            f"slack must lie in [0, {LARGEST_LOGIT:g}], got {slack!r}; the paper uses 0"
        )
    if not isinstance(step_back, Real) or not 0 < step_back <= 1:
        raise InputError(f"step_back must lie in (0, 1], got {step_back!r}; the paper uses 1")
    if not isinstance(even, bool):
        raise InputError(f"even must be True or False, got {even!r}; the paper has False")
    return checked_logits("positive", positive), checked_logits("unlabeled", unlabeled)


def checked_logits(name: str, logits: Tensor) -> Tensor:
    """Check a batch of logits; return it clamped, in float32 or float64."""
    checked_tensor(logits, f"{name}_logits must be a tensor")
    if logits.dim() != 1:
        raise InputError(
            f"{name}_logits must have shape (n,), got {tuple(logits.shape)}; "
            "flatten them, one logit per sample"
        )
    if logits.shape[0] == 0:
        raise InputError(f"{name}_logits must hold at least one sample, got none; check the batch")
    if not logits.is_floating_point():
        raise InputError(f"{name}_logits must be floating point, got {logits.dtype}; pass logits")
    if not _all_pass(logits, torch.isfinite):
        raise InputError(
            f"{name}_logits must be finite, got NaN or infinity; lower the learning rate or "
            "check the frames"
        )
    # Reduced precision is too coarse for a difference of means.
    precise = logits if logits.dtype == torch.float64 else logits.float()
    return precise.clamp(-LARGEST_LOGIT, LARGEST_LOGIT)


def _all_pass(tensor: Tensor, test: Callable[[Tensor], Tensor]) -> bool:
    """True if all values pass; checked only on the CPU in eager mode, without a host sync."""
    if tensor.device.type != "cpu" or torch.compiler.is_compiling():
        return True
    try:
        return bool(test(tensor.detach()).all())
    except RuntimeError:  # under vmap there is no single answer
        return True
