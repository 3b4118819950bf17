# SPDX-License-Identifier: Apache-2.0
"""The paper's figures as data: which runs each takes, what it draws, what the paper says of it."""

from pureward.errors import InputError
from pureward.paper.figure import Claim, Figure, Variant
from pureward.paper.rules import (
    NEARLY_ALL,
    NEARLY_NONE,
    ahead,
    calls,
    deluded,
    errs,
    fails,
    falls,
    least_error,
    less_deluded,
    most_return,
    near_expert,
    overfits,
    rises_to_prior,
    takes,
)

ALL = ("walker", "lift", "stack")
LIFT, LIFT_AND_STACK, WALKER = ("lift",), ("lift", "stack"), ("walker",)
IMITATION = ("gail-noreg", "gail", "pugail", "nn-pugail")
SUPERVISED = ("prl", "prl-ensemble", "pnrl", "purl", "nn-purl")
# The paper prints neither the values of its sweeps nor their number.
PRIORS = ("0.1", "0.3", "0.5", "0.7", "0.9")


def _methods(*names: str, **settings: str) -> tuple[Variant, ...]:
    return tuple(Variant(method=name, settings=settings) for name in names)


def _sweep(method: str) -> tuple[Variant, ...]:
    """A line for each η, by the paper's risk, in which η is also what a success counts."""
    return tuple(
        Variant(method=method, settings={"prior": prior, "reward.even": False}) for prior in PRIORS
    )


def _labels(variants: tuple[Variant, ...]) -> tuple[str, ...]:
    return tuple(variant.label for variant in variants)


_IMITATION = Figure(
    name="imitation",
    shows="the true return of policies that imitate demonstrations",
    tasks=ALL,
    variants=_methods(*IMITATION),
    picture="curves",
    claims=(
        Claim(
            "On the walker every method comes close to the expert.", WALKER, near_expert(*IMITATION)
        ),
        Claim(
            "Without regularisation the discriminator overfits at once, and GAIL learns "
            "nothing on lifting.",
            LIFT,
            fails("gail-noreg"),
        ),
        Claim("nn-PUGAIL comes close to the expert on lifting.", LIFT, near_expert("nn-pugail")),
        Claim(
            "nn-PUGAIL ends above GAIL on lifting and stacking.",
            LIFT_AND_STACK,
            ahead("nn-pugail", "gail"),
        ),
        Claim(
            "nn-PUGAIL learns faster than GAIL on lifting.",
            LIFT,
            ahead("nn-pugail", "gail", of="area"),
        ),
    ),
)

_IMITATION_SWEEP = _sweep("nn-pugail")
_IMITATION_PRIOR = Figure(
    name="imitation-prior",
    shows="what η does to nn-PUGAIL's discriminator and policy",
    tasks=LIFT,
    variants=_IMITATION_SWEEP,
    picture="prior",
    claims=(
        Claim(
            "A low η makes the discriminator call everything a failure.",
            LIFT,
            takes("nn-pugail, η 0.1", expert=False, failure=False),
        ),
        Claim(
            "A high η makes it call everything a success.",
            LIFT,
            takes("nn-pugail, η 0.9", expert=True, failure=True),
        ),
        Claim(
            "At η = 0.5 it is right about both.",
            LIFT,
            takes("nn-pugail, η 0.5", expert=True, failure=False),
        ),
        Claim(
            "The policy is best at η = 0.5.",
            LIFT,
            most_return("nn-pugail, η 0.5", _labels(_IMITATION_SWEEP)),
        ),
    ),
)

_OVERFITTING = Figure(
    name="overfitting",
    shows="the share of frames of each source that a discriminator calls a success",
    tasks=LIFT,
    variants=_methods("gail", "nn-pugail"),
    picture="success",
    claims=(
        Claim(
            "GAIL's discriminator keeps its training demonstrations and loses held-out ones.",
            LIFT,
            overfits("gail"),
        ),
        Claim(
            "nn-PUGAIL's keeps both.",
            LIFT,
            calls("nn-pugail", ("train", "held_out"), low=NEARLY_ALL),
        ),
        *(
            Claim(
                f"{name} recognises failures.", LIFT, calls(method, ("failure",), high=NEARLY_NONE)
            )
            for method, name in (("gail", "GAIL"), ("nn-pugail", "nn-PUGAIL"))
        ),
        Claim(
            "nn-PUGAIL calls ever more of the agent's frames a success, in the end a share "
            "of about η.",
            LIFT,
            rises_to_prior("nn-pugail"),
        ),
    ),
)

_SUPERVISED = Figure(
    name="supervised",
    shows="the true return of policies on rewards learned from annotated episodes",
    tasks=ALL,
    variants=_methods(*SUPERVISED),
    picture="curves",
    claims=(
        Claim(
            "On the walker every method with a discriminator is competitive.",
            WALKER,
            near_expert("pnrl", "purl", "nn-purl"),
        ),
        *(
            Claim(
                f"{name} suffers from delusions, and nn-PURL ends above it.",
                ALL,
                ahead("nn-purl", method),
            )
            for method, name in (("prl", "PRL"), ("prl-ensemble", "PRL-ensemble"))
        ),
        Claim(
            "On the walker PRL-ensemble gets worse after a good beginning.",
            WALKER,
            falls("prl-ensemble"),
        ),
        Claim(
            "On lifting and stacking nn-PURL is as good as the true reward.",
            LIFT_AND_STACK,
            near_expert("nn-purl"),
        ),
        Claim(
            "nn-PURL ends above PNRL on lifting and stacking.",
            LIFT_AND_STACK,
            ahead("nn-purl", "pnrl"),
        ),
        Claim(
            "PNRL gets worse after its first progress on lifting and stacking.",
            LIFT_AND_STACK,
            falls("pnrl"),
        ),
    ),
)

_SUPERVISED_SWEEP = (*_methods("pnrl"), *_sweep("nn-purl"), *_methods("prl"))
_SUPERVISED_PRIOR = Figure(
    name="supervised-prior",
    shows="what η does to nn-PURL's reward error and policy, beside PRL and PNRL",
    tasks=LIFT,
    variants=_SUPERVISED_SWEEP,
    picture="error",
    claims=(
        Claim("PRL promises too much.", LIFT, errs("prl", 1)),
        Claim("PNRL promises too little.", LIFT, errs("pnrl", -1)),
        Claim(
            "nn-PURL's reward errs least at η = 0.5.",
            LIFT,
            least_error("nn-purl, η 0.5", _labels(_SUPERVISED_SWEEP)),
        ),
        Claim(
            "Its policy is best at η = 0.5.",
            LIFT,
            most_return("nn-purl, η 0.5", _labels(_SUPERVISED_SWEEP)),
        ),
    ),
)

_HACKING = Figure(
    name="hacking",
    shows="episodes of PRL's policy, and what PRL and nn-PURL pay for them",
    tasks=ALL,
    variants=_methods("prl", "nn-purl"),
    picture="strips",
    claims=(
        Claim("PRL predicts high reward for behaviour that does not earn it.", ALL, deluded()),
        Claim("nn-PURL withdraws its reward there.", ALL, less_deluded()),
    ),
)

_GAP = Figure(
    name="domain-gap",
    shows="learning where the distractors are not shaped like those in the data",
    tasks=LIFT,
    variants=_methods("gail", "nn-pugail", "prl", "pnrl", "nn-purl", distractors="cuboid"),
    picture="gap",
    claims=(
        Claim("nn-PUGAIL outperforms GAIL across the gap.", LIFT, ahead("nn-pugail", "gail")),
        Claim(
            "nn-PURL outperforms its positive-negative counterpart, PNRL, across the gap.",
            LIFT,
            ahead("nn-purl", "pnrl"),
        ),
        Claim(
            "nn-PURL outperforms plain supervised reward learning, PRL, across the gap.",
            LIFT,
            ahead("nn-purl", "prl"),
        ),
        Claim("nn-PURL stays close to the expert across the gap.", LIFT, near_expert("nn-purl")),
    ),
)

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        _IMITATION,
        _IMITATION_PRIOR,
        _OVERFITTING,
        _SUPERVISED,
        _SUPERVISED_PRIOR,
        _HACKING,
        _GAP,
    )
}


def find_figure(name: str) -> Figure:
    """The figure of that name, or a sentence that lists the names there are."""
    if name not in FIGURES:
        raise InputError(f"unknown figure {name!r}; choose from {', '.join(FIGURES)}")
    return FIGURES[name]
