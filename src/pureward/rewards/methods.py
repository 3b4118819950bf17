# SPDX-License-Identifier: Apache-2.0
"""The methods of the paper as rows of one table; adding a method is adding a row."""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from pureward.errors import InputError
from pureward.rewards.network import NetworkConfig
from pureward.rewards.priors.estimated import EstimatedPrior
from pureward.rewards.priors.prior import FixedPrior, Prior, parse_prior
from pureward.rewards.risks.failures import nnpnu
from pureward.rewards.risks.pu import RiskFunction, nnpu, pn, upu
from pureward.rewards.risks.variational import vpu
from pureward.rewards.view import View

RewardKind = Literal["truth", "imitation", "regression", "gated"]
Positives = Literal["demonstrations", "annotations"]


@dataclass(frozen=True, kw_only=True)
class Method:
    """One way to get a reward."""

    summary: str
    """What it is, in a line."""
    reward: RewardKind
    """The task's own, −log(1−D), r_φ, or [D > ½]·r_φ."""
    positives: Positives | None
    """What a user must bring: demonstrations, annotated episodes, or nothing."""
    risk: RiskFunction | None = None
    """What its discriminator minimises; None where there is none."""
    prior: float | None = None
    """η where the method fixes it; None leaves it to the run."""
    regularised: bool = True
    """Whether frames are distorted and features dropped in training."""
    members: int = 1
    """Reward models in its ensemble; the paper does not print the size of its own."""

    @property
    def needs_demonstrations(self) -> bool:
        """Whether it learns from demonstrations."""
        return self.positives == "demonstrations"

    @property
    def needs_annotations(self) -> bool:
        """Whether it learns from annotated episodes."""
        return self.positives == "annotations"

    @property
    def has_discriminator(self) -> bool:
        """Whether a discriminator is trained beside the agent."""
        return self.risk is not None

    @property
    def has_reward_model(self) -> bool:
        """Whether a reward model is trained before the agent."""
        return self.reward in ("regression", "gated")

    def network(self, config: NetworkConfig) -> NetworkConfig:
        """Return the network to use: the one given, or without dropout on whole frames."""
        return config if self.regularised else replace(config, dropout=0.0, view=View.off())


def _imitation(summary: str, risk: RiskFunction, **rest) -> Method:
    return Method(
        summary=summary, reward="imitation", positives="demonstrations", risk=risk, **rest
    )


def _supervised(summary: str, reward: RewardKind, **rest) -> Method:
    return Method(summary=summary, reward=reward, positives="annotations", **rest)


METHODS: dict[str, Method] = {
    "truth": Method(summary="the task's own reward, for experts", reward="truth", positives=None),
    "gail-noreg": _imitation(
        "GAIL without augmentation or dropout", pn, prior=0.5, regularised=False
    ),
    "gail": _imitation("GAIL, agent frames as failures", pn, prior=0.5),
    "pugail": _imitation("GAIL with the unbiased PU risk", upu),
    "nn-pugail": _imitation("GAIL with the non-negative PU risk", nnpu),
    "prl": _supervised("reward regressed on annotated episodes", "regression"),
    "prl-ensemble": _supervised("minimum of several regressed rewards", "regression", members=5),
    "pnrl": _supervised(
        "regressed reward gated, agent frames as failures", "gated", risk=pn, prior=0.5
    ),
    "purl": _supervised("regressed reward gated by the unbiased PU risk", "gated", risk=upu),
    "nn-purl": _supervised(
        "regressed reward gated by the non-negative PU risk", "gated", risk=nnpu
    ),
}


def method_named(name: str) -> Method:
    """Return a method by name, or say which names there are."""
    if name not in METHODS:
        raise InputError(f"unknown method {name!r}; choose from {', '.join(METHODS)}")
    return METHODS[name]


class Choice(NamedTuple):
    """How a method's discriminator learns in one run."""

    risk: RiskFunction | None
    """What it minimises; None where the method has no discriminator."""
    prior: Prior | None
    """Where η comes from; None likewise."""

    @property
    def takes_failures(self) -> bool:
        """Whether every update takes known failures as well."""
        return self.risk is nnpnu


def choose(name: str, *, prior: str | float | None = None, failures: bool = False) -> Choice:
    """Return the risk and the prior of a method with a run's options; refuse contradictions.

    Args:
        name: of a method.
        prior: as `parse_prior` reads it; None for the method's own, or 0.5.
        failures: whether known failures are given.
    """
    method = method_named(name)
    if method.risk in (None, pn):
        return _choose_without_options(name, method, prior, failures)
    chosen = parse_prior(0.5 if prior is None else prior)
    estimator = chosen.estimator if isinstance(chosen, EstimatedPrior) else None
    if estimator == "acc" and not failures:
        raise InputError(
            "the prior acc is estimated from known failures, got none; "
            "give a dataset of failures or choose bbe"
        )
    if estimator == "vpu" and failures:
        raise InputError(
            "vpu learns from positives and unlabeled alone, got known failures too; "
            "leave them out or choose the prior acc or bbe"
        )
    if failures and method.risk is not nnpu:
        raise InputError(
            f"known failures need a non-negative method, got {name}; choose nn-pugail or nn-purl"
        )
    risk = vpu if estimator == "vpu" else nnpnu if failures else method.risk
    return Choice(risk, chosen)


def _choose_without_options(
    name: str, method: Method, prior: str | float | None, failures: bool
) -> Choice:
    if prior is not None or failures:
        option = "known failures" if prior is None else f"the prior {prior}"
        reason = (
            "has no discriminator" if method.risk is None else "takes all agent frames as failures"
        )
        raise InputError(
            f"{name} {reason}, so {option} would have no effect; leave it out or choose "
            "nn-pugail or nn-purl"
        )
    return Choice(method.risk, None if method.prior is None else FixedPrior(value=method.prior))
