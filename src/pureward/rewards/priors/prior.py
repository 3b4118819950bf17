# SPDX-License-Identifier: Apache-2.0
"""η over a run: fixed, scheduled, or estimated.

A prior is asked from time to time with the evidence that it wants, and returns η; the
discriminator takes it through `set_prior`. `PRIORS` holds the kinds that can be written on the
command line, as KIND:NUMBER:NUMBER.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from numbers import Real
from typing import Literal

from pureward.errors import InputError
from pureward.registry import Registry
from pureward.rewards.priors.evidence import Evidence

Wanted = Literal["scores", "failures"]


class Prior:
    """Where η comes from; a kind of its own overrides what differs."""

    wants: frozenset[Wanted] = frozenset()
    """Evidence that it needs: "scores" of held-out positives and of the agent's frames, and of
    known "failures"."""

    def __call__(self, evidence: Evidence) -> float:
        """Return η for the updates to come, inside (0, 1)."""
        raise NotImplementedError

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest η that it returns."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, float]:
        """Return what a resumed run needs."""
        return {}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Continue from a saved state."""

    def report(self) -> tuple[dict[str, float], str]:
        """Return numbers for the log, and a warning or ""."""
        return {}, ""


#: Kind → a function of the numbers written behind it.
PRIORS: Registry[Callable[..., Prior]] = Registry("prior")


@dataclass(frozen=True, kw_only=True)
class FixedPrior(Prior):
    """The same η throughout, as in the paper."""

    value: float
    """η."""

    def __post_init__(self) -> None:
        """Refuse a share outside (0, 1)."""
        _check("value", self.value)

    def __call__(self, evidence: Evidence) -> float:
        """Return the value."""
        return self.value

    @property
    def bounds(self) -> tuple[float, float]:
        """The value twice."""
        return self.value, self.value


@dataclass(frozen=True, kw_only=True)
class LinearPrior(Prior):
    """η that changes linearly over the run."""

    start: float
    """η at the beginning."""
    end: float
    """η at the end."""

    def __post_init__(self) -> None:
        """Refuse shares outside (0, 1)."""
        _check("start", self.start)
        _check("end", self.end)

    def __call__(self, evidence: Evidence) -> float:
        """Return the value on the line."""
        done = min(1.0, max(0.0, evidence.progress))
        return self.start + (self.end - self.start) * done

    @property
    def bounds(self) -> tuple[float, float]:
        """Start and end, in order."""
        return min(self.start, self.end), max(self.start, self.end)


@PRIORS.register("linear")
def linear(start: float, end: float) -> Prior:
    """linear:START:END."""
    return LinearPrior(start=start, end=end)


def parse_prior(written: str | float) -> Prior:
    """Return the prior that a number or a text such as "linear:0.1:0.7" or "bbe" stands for."""
    if isinstance(written, Real):
        return FixedPrior(value=float(written))
    kind, *rest = written.split(":") if isinstance(written, str) else ("",)
    try:
        numbers = [float(number) for number in rest]
        if kind not in PRIORS:
            return FixedPrior(value=float(written))
        make = PRIORS[kind]
        signature(make).bind(*numbers)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"a prior is a number such as 0.5, or one of {', '.join(PRIORS)} with its numbers, "
            f"such as linear:0.1:0.7 or bbe:0.1:0.9, got {written!r}"
        ) from None
    return make(*numbers)


def _check(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise InputError(f"prior {name} must lie inside (0, 1), got {value}; try 0.5")
