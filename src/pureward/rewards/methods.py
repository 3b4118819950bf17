# SPDX-License-Identifier: Apache-2.0
"""The methods of the paper as rows of one table; adding a method is adding a row."""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from pureward.errors import InputError
from pureward.registry import Registry
from pureward.rewards.network import NetworkConfig
from pureward.rewards.priors import Prior, parse_prior
from pureward.rewards.risks import RISKS, RiskKind
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
    risk: str = ""
    """Name of what its discriminator minimises; "" if it has none."""
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
        return bool(self.risk)

    @property
    def has_reward_model(self) -> bool:
        """Whether a reward model is trained before the agent."""
        return self.reward in ("regression", "gated")

    def network(self, config: NetworkConfig) -> NetworkConfig:
        """Return the network to use: the one given, or without dropout on whole frames."""
        return config if self.regularised else replace(config, dropout=0.0, view=View.off())


def _imitation(summary: str, risk: str, **rest) -> Method:
    return Method(
        summary=summary, reward="imitation", positives="demonstrations", risk=risk, **rest
    )


def _supervised(summary: str, reward: RewardKind, **rest) -> Method:
    return Method(summary=summary, reward=reward, positives="annotations", **rest)


METHODS: Registry[Method] = Registry("method")
METHODS |= {
    "truth": Method(summary="the task's own reward, for experts", reward="truth", positives=None),
    "gail-noreg": _imitation(
        "GAIL without augmentation or dropout", "pn", prior=0.5, regularised=False
    ),
    "gail": _imitation("GAIL, agent frames as failures", "pn", prior=0.5),
    "pugail": _imitation("GAIL with the unbiased PU risk", "upu"),
    "nn-pugail": _imitation("GAIL with the non-negative PU risk", "nnpu"),
    "prl": _supervised("reward regressed on annotated episodes", "regression"),
    "prl-ensemble": _supervised("minimum of several regressed rewards", "regression", members=5),
    "pnrl": _supervised(
        "regressed reward gated, agent frames as failures", "gated", risk="pn", prior=0.5
    ),
    "purl": _supervised("regressed reward gated by the unbiased PU risk", "gated", risk="upu"),
    "nn-purl": _supervised(
        "regressed reward gated by the non-negative PU risk", "gated", risk="nnpu"
    ),
}


class Choice(NamedTuple):
    """How a method's discriminator learns in one run."""

    risk: RiskKind
    """What it minimises."""
    prior: Prior
    """Where η comes from."""


def choose(
    name: str, *, risk: str = "", prior: str | float | None = None, failures: bool = False
) -> Choice | None:
    """Return risk and prior of a method with a run's options, None if it has no discriminator.

    Args:
        name: of a method.
        risk: a name in `RISKS`, or "" for the method's own.
        prior: as `parse_prior` reads it; None for the method's own, or 0.5.
        failures: whether known failures are given.
    """
    method = METHODS[name]
    if method.prior is not None or not method.has_discriminator:
        _refuse_options(name, method, risk, prior, failures)
    if not method.has_discriminator:
        return None
    kind = RISKS[risk or method.risk]
    if failures != kind.takes_failures:
        takes, remedy = (
            ("takes none", "choose --reward.risk nnpnu or leave them out")
            if failures
            else ("needs some", "give --failures FOLDER or choose nnpu")
        )
        raise InputError(
            f"known failures are {'given' if failures else 'not given'}, and the risk "
            f"{risk or method.risk} {takes}; {remedy}"
        )
    chosen = parse_prior(method.prior or (0.5 if prior is None else prior))
    if "failures" in chosen.wants and not failures:
        raise InputError(
            f"the prior {prior} is estimated from known failures, got none; "
            "give --failures FOLDER or choose bbe"
        )
    return Choice(kind, chosen)


def _refuse_options(
    name: str, method: Method, risk: str, prior: str | float | None, failures: bool
) -> None:
    given = {"the risk " + risk: risk, "known failures": failures, f"the prior {prior}": prior}
    for option, value in given.items():
        if value not in ("", None, False):
            reason = (
                "takes all agent frames as failures"
                if method.has_discriminator
                else "has no discriminator"
            )
            raise InputError(
                f"{name} {reason}, so {option} would have no effect; leave it out or choose "
                "nn-pugail or nn-purl"
            )
