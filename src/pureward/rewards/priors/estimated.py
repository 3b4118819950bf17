# SPDX-License-Identifier: Apache-2.0
"""η estimated while a policy learns: smoothed, kept within bounds, with an interval."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from pureward.errors import InputError
from pureward.rewards.priors.adjusted_count import adjusted_count
from pureward.rewards.priors.best_bin import best_bin
from pureward.rewards.priors.evidence import Evidence
from pureward.rewards.priors.prior import PRIORS, Prior, Wanted
from pureward.rewards.priors.resample import Sample, auc, interval, resampled
from pureward.types import checked_tensor

#: Name → estimate of every resample from positives, unlabeled and, for `acc`, known failures.
ESTIMATORS: dict[str, Callable[..., Tensor]] = {
    "bbe": best_bin,
    "acc": adjusted_count,
}

#: Fewer trajectories than this say nothing about how far an estimate may be off.
FEWEST_EPISODES = 5
ENOUGH_AUC = 0.6
SEPARATED_AUC = 0.9
NO_SUCCESSES = 0.05

DEFAULT_FLOOR, DEFAULT_CEILING = 0.1, 0.95

_LOGGED = ("value", "low", "high", "auc")

_KINDS = {
    "held-out positive": ("held_out_positive_logits", "held_out_episodes"),
    "unlabeled": ("unlabeled_logits", "unlabeled_episodes"),
    "failure": ("failure_logits", "failure_episodes"),
}


class Estimate(NamedTuple):
    """One estimate of η."""

    value: float
    """η̂ of this evidence alone."""
    low: float
    """Lower end of its 95% interval, from resampled trajectories."""
    high: float
    """Upper end."""
    auc: float
    """How well the discriminator ranks held-out positives above the unlabeled; 0.5 is not."""
    smoothed: float
    """η to use: smoothed and within the bounds."""
    warning: str
    """What is doubtful about it, or nothing."""


class EstimatedPrior(Prior):
    """η from scores of held-out positives and of the agent's frames."""

    def __init__(
        self,
        estimator: str = "bbe",
        *,
        floor: float = DEFAULT_FLOOR,
        ceiling: float = DEFAULT_CEILING,
        smoothing: float = 0.5,
        resamples: int = 200,
        seed: int = 0,
    ) -> None:
        """Begin at the floor: before a policy has learned anything, nothing it does is a success.

        Args:
            estimator: one of `ESTIMATORS`.
            floor: lowest η given. Where the agent's frames look unlike the demonstrations for
                reasons of their own, every estimate from P and U goes to 0 and so would learning.
            ceiling: highest η given.
            smoothing: the newest estimate's part in η.
            resamples: of the interval.
            seed: of the resamples.
        """
        if estimator not in ESTIMATORS:
            raise InputError(
                f"unknown estimator {estimator!r}; choose from {', '.join(ESTIMATORS)}"
            )
        if not 0 < floor <= ceiling < 1:
            raise InputError(
                f"an estimated prior needs 0 < floor ≤ ceiling < 1, got {floor} and {ceiling}; "
                "try 0.1 and 0.95"
            )
        if not 0 < smoothing <= 1 or resamples < 2:
            raise InputError(
                "smoothing must lie in (0, 1] and resamples be at least 2, got "
                f"{smoothing} and {resamples}; try 0.5 and 200"
            )
        self.estimator = estimator
        wants: tuple[Wanted, ...] = ("scores", "failures") if estimator == "acc" else ("scores",)
        self.wants = frozenset(wants)
        self.floor, self.ceiling, self.smoothing = floor, ceiling, smoothing
        self.resamples, self.seed = resamples, seed
        self.value = floor
        self.begun = False
        self.latest: Estimate | None = None

    @property
    def bounds(self) -> tuple[float, float]:
        """Floor and ceiling."""
        return self.floor, self.ceiling

    def __call__(self, evidence: Evidence) -> float:
        """Return η, after an estimate if the evidence holds scores."""
        if evidence.held_out_positive_logits is not None:
            self.latest = self._estimate(evidence)
        return self.value

    def state_dict(self) -> dict[str, float]:
        """Return what a resumed run needs."""
        return {"value": self.value, "begun": self.begun}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Continue from a saved state."""
        try:
            value, begun = float(state["value"]), bool(state["begun"])
        except (KeyError, TypeError, ValueError):
            raise InputError(
                f"an estimated prior's state holds value and begun, got {state!r}; "
                "resume from another checkpoint"
            ) from None
        # A checkpoint may have kept it in float32.
        kept = min(self.ceiling, max(self.floor, value))
        if not abs(kept - value) < 1e-6:
            raise InputError(
                f"an estimated prior must lie in [{self.floor}, {self.ceiling}], got {value}; "
                "resume with the bounds the run began with"
            )
        self.value, self.begun = kept, begun

    def report(self) -> tuple[dict[str, float], str]:
        """Return the latest estimate with its interval, and what is doubtful about it."""
        if self.latest is None:
            return {}, ""
        return {name: getattr(self.latest, name) for name in _LOGGED}, self.latest.warning

    def _estimate(self, evidence: Evidence) -> Estimate:
        samples = self._samples(evidence)
        rows = ESTIMATORS[self.estimator](*samples)
        low, high = interval(rows)
        separated = auc(samples[0].logits, samples[1].logits)
        # Positives may look like the unlabeled, and in the end do; like failures they may not.
        useful = auc(samples[0].logits, samples[2].logits) if len(samples) == 3 else separated
        episodes = [sample.episodes for sample in samples]
        finite = [sample.logits.isfinite().all() for sample in samples]
        # The one time the host waits for the device.
        value, low, high, separated, useful, *told = torch.stack(
            [rows[0], low, high, separated, useful, *episodes, *finite]
        ).tolist()
        _check_finite(told[len(samples) :])
        _check_episodes(told[: len(samples)])
        self.begun = self.begun or separated > ENOUGH_AUC
        if self.begun and not (len(samples) == 3 and useful <= ENOUGH_AUC):
            self._smooth(value)
        warning = self._warning(value, separated)
        return Estimate(value, low, high, separated, self.value, warning)

    def _samples(self, evidence: Evidence) -> list[Sample]:
        """Scores of each kind that the estimator takes, with their resampling weights."""
        samples = []
        for kind, (scores, numbers) in list(_KINDS.items())[: 3 if "failures" in self.wants else 2]:
            logits, episodes = getattr(evidence, scores), getattr(evidence, numbers)
            if logits is None or episodes is None:
                raise InputError(
                    f"an estimate by {self.estimator} needs {scores} and {numbers}, got none; "
                    f"score {kind} frames that the discriminator never trains on"
                )
            for name, value in ((scores, logits), (numbers, episodes)):
                checked_tensor(value, f"{name} must be a tensor, one number a frame")
            generator = torch.Generator(logits.device).manual_seed(self.seed + len(samples))
            samples.append(resampled(kind, logits, episodes, self.resamples, generator))
        return samples

    def _smooth(self, value: float) -> None:
        mixed = (1 - self.smoothing) * self.value + self.smoothing * value
        self.value = min(self.ceiling, max(self.floor, mixed))

    def _warning(self, value: float, separated: float) -> str:
        if separated > SEPARATED_AUC and value < NO_SUCCESSES:
            return (
                f"the discriminator tells the agent's frames from demonstrations almost always "
                f"(AUC {separated:.3f}) and finds no successes among them (η̂ = {value:.3f}): the "
                "policy fails, or the two look different for another reason; positives and "
                f"unlabeled frames alone cannot tell which, so η is held at {self.floor:g} or above"
            )
        return ""


def _check_finite(finite: list[float]) -> None:
    for kind, whole in zip(_KINDS, finite, strict=False):
        if not whole:
            raise InputError(
                f"{kind} logits must be finite, got NaN or infinity; "
                "score with a discriminator that has not diverged"
            )


def _check_episodes(counts: list[float]) -> None:
    for kind, count in zip(_KINDS, counts, strict=False):
        if count < FEWEST_EPISODES:
            raise InputError(
                f"an estimate of η needs at least {FEWEST_EPISODES} {kind} episodes, got "
                f"{count:.0f}; bring more or give η as a number"
            )


def estimated(
    estimator: str, floor: float = DEFAULT_FLOOR, ceiling: float = DEFAULT_CEILING
) -> Prior:
    """ESTIMATOR:FLOOR:CEILING."""
    return EstimatedPrior(estimator, floor=floor, ceiling=ceiling)


PRIORS.register("bbe")(partial(estimated, "bbe"))
PRIORS.register("acc")(partial(estimated, "acc"))
