# SPDX-License-Identifier: Apache-2.0
"""The agent's reward from logits and predictions (Eq. 12, Algorithm 1)."""

import torch
import torch.nn.functional as F
from torch import Tensor


def imitation_reward(success_logits: Tensor, *, ceiling: float) -> Tensor:
    """Imitation reward −log(1 − D), at most `ceiling` (Algorithm 1).

    With D = sigmoid(f) it is softplus(f), which does not overflow. It has no upper bound as D
    approaches 1, but the value distribution has a last atom. The ceiling r_max keeps returns below
    r_max/(1 − discount). It is reached at D = 1 − exp(−r_max): 0.63 for 1, 0.95 for 3.
    """
    return F.softplus(success_logits.float()).clamp(max=ceiling)


def gated_reward(success_logits: Tensor, predicted: Tensor, *, lowest: float = 0.0) -> Tensor:
    """Gated reward [D > ½]·r_φ, the prediction where D is above ½, else zero (Eq. 12).

    The paper defines this for r_φ ≥ 0 only: setting a negative prediction to zero would reward the
    agent for leaving the annotated states. Rewards are therefore measured from `lowest`, the
    smaller of 0 and the lowest annotated reward, and clamped there. A constant shift does not
    change the best policy of a fixed-length task.

    Args:
        success_logits: (batch,) high if the prediction is reliable.
        predicted: (batch,) r_φ.
        lowest: at most 0; the prediction that becomes 0.
    """
    above = (predicted.float() - lowest).clamp(min=0)
    return torch.where(success_logits > 0, above, torch.zeros_like(above))


def ensemble_minimum(predictions: Tensor) -> Tensor:
    """Minimum over an ensemble's members, (members, batch) → (batch,)."""
    return predictions.amin(0)
