# SPDX-License-Identifier: Apache-2.0
"""What is known when a prior is asked for η."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known when a prior is asked; what is not known is None.

    Logits are the discriminator's on frames as rewards are paid for them, without dropout.
    Episode numbers are int64, any labels: frames with the same one are of one trajectory.
    """

    progress: float = 0.0
    """Share of the run that is done, 0 to 1."""
    held_out_positive_logits: Tensor | None = None
    """(n,) logits of positives the discriminator never trained on."""
    held_out_episodes: Tensor | None = None
    """(n,) the episode of each of them."""
    unlabeled_logits: Tensor | None = None
    """(m,) logits of recent agent frames."""
    unlabeled_episodes: Tensor | None = None
    """(m,) the episode of each of them."""
    failure_logits: Tensor | None = None
    """(k,) logits of known failures the discriminator never trained on."""
    failure_episodes: Tensor | None = None
    """(k,) the episode of each of them."""
