# SPDX-License-Identifier: Apache-2.0
"""From logits and predictions to the reward an agent is given (Eq. 12, Algorithm 1)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from pureward.errors import InputError


def imitation_reward(success_logits: Tensor, *, ceiling: float) -> Tensor:
    """Imitation reward −log(1 − D), at most `ceiling` (Algorithm 1).

    With D = sigmoid(f) it is softplus(f), which neither overflows nor takes the logarithm
    of a rounded zero. It grows without bound as D approaches 1, while a value
    distribution has a last atom, hence the ceiling r_max: returns then stay below
    r_max/(1 − discount). D passes it at 1 − exp(−r_max): 0.63 for 1, 0.95 for 3.
    """
    if not 0 < ceiling < float("inf"):
        raise InputError(f"ceiling must be positive and finite, got {ceiling}; try 1")
    return F.softplus(success_logits.float()).clamp(max=ceiling)


def gated_reward(
    success_logits: Tensor,
    predicted: Tensor,
    *,
    lowest: float | Tensor = 0.0,
) -> Tensor:
    """Predicted reward where the discriminator trusts it, else zero: [D > ½]·r_φ (Eq. 12).

    The paper defines this for r_φ ≥ 0 only: zeroing a negative prediction would pay the
    agent for leaving the states it was trained on. Rewards are therefore counted from
    `lowest`, the smaller of 0 and the lowest annotated reward, and predictions below it
    are held at it: an untrusted state is worth as much as the worst annotated one. A shift
    by a constant leaves the best policy of a fixed-length task as it was.

    Args:
        success_logits: (batch,) high where the prediction is reliable.
        predicted: (batch,) r_φ.
        lowest: at most 0; what counts as zero.
    """
    if isinstance(lowest, float | int) and not -float("inf") < lowest <= 0:
        raise InputError(f"lowest must be finite and at most 0, got {lowest}; pass min(0, rewards)")
    above = (predicted.float() - lowest).clamp(min=0)
    return torch.where(success_logits > 0, above, torch.zeros_like(above))


def ensemble_minimum(predictions: Tensor) -> Tensor:
    """Lowest prediction of an ensemble's members, (members, batch) → (batch,)."""
    return predictions.amin(0)
