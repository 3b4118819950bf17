# SPDX-License-Identifier: Apache-2.0
"""The risks of the paper as pure functions on logits (Eqs. 3–9).

A logit is high for a success: D = sigmoid(logit). Every risk takes one batch of positive
and one batch of unlabeled logits, works on the two batch means and never on single
samples, reads nothing back to the host, and answers a `Risk`. The signature is the same
for all, so that a method names its risk and nothing else; `torch.func.vmap` runs one per
seed.
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

#: A logit at which D is 1 to the rounding of float32.
CERTAIN = 16.0

#: Logits beyond ± this count as this, so that sums and squares of losses stay finite in float32.
LARGEST_LOGIT = 1e12


class Risk(NamedTuple):
    """A risk on one batch; all members are 0-d tensors, only `objective` carries gradient."""

    value: Tensor
    """The estimate to report: the right-hand side of the risk's equation."""
    objective: Tensor
    """What to descend on; where it differs from `value`, the risk's docstring says why."""
    positive: Tensor
    """The part for successes, η·R¹(P); ½·R¹(P) of an even risk."""
    negative: Tensor
    """The part for failures, R⁰(U) − η·R⁰(P), or (1−η)·R⁰(U) where U counts as failures; of an
    even risk ½ is in the place of 1−η, which both are a multiple of."""
    violated: Tensor
    """Whether the negative part fell below −β, which no true risk can."""


class RiskFunction(Protocol):
    """The seam between a method and its risk."""

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
    """Labelled risk of a batch, the mean loss were every sample labelled so (Eqs. 3, 4)."""
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
    """Positive-negative risk η·R¹(P) + (1−η)·R⁰(U), agent data taken as failures (Eq. 5).

    With η = ½ and the logistic loss it is half of GAIL's objective, turned to be minimised
    with D high on the expert: −½·(E_expert[log D] + E_agent[log(1−D)]). The factor ½ is
    the whole difference; no additive constant. `slack` and `step_back` have no effect,
    since a sum of losses cannot be negative.
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

    `violated` tells where the non-negative risk would have stepped back; this one does
    not, so a flexible network drives it below zero. `step_back` has no effect.

    With the logistic loss a positive counts −η·f whatever its logit f, so that the risk has no
    lower bound and weights grow until they overflow. A positive that D is certain of therefore
    counts as one at `CERTAIN`, and pulls no further.
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

    The objective follows Algorithm 1, not the gradient of the maximum, which would leave
    the unlabeled data without any gradient once the bound is crossed: while the negative
    part N is at least −β, descend on the whole risk; below it, descend on −γ·N alone and
    so raise N, without the positive part.

    Args:
        positive_logits: (n,) logits of demonstrations or annotated states.
        unlabeled_logits: (m,) logits of the agent's states; m may differ from n.
        prior: η, the assumed share of successes among the unlabeled, inside (0, 1); a
            0-d tensor may change inside a captured graph.
        slack: β ≥ 0, how far below zero a minibatch may bring the negative part.
        step_back: γ in (0, 1], the weight of the ascent; Algorithm 1 has 1.
        loss: the paper's "logistic" or the bounded "sigmoid".
        even: whether successes and failures count alike, whatever η; see `class_weights`.
    """
    p, u = checked(positive_logits, unlabeled_logits, prior, slack, step_back, even)
    successes, failures = class_weights(prior, even)
    positive = successes * label_risk(p, 1, loss)
    negative = failures * (label_risk(u, 0, loss) - prior * label_risk(p, 0, loss))
    violated = negative < -slack
    value = positive + negative.clamp(min=-slack)
    objective = torch.where(violated, -step_back * negative, positive + negative)
    return detached(value, objective, positive, negative, violated)


def class_weights(prior: float | Tensor, even: bool) -> tuple[float | Tensor, float | Tensor]:
    """Return what the parts for successes and for failures are multiplied by.

    A risk is that of frames among which a share η are successes: positives count η, and what is
    left of the unlabeled without them counts 1 − η. Where successes are rare, D then hears next
    to nothing of what one looks like. An even risk is that of frames among which half are: the
    same at η = ½, and for η → 0, where all unlabeled frames are failures, GAIL's. Its D is above
    ½ where a frame is likelier to come of a success than of a failure.
    """
    return (0.5, 0.5 / (1 - prior)) if even else (prior, 1.0)


def detached(
    value: Tensor, objective: Tensor, positive: Tensor, negative: Tensor, violated: Tensor
) -> Risk:
    """Put a risk together; nobody shall differentiate the reported value by mistake."""
    return Risk(value.detach(), objective, positive.detach(), negative.detach(), violated)


def check_loss(loss: str) -> None:
    """Refuse a loss that is not one of `Loss`."""
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
    """Refuse what no risk is defined on; return the logits in float32 (or float64), bounded."""
    if isinstance(prior, Tensor) and prior.dim() != 0:
        raise InputError(
            f"prior must be one number, got a tensor of shape {tuple(prior.shape)}; "
            "pass a float or a 0-d tensor"
        )
    if not _lies_inside(prior):
        raise InputError(
            f"prior must lie inside (0, 1), got {prior!r}; it is the share of successes "
            "expected among the unlabeled data"
        )
    if not is_number(slack) or not 0 <= slack <= LARGEST_LOGIT:
        raise InputError(
            f"slack must lie in [0, {LARGEST_LOGIT:g}], got {slack!r}; the paper uses 0"
        )
    if not is_number(step_back) or not 0 < step_back <= 1:
        raise InputError(f"step_back must lie in (0, 1], got {step_back!r}; the paper uses 1")
    if not isinstance(even, bool):
        raise InputError(f"even must be True or False, got {even!r}; the paper has False")
    return checked_logits("positive", positive), checked_logits("unlabeled", unlabeled)


def is_number(value: object) -> bool:
    """Return whether a setting is a plain real number, and not text or a tensor."""
    return isinstance(value, Real)


def _lies_inside(prior: float | Tensor) -> bool:
    """Whether a prior is a number inside (0, 1), where asking is free."""
    if isinstance(prior, Tensor):
        return _asked(prior, lambda value: (value > 0) & (value < 1))
    return isinstance(prior, Real) and 0 < prior < 1


def checked_logits(name: str, logits: Tensor) -> Tensor:
    """Refuse logits that are no batch of finite numbers; return float32 (or float64), bounded."""
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
    if not _asked(logits, torch.isfinite):
        raise InputError(
            f"{name}_logits must be finite, got NaN or infinity; lower the learning rate or "
            "check the frames"
        )
    # Reduced precision is too coarse for a difference of means.
    precise = logits if logits.dtype == torch.float64 else logits.float()
    return precise.clamp(-LARGEST_LOGIT, LARGEST_LOGIT)


def _asked(tensor: Tensor, question: Callable[[Tensor], Tensor]) -> bool:
    """Whether all values answer yes, where asking is free: on the CPU, in eager code.

    A value on another device is the caller's to vouch for: reading it would wait for it.
    """
    if tensor.device.type != "cpu" or torch.compiler.is_compiling():
        return True
    try:
        return bool(question(tensor.detach()).all())
    except RuntimeError:  # under vmap a batch of risks has no single answer
        return True
