# SPDX-License-Identifier: Apache-2.0
"""η over a run: fixed, scheduled, or estimated.

A prior is asked now and then with what is known by then and answers with a number; the
discriminator takes it through `set_prior`. Estimators have the same seam: the evidence
carries held-out logits for them, where `needs_scores` says so.
"""

from dataclasses import dataclass
from numbers import Real
from typing import Protocol

from pureward.errors import InputError
from pureward.rewards.priors.estimated import ESTIMATORS, EstimatedPrior
from pureward.rewards.priors.evidence import Evidence


class Prior(Protocol):
    """The seam between a run and its class prior."""

    @property
    def needs_scores(self) -> bool:
        """Whether the evidence must hold scores now and then."""
        ...

    def __call__(self, evidence: Evidence) -> float:
        """Return η for the updates to come, inside (0, 1)."""
        ...


@dataclass(frozen=True, kw_only=True)
class FixedPrior:
    """The same η throughout, as in the paper."""

    needs_scores = False
    value: float
    """η."""

    def __post_init__(self) -> None:
        """Refuse a share outside (0, 1)."""
        _check("value", self.value)

    def __call__(self, evidence: Evidence) -> float:
        """Return the value."""
        return self.value


@dataclass(frozen=True, kw_only=True)
class LinearPrior:
    """From one η to another in step with the run."""

    needs_scores = False
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
        return _between(self.start, self.end, evidence.progress)


@dataclass(frozen=True, kw_only=True)
class ReturnPrior:
    """From one η to another as the policy's return rises from one level to another."""

    needs_scores = False
    start: float
    """η at or below the low return, and before the first evaluation."""
    end: float
    """η at or above the high return."""
    low_return: float
    """Return of a policy that never succeeds."""
    high_return: float
    """Return of the demonstrations."""

    def __post_init__(self) -> None:
        """Refuse shares outside (0, 1) and an empty range of returns."""
        _check("start", self.start)
        _check("end", self.end)
        if not self.low_return < self.high_return < float("inf"):
            raise InputError(
                f"low_return must be below high_return, got {self.low_return} and "
                f"{self.high_return}; give the returns of a failing and of an expert policy"
            )

    def __call__(self, evidence: Evidence) -> float:
        """Return the value for the latest return."""
        if evidence.probe_return is None:
            return self.start
        span = self.high_return - self.low_return
        return _between(self.start, self.end, (evidence.probe_return - self.low_return) / span)


def parse_prior(written: str | float) -> Prior:
    """Read a prior as it is written on the command line, or a number; the error lists the forms."""
    if isinstance(written, Real):
        return FixedPrior(value=float(written))
    if isinstance(written, str):
        kind, *rest = written.split(":")
        try:
            return _read(kind, [float(number) for number in rest])
        except ValueError as error:
            if isinstance(error, InputError):
                raise
    raise InputError(
        "a prior is written 0.5, linear:START:END, return:START:END:LOW:HIGH, bbe, acc (each "
        f"also with :FLOOR:CEILING) or vpu, got {written!r}"
    )


def _read(kind: str, numbers: list[float]) -> Prior:
    """Return the prior of a kind; a ValueError means a wrong count of numbers, or no kind."""
    if kind == "linear":
        start, end = numbers
        return LinearPrior(start=start, end=end)
    if kind == "return":
        start, end, low, high = numbers
        return ReturnPrior(start=start, end=end, low_return=low, high_return=high)
    if kind in ESTIMATORS and not numbers:
        return EstimatedPrior(kind)
    if kind in ESTIMATORS and kind != "vpu":  # whose risk takes no η that could be bounded
        floor, ceiling = numbers
        return EstimatedPrior(kind, floor=floor, ceiling=ceiling)
    if numbers:
        raise ValueError
    return FixedPrior(value=float(kind))


def _between(start: float, end: float, share: float) -> float:
    return start + (end - start) * min(1.0, max(0.0, share))


def _check(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise InputError(f"prior {name} must lie inside (0, 1), got {value}; try 0.5")
