# SPDX-License-Identifier: Apache-2.0
"""η over a run: fixed or estimated.

A run calls its prior at intervals with the data that it wants and passes η to the
discriminator's `set_prior`. `PRIORS` holds the kinds for the command line, KIND:NUMBER:NUMBER.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from numbers import Real
from typing import Literal

from torch import Tensor

from pureward.errors import InputError
from pureward.registry import Registry

Wanted = Literal["scores", "failures"]


@dataclass(frozen=True, kw_only=True)
class PriorData:
    """What a prior may use; None if not available.

    Logits are the discriminator's, of frames as they are scored for rewards, without dropout.
    Episodes are integers, any labels; frames of one trajectory have the same one.
    """

    held_out_positive_logits: Tensor | None = None
    """(n,) logits of positives that the discriminator never trained on."""
    held_out_episodes: Tensor | None = None
    """(n,) their episodes."""
    unlabeled_logits: Tensor | None = None
    """(m,) logits of recent agent frames."""
    unlabeled_episodes: Tensor | None = None
    """(m,) their episodes."""
    failure_logits: Tensor | None = None
    """(k,) logits of known failures that the discriminator never trained on."""
    failure_episodes: Tensor | None = None
    """(k,) their episodes."""


class Prior:
    """Source of η; subclass it for a new kind."""

    wants: frozenset[Wanted] = frozenset()
    """Data that it needs: "scores" of held-out positives and of the agent's frames, and of
    known "failures"."""

    def __call__(self, data: PriorData) -> float:
        """Return η for the next updates, inside (0, 1)."""
        raise NotImplementedError

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest η that it returns."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, float]:
        """Return the state that a resumed run needs."""
        return {}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Restore a saved state."""

    def report(self) -> tuple[dict[str, float], str]:
        """Return numbers for the log, and a warning or ""."""
        return {}, ""


#: Kind → a function of the numbers after its name.
PRIORS: Registry[Callable[..., Prior]] = Registry("prior")


@dataclass(frozen=True, kw_only=True)
class FixedPrior(Prior):
    """The same η throughout, as in the paper."""

    value: float
    """η."""

    def __post_init__(self) -> None:
        if not 0 < self.value < 1:
            raise InputError(f"prior value must lie inside (0, 1), got {self.value}; try 0.5")

    def __call__(self, data: PriorData) -> float:
        """Return the value."""
        return self.value

    @property
    def bounds(self) -> tuple[float, float]:
        """The value twice."""
        return self.value, self.value


def parse_prior(text: str | float) -> Prior:
    """Return the prior for a number or a text such as "bbe" or "bbe:0.1:0.9"."""
    if isinstance(text, Real):
        return FixedPrior(value=float(text))
    kind, *rest = text.split(":") if isinstance(text, str) else ("",)
    try:
        numbers = [float(number) for number in rest]
        if kind not in PRIORS:
            return FixedPrior(value=float(text))
        make = PRIORS[kind]
        signature(make).bind(*numbers)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"a prior is a number such as 0.5, or one of {', '.join(PRIORS)} with its numbers, "
            f"such as bbe:0.1:0.9, got {text!r}"
        ) from None
    return make(*numbers)
