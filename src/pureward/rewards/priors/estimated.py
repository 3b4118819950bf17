# SPDX-License-Identifier: Apache-2.0
"""η estimated during training: smoothed, bounded, with a confidence interval."""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import torch

from pureward.errors import InputError
from pureward.rewards.priors.estimators import ESTIMATORS, Sample, auc, interval, resample
from pureward.rewards.priors.prior import PRIORS, Prior, PriorData, Wanted
from pureward.types import checked_tensor

#: The interval is not reliable with fewer trajectories.
FEWEST_EPISODES = 5
ENOUGH_AUC = 0.6
SEPARATED_AUC = 0.9
NO_SUCCESSES = 0.05

_KINDS = {
    "held-out positive": ("held_out_positive_logits", "held_out_episodes"),
    "unlabeled": ("unlabeled_logits", "unlabeled_episodes"),
    "failure": ("failure_logits", "failure_episodes"),
}


class Estimate(NamedTuple):
    """One estimate of η."""

    value: float
    """η̂ of this data alone."""
    low: float
    """Lower end of its 95% interval, from resampled trajectories."""
    high: float
    """Upper end."""
    auc: float
    """AUC of held-out positives against unlabeled frames."""
    smoothed: float
    """η to use: smoothed and bounded."""
    warning: str
    """Why it may be wrong, or ""."""


class EstimatedPrior(Prior):
    """η from scores of held-out positives and of unlabeled frames."""

    def __init__(
        self,
        estimator: str = "bbe",
        floor: float = 0.1,
        ceiling: float = 0.95,
        *,
        smoothing: float = 0.5,
        resamples: int = 200,
        seed: int = 0,
    ) -> None:
        """Start at the floor: an untrained policy has no successes.

        Args:
            estimator: one of `ESTIMATORS`.
            floor: lowest η. Under a domain gap between demonstrations and agent every estimate
                from P and U goes to 0, where D learns nothing from the positives.
            ceiling: highest η.
            smoothing: weight of the newest estimate in η.
            resamples: of the bootstrap for the interval.
            seed: of the resamples.
        """
        self._compute = ESTIMATORS[estimator]
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

    def __call__(self, data: PriorData) -> float:
        """Return η, after a new estimate if the data has scores."""
        if data.held_out_positive_logits is not None:
            self.latest = self._estimate(data)
        return self.value

    def state_dict(self) -> dict[str, float]:
        """Return the state that a resumed run needs."""
        return {"value": self.value, "begun": self.begun}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Restore a saved state."""
        try:
            value, begun = float(state["value"]), bool(state["begun"])
        except (KeyError, TypeError, ValueError):
            raise InputError(
                f"an estimated prior's state holds value and begun, got {state!r}; "
                "resume from another checkpoint"
            ) from None
        bounded = self._bounded(value)
        if not abs(bounded - value) < 1e-6:  # a checkpoint may hold float32
            raise InputError(
                f"an estimated prior must lie in [{self.floor}, {self.ceiling}], got {value}; "
                "resume with the bounds the run began with"
            )
        self.value, self.begun = bounded, begun

    def report(self) -> tuple[dict[str, float], str]:
        """Return the latest estimate with its interval, and a warning or ""."""
        if self.latest is None:
            return {}, ""
        logged = ("value", "low", "high", "auc")
        return {name: getattr(self.latest, name) for name in logged}, self.latest.warning

    def _estimate(self, data: PriorData) -> Estimate:
        samples = self._samples(data)
        rows = self._compute(*samples)
        low, high = interval(rows)
        separated = auc(samples[0].logits, samples[1].logits)
        # Positives become like the unlabeled as the policy learns, but must differ from failures.
        useful = auc(samples[0].logits, samples[2].logits) if len(samples) == 3 else separated
        episodes = [sample.episodes for sample in samples]
        finite = [sample.logits.isfinite().all() for sample in samples]
        # The only host sync.
        value, low, high, separated, useful, *checks = torch.stack(
            [rows[0], low, high, separated, useful, *episodes, *finite]
        ).tolist()
        _check_samples(checks[: len(samples)], checks[len(samples) :])
        self.begun = self.begun or separated > ENOUGH_AUC
        if self.begun and not (len(samples) == 3 and useful <= ENOUGH_AUC):
            self.value = self._bounded((1 - self.smoothing) * self.value + self.smoothing * value)
        warning = self._warning(value, separated)
        return Estimate(value, low, high, separated, self.value, warning)

    def _samples(self, data: PriorData) -> list[Sample]:
        samples = []
        for kind, (scores, numbers) in list(_KINDS.items())[: 3 if "failures" in self.wants else 2]:
            logits, episodes = getattr(data, scores), getattr(data, numbers)
            if logits is None or episodes is None:
                raise InputError(
                    f"an estimate by {self.estimator} needs {scores} and {numbers}, got none; "
                    f"score {kind} frames that the discriminator never trains on"
                )
            for name, value in ((scores, logits), (numbers, episodes)):
                checked_tensor(value, f"{name} must be a tensor, one number a frame")
            generator = torch.Generator(logits.device).manual_seed(self.seed + len(samples))
            samples.append(resample(kind, logits, episodes, self.resamples, generator))
        return samples

    def _bounded(self, value: float) -> float:
        return min(self.ceiling, max(self.floor, value))

    def _warning(self, value: float, separated: float) -> str:
        if separated <= SEPARATED_AUC or value >= NO_SUCCESSES:
            return ""
        return (
            f"the discriminator separates the unlabeled frames from the positives (AUC "
            f"{separated:.3f}) and finds no successes among them (η̂ = {value:.3f}). Either "
            "there are none, or these frames also look different from the positives (a domain "
            f"gap). Scores cannot tell which, so η stays at {self.floor:g} or above"
        )


def _check_samples(episodes: list[float], finite: list[float]) -> None:
    for kind, count, all_finite in zip(_KINDS, episodes, finite, strict=False):
        if not all_finite:
            raise InputError(
                f"{kind} logits must be finite, got NaN or infinity; "
                "score with a discriminator that has not diverged"
            )
        if count < FEWEST_EPISODES:
            raise InputError(
                f"an estimate of η needs at least {FEWEST_EPISODES} {kind} episodes, got "
                f"{count:.0f}; bring more or give η as a number"
            )


# "bbe:FLOOR:CEILING" and "acc:FLOOR:CEILING".
for _name in ("bbe", "acc"):
    PRIORS.register(_name)(partial(EstimatedPrior, _name))
