# SPDX-License-Identifier: Apache-2.0
"""The paper's figures as data: runs, tasks, a picture, and what the paper claims about them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pureward.paper import rules
from pureward.registry import Registry

Picture = Literal["curves", "success", "prior", "error", "strips", "gap"]


class Claim(NamedTuple):
    """A claim of the paper, in our words."""

    paper: str
    rule: rules.Rule
    tasks: tuple[str, ...] = ()
    """The tasks that the paper makes it for; empty for all tasks of the figure."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A line of a figure: a method, and settings on top of the task's preset."""

    method: str
    settings: Mapping[str, str | bool] = field(default_factory=dict)
    """By their names on the command line, such as "prior" and "reward.even"."""

    @property
    def label(self) -> str:
        """Its name in tables and claims, without settings that all lines share."""
        prior = self.settings.get("prior")
        return self.method if prior is None else f"{self.method}, η {prior}"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of the paper."""

    name: str
    shows: str
    tasks: tuple[str, ...]
    """The tasks that the paper shows it for."""
    variants: tuple[Variant, ...]
    picture: Picture
    """Key of the function in `draw.DRAW`; "strips" is drawn by `hacking`."""
    claims: tuple[Claim, ...]

    def claims_for(self, task: str) -> list[Claim]:
        """Return the claims for a task; all of them if the paper does not use the task."""
        own = task in self.tasks
        return [claim for claim in self.claims if not own or task in (claim.tasks or self.tasks)]


WALKER, LIFT, ARM, ALL = ("walker",), ("lift",), ("lift", "stack"), ("walker", "lift", "stack")
IMITATION = ("gail-noreg", "gail", "pugail", "nn-pugail")
SUPERVISED = ("prl", "prl-ensemble", "pnrl", "purl", "nn-purl")
# The paper prints neither the values of its sweeps nor their number.
PRIORS = ("0.1", "0.3", "0.5", "0.7", "0.9")


def _methods(*names: str, **settings: str) -> tuple[Variant, ...]:
    return tuple(Variant(method=name, settings=settings) for name in names)


def _sweep(method: str) -> tuple[Variant, ...]:
    """One line per η, with the paper's risk, in which η is also the weight of positives."""
    return tuple(
        Variant(method=method, settings={"prior": prior, "reward.even": False}) for prior in PRIORS
    )


_IMITATION_SWEEP = _sweep("nn-pugail")
_IMITATION_LABELS = [variant.label for variant in _IMITATION_SWEEP]
_SUPERVISED_SWEEP = (*_methods("pnrl"), *_sweep("nn-purl"), *_methods("prl"))
_SUPERVISED_LABELS = [variant.label for variant in _SUPERVISED_SWEEP]

# fmt: off
_FIGURES = (
    Figure(name="imitation", tasks=ALL, variants=_methods(*IMITATION), picture="curves",
           shows="the true return of policies that imitate demonstrations", claims=(
        Claim("On the walker every method comes close to the expert.",
              rules.near_expert(*IMITATION), WALKER),
        Claim("Without regularisation the discriminator overfits at once, and GAIL learns "
              "nothing on lifting.",
              rules.fails("gail-noreg"), LIFT),
        Claim("nn-PUGAIL comes close to the expert on lifting.",
              rules.near_expert("nn-pugail"), LIFT),
        Claim("nn-PUGAIL ends above GAIL on lifting and stacking.",
              rules.ahead("nn-pugail", "gail"), ARM),
        Claim("nn-PUGAIL learns faster than GAIL on lifting.",
              rules.faster("nn-pugail", "gail"), LIFT),
    )),
    Figure(name="imitation-prior", tasks=LIFT, variants=_IMITATION_SWEEP, picture="prior",
           shows="what η does to nn-PUGAIL's discriminator and policy", claims=(
        Claim("A low η makes the discriminator call everything a failure.",
              rules.mean_is("nn-pugail, η 0.1", expert="below", failure="below")),
        Claim("A high η makes it call everything a success.",
              rules.mean_is("nn-pugail, η 0.9", expert="above", failure="above")),
        Claim("At η = 0.5 it is right about both.",
              rules.mean_is("nn-pugail, η 0.5", expert="above", failure="below")),
        Claim("The policy is best at η = 0.5.",
              rules.most_return("nn-pugail, η 0.5", _IMITATION_LABELS)),
    )),
    Figure(name="overfitting", tasks=LIFT, picture="success",
           variants=_methods("gail", "nn-pugail"),
           shows="the share of frames of each source that a discriminator calls a success", claims=(
        Claim("GAIL's discriminator keeps its training demonstrations and loses held-out ones.",
              rules.overfits("gail")),
        Claim("nn-PUGAIL's keeps both.", rules.keeps_demonstrations("nn-pugail")),
        Claim("GAIL recognises failures.", rules.recognises_failures("gail")),
        Claim("nn-PUGAIL recognises failures.", rules.recognises_failures("nn-pugail")),
        Claim("nn-PUGAIL calls ever more of the agent's frames a success, in the end a share "
              "of about η.",
              rules.rises_to_prior("nn-pugail")),
    )),
    Figure(name="supervised", tasks=ALL, variants=_methods(*SUPERVISED), picture="curves",
           shows="the true return of policies on rewards learned from annotated episodes", claims=(
        Claim("On the walker every method with a discriminator is competitive.",
              rules.near_expert("pnrl", "purl", "nn-purl"), WALKER),
        Claim("PRL suffers from delusions, and nn-PURL ends above it.",
              rules.ahead("nn-purl", "prl")),
        Claim("PRL-ensemble suffers from delusions, and nn-PURL ends above it.",
              rules.ahead("nn-purl", "prl-ensemble")),
        Claim("On the walker PRL-ensemble gets worse after a good beginning.",
              rules.falls("prl-ensemble"), WALKER),
        Claim("On lifting and stacking nn-PURL is as good as the true reward.",
              rules.near_expert("nn-purl"), ARM),
        Claim("nn-PURL ends above PNRL on lifting and stacking.",
              rules.ahead("nn-purl", "pnrl"), ARM),
        Claim("PNRL gets worse after its first progress on lifting and stacking.",
              rules.falls("pnrl"), ARM),
    )),
    Figure(name="supervised-prior", tasks=LIFT, variants=_SUPERVISED_SWEEP, picture="error",
           shows="what η does to nn-PURL's reward error and policy, beside PRL and PNRL", claims=(
        Claim("PRL promises too much.", rules.errs("prl", side="above")),
        Claim("PNRL promises too little.", rules.errs("pnrl", side="below")),
        Claim("nn-PURL's reward errs least at η = 0.5.",
              rules.least_error("nn-purl, η 0.5", _SUPERVISED_LABELS)),
        Claim("Its policy is best at η = 0.5.",
              rules.most_return("nn-purl, η 0.5", _SUPERVISED_LABELS)),
    )),
    Figure(name="hacking", tasks=ALL, variants=_methods("prl", "nn-purl"), picture="strips",
           shows="episodes of PRL's policy, and what PRL and nn-PURL pay for them", claims=(
        Claim("PRL predicts high reward for behaviour that does not earn it.", rules.deluded()),
        Claim("nn-PURL withdraws its reward there.", rules.less_deluded()),
    )),
    Figure(name="domain-gap", tasks=LIFT, picture="gap",
           variants=_methods("gail", "nn-pugail", "prl", "pnrl", "nn-purl", distractors="cuboid"),
           shows="learning where the distractors are not shaped like those in the data", claims=(
        Claim("nn-PUGAIL outperforms GAIL across the gap.", rules.ahead("nn-pugail", "gail")),
        Claim("nn-PURL outperforms its positive-negative counterpart, PNRL, across the gap.",
              rules.ahead("nn-purl", "pnrl")),
        Claim("nn-PURL outperforms plain supervised reward learning, PRL, across the gap.",
              rules.ahead("nn-purl", "prl")),
        Claim("nn-PURL stays close to the expert across the gap.", rules.near_expert("nn-purl")),
    )),
)
# fmt: on
FIGURES: Registry[Figure] = Registry("figure")
FIGURES |= {figure.name: figure for figure in _FIGURES}
