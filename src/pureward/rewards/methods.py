# SPDX-License-Identifier: Apache-2.0
"""The methods of the paper as rows of one table."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

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
    """Description in one line."""
    reward: RewardKind
    """The task's own, −log(1−D), r_φ, or [D > ½]·r_φ."""
    positives: Positives | None
    """Data that the user must give: demonstrations, annotated episodes, or none."""
    risk: str = ""
    """Name of the discriminator's risk; "" without a discriminator."""
    prior: float | None = None
    """η if the method fixes it; None if the run sets it."""
    regularised: bool = True
    """Whether training uses augmentation and dropout."""
    members: int = 1
    """Reward models in its ensemble; the paper does not state its size."""

    @property
    def needs_annotations(self) -> bool:
        """Whether it learns from annotated episodes."""
        return self.positives == "annotations"

    @property
    def has_discriminator(self) -> bool:
        """Whether a discriminator is trained beside the agent."""
        return bool(self.risk)

    @property
    def takes_prior(self) -> bool:
        """Whether the run sets η; the fixed weight of `gail` is none."""
        return self.has_discriminator and self.prior is None

    @property
    def has_reward_model(self) -> bool:
        """Whether a reward model is trained before the agent."""
        return self.reward in ("regression", "gated")

    def network(self, config: NetworkConfig) -> NetworkConfig:
        """Return the network settings, without augmentation and dropout if not regularised."""
        return config if self.regularised else replace(config, dropout=0.0, view=View.off())


def _row(summary: str, reward: RewardKind, **rest) -> Method:
    positives = "demonstrations" if reward == "imitation" else "annotations"
    return Method(summary=summary, reward=reward, positives=positives, **rest)


METHODS: Registry[Method] = Registry("method")
METHODS |= {
    "truth": Method(summary="the task's own reward, for experts", reward="truth", positives=None),
    "gail-noreg": _row(
        "GAIL without augmentation or dropout", "imitation", risk="pn", prior=0.5, regularised=False
    ),
    "gail": _row("GAIL, agent frames as failures", "imitation", risk="pn", prior=0.5),
    "pugail": _row("GAIL with the unbiased PU risk", "imitation", risk="upu"),
    "nn-pugail": _row("GAIL with the non-negative PU risk", "imitation", risk="nnpu"),
    "prl": _row("reward regressed on annotated episodes", "regression"),
    "prl-ensemble": _row("minimum of several regressed rewards", "regression", members=5),
    "pnrl": _row("regressed reward gated, agent frames as failures", "gated", risk="pn", prior=0.5),
    "purl": _row("regressed reward gated by the unbiased PU risk", "gated", risk="upu"),
    "nn-purl": _row("regressed reward gated by the non-negative PU risk", "gated", risk="nnpu"),
}


def default_method(data: Mapping[str, Any], otherwise: str = "truth") -> str:
    """Return the method for the data that is given: nn-pugail or nn-purl.

    Args:
        data: what is given, by name; "demonstrations" and "annotations" count if they are true.
        otherwise: the method if there are both or none.
    """
    demonstrated, annotated = (bool(data.get(n)) for n in ("demonstrations", "annotations"))
    if demonstrated == annotated:
        return otherwise
    return "nn-pugail" if demonstrated else "nn-purl"


class Choice(NamedTuple):
    """Risk and prior of a discriminator in one run."""

    risk: RiskKind
    prior: Prior


def choose(
    name: str, *, risk: str = "", prior: str | float | None = None, failures: bool = False
) -> Choice | None:
    """Return risk and prior of a method; None if it has no discriminator.

    Args:
        name: of a method.
        risk: a name in `RISKS`, or "" for the method's own.
        prior: input of `parse_prior`; None for the method's own, or 0.5.
        failures: whether known failures are given.
    """
    method = METHODS[name]
    if not method.takes_prior:
        fixed = "takes all agent frames as failures"
        reason = fixed if method.has_discriminator else "has no discriminator"
        options = {
            f"the risk {risk}": bool(risk),
            "known failures": failures,
            f"the prior {prior}": prior not in ("", None),
        }
        for option, is_given in options.items():
            if is_given:
                raise InputError(
                    f"{name} {reason}, so {option} would have no effect; leave it out or choose "
                    "nn-pugail or nn-purl"
                )
    if not method.has_discriminator:
        return None
    risk = risk or method.risk
    kind = RISKS[risk]
    if failures and not kind.takes_failures:
        raise InputError(
            f"known failures are given, and the risk {risk} takes none; "
            "choose --reward.risk nnpnu or leave them out"
        )
    if kind.takes_failures and not failures:
        raise InputError(
            f"known failures are not given, and the risk {risk} needs some; "
            "give --failures FOLDER or choose nnpu"
        )
    chosen = parse_prior(method.prior or (0.5 if prior is None else prior))
    if "failures" in chosen.wants and not failures:
        raise InputError(
            f"the prior {prior} is estimated from known failures, got none; "
            "give --failures FOLDER or choose bbe"
        )
    return Choice(kind, chosen)
