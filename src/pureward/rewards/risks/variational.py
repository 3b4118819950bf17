# SPDX-License-Identifier: Apache-2.0
"""Variational PU learning (Chen et al. 2020): a risk that needs no prior.

Φ = sigmoid(logit) is learned in proportion to p_p/p_u. The first part of the risk fixes that
ratio up to a factor; where some frames can only be successes it is P(success | frame) once its
top is 1, which the mixup part pulls it to. docs/prior.md says what that means for a reward.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pureward.errors import InputError
from pureward.rewards.risks.pu import Loss, Risk, checked, checked_logits, detached, is_number
from pureward.types import checked_tensor

CONCENTRATION = 0.3  # of the symmetric Beta distribution that mixing shares are drawn from
_KNOTS = 1025


class Mixed(NamedTuple):
    """Frames between pairs of an unlabeled and a positive one."""

    frames: Tensor
    """(pairs, channels, height, width) uint8."""
    shares: Tensor
    """(pairs,) μ, the unlabeled frame's part in each."""


def vpu(
    positive_logits: Tensor,
    unlabeled_logits: Tensor,
    *,
    mixed_logits: Tensor | None = None,
    mixed_shares: Tensor | None = None,
    mixup_weight: float = 0.03,
    prior: float | Tensor = 0.5,
    slack: float = 0.0,
    step_back: float = 1.0,
    loss: Loss = "logistic",
    even: bool = False,
) -> Risk:
    """Variational PU risk log E_u[Φ] − E_p[log Φ] + λ·E[(log(μΦ_u + 1 − μ) − log Φ_μ)²].

    The first two parts are smallest where Φ is proportional to p_p/p_u. The third asks that
    Φ of a mixed frame be the mixture of Φ_u and 1, as if every positive were sure. `positive`
    is −E_p[log Φ] and `negative` is log E_u[Φ], which is below zero. `prior`, `slack`,
    `step_back`, `loss` and `even` have no effect.

    Args:
        positive_logits: (n,) logits of demonstrations or annotated states.
        unlabeled_logits: (m,) logits of the agent's states.
        mixed_logits: (k,) logits of μ·u + (1−μ)·p of the first k unlabeled and positives.
        mixed_shares: (k,) μ.
        mixup_weight: λ, at least 0; too large, and Φ = 1 everywhere is the minimum in reach.
        prior: none is needed.
        slack: no part of it can be violated.
        step_back: likewise.
        loss: it has its own.
        even: its classes have no weights.
    """
    p, u = checked(positive_logits, unlabeled_logits, prior, slack, step_back, even)
    if mixed_logits is None or mixed_shares is None:
        raise InputError("vpu needs mixed_logits and mixed_shares, got none; see mixed_frames")
    mixed = checked_logits("mixed", mixed_logits)
    checked_tensor(mixed_shares, "mixed_shares must be a tensor")
    if mixed_shares.shape != mixed.shape or len(mixed) > len(u):
        raise InputError(
            f"mixed_shares must be one number a mixed logit, for at most {len(u)} pairs, got "
            f"shape {tuple(mixed_shares.shape)} for {len(mixed)} logits; see mixed_frames"
        )
    if not is_number(mixup_weight) or not 0 <= mixup_weight < float("inf"):
        raise InputError(
            f"mixup_weight must be finite and at least 0, got {mixup_weight!r}; try 0.03"
        )
    positive = -F.logsigmoid(p).mean()
    log_u = F.logsigmoid(u)
    negative = log_u.logsumexp(0) - float(np.log(len(u)))
    # In logarithms, since μΦ + 1 − μ may round to zero.
    target = torch.logaddexp(mixed_shares.log() + log_u[: len(mixed)], (-mixed_shares).log1p())
    smoothness = (target - F.logsigmoid(mixed)).square().mean()
    objective = positive + negative + mixup_weight * smoothness
    return detached(
        objective, objective, positive, negative, torch.zeros_like(negative, dtype=torch.bool)
    )


def mixed_batch(
    positive: Tensor, unlabeled: Tensor, generator: torch.Generator
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return mixed frames, and the shares that `vpu` takes beside their logits."""
    mixed = mixed_frames(positive, unlabeled, generator)
    return mixed.frames, {"mixed_shares": mixed.shares}


def mixed_frames(
    positive: Tensor, unlabeled: Tensor, generator: torch.Generator | None = None
) -> Mixed:
    """Mix the i-th unlabeled with the i-th positive frame, for as many pairs as there are.

    Frames stay uint8, so that they go through the same distortions and network in one pass
    with the others; rounding moves a pixel by half a grey level at most.
    """
    pairs = min(len(positive), len(unlabeled))
    shares = mixing_shares(pairs, positive.device, generator)
    part = shares.view(-1, 1, 1, 1)
    mixed = torch.lerp(positive[:pairs].float(), unlabeled[:pairs].float(), part)
    return Mixed(mixed.round_().to(torch.uint8), shares)


def mixing_shares(count: int, device: torch.device, generator: torch.Generator | None) -> Tensor:
    """Draw from Beta(0.3, 0.3) through its quantile function, which a CUDA graph can hold."""
    quantiles = _quantiles(device)
    place = torch.rand(count, device=device, generator=generator) * (_KNOTS - 1)
    knot = place.long()
    return torch.lerp(quantiles[knot], quantiles[knot + 1], place - knot)


@lru_cache(maxsize=16)
def _quantiles(device: torch.device) -> Tensor:
    """Beta(a, a) quantiles of evenly spaced probabilities.

    With t = xᵃ the lower half of the density, xᵃ⁻¹(1 − x)ᵃ⁻¹, becomes (1 − t^(1/a))ᵃ⁻¹ / a. It is
    smooth and is integrated numerically; the upper half is its mirror image.
    """
    half = np.linspace(0.0, 0.5**CONCENTRATION, 100_001)
    density = (1 - half ** (1 / CONCENTRATION)) ** (CONCENTRATION - 1)
    mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    probabilities = np.linspace(0.0, 0.5, _KNOTS // 2 + 1)
    lower = np.interp(probabilities, mass / (2 * mass[-1]), half) ** (1 / CONCENTRATION)
    quantiles = np.concatenate([lower, 1 - lower[-2::-1]])
    return torch.tensor(quantiles, dtype=torch.float32, device=device)
