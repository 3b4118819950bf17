# SPDX-License-Identifier: Apache-2.0
"""Rules that decide whether runs agree with a claim of the paper.

Returns, reward errors and outputs of D are means over the last quarter of a run, then over seeds.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

import numpy as np

from pureward.diagnostics.verdict import FEW, GOOD, LARGE_GAP, MOST, OVERFIT
from pureward.interval import difference
from pureward.paper.results import Mean, Results, UnmeasuredError, mean_of

NEARLY_ALL, NEARLY_NONE = 0.9, 0.1  # of P(success), for the paper's 100% and 0%
NEAR_PRIOR = 0.15  # largest distance between P(success) of the replay and η that counts as close

Outcome = Literal["holds", "does not hold", "too close to call", "not measured"]
Side = Literal["above", "below"]
Answer = tuple[bool | Outcome, str]


class Rule(NamedTuple):
    """When a claim holds, in words and as a function of results and a task."""

    text: str
    check: Callable[[Results, str], Answer]

    def apply(self, results: Results, task: str) -> tuple[Outcome, str]:
        """Return the outcome and the numbers behind it; "not measured" if a number is missing."""
        try:
            answer, numbers = self.check(results, task)
        except UnmeasuredError as missing:
            return "not measured", f"{missing} was not measured"
        if isinstance(answer, str):
            return answer, numbers
        return "holds" if answer else "does not hold", numbers


def rule(check: Callable[..., Answer]) -> Callable[..., Rule]:
    """Turn a check of results, a task and more into a function of the rest that makes a `Rule`.

    The docstring of the check, filled with constants and keyword arguments, is the rule's text.
    """
    text = " ".join((check.__doc__ or "").split())
    return lambda *labels, **sides: Rule(
        text.format(**globals(), **sides),
        lambda results, task: check(results, task, *labels, **sides),
    )


@rule
def near_expert(results: Results, task: str, *labels: str) -> Answer:
    """the return is at least {GOOD:.0%} of the way from failures to the expert"""
    ways = {label: results.group(task, label).ways().mean() for label in labels}
    return all(way >= GOOD for way in ways.values()), _listed(ways, ".0%")


@rule
def fails(results: Results, task: str, label: str) -> Answer:
    """the return is below {LARGE_GAP:.0%} of the way from failures to the expert"""
    way = results.group(task, label).ways().mean()
    return way < LARGE_GAP, f"{label} {way:.0%}"


@rule
def ahead(results: Results, task: str, one: str, other: str) -> Answer:
    """the return at the end is higher, and Welch's 95% interval excludes 0"""
    return _best(one, {label: results.group(task, label).returns() for label in (one, other)})


@rule
def faster(results: Results, task: str, one: str, other: str) -> Answer:
    """the mean return over the course of learning is higher, and Welch's 95% interval excludes 0"""
    pair = [results.group(task, label) for label in (one, other)]
    span = results.span(task)
    return _best(one, {group.label: group.area(span) for group in pair})


@rule
def falls(results: Results, task: str, label: str) -> Answer:
    """the return ends more than {LARGE_GAP:.0%} below the top of the mean curve"""
    group = results.group(task, label)
    best, end = group.peak(), group.returns().mean()
    dropped = best - end > LARGE_GAP * abs(best)
    return dropped, f"{label} {best:.1f} at its best, {end:.1f} in the end"


@rule
def most_return(results: Results, task: str, label: str, among: Iterable[str]) -> Answer:
    """the return at the end is higher than that of every other line, and Welch's 95% intervals
    exclude 0"""
    return _best(label, {one: results.group(task, one).returns() for one in among})


@rule
def least_error(results: Results, task: str, label: str, among: Iterable[str]) -> Answer:
    """the size of the reward error, whatever its sign, is lower than that of every other line, and
    Welch's 95% intervals exclude 0"""
    # Absolute values: errors of opposite sign must not cancel between seeds.
    sizes = {one: abs(results.group(task, one).late("reward_error")) for one in among}
    return _best(label, sizes, sign=-1)


@rule
def errs(results: Results, task: str, label: str, *, side: Side) -> Answer:
    """the 95% interval of the reward error lies {side} 0"""
    error = mean_of(results.group(task, label).late("reward_error"))
    numbers = f"{label} {error}"
    if error.half_width is None:
        return "not measured", f"{numbers}; two seeds are needed"
    if abs(error.value) <= error.half_width:
        return "too close to call", numbers
    return (error.value > 0) == (side == "above"), numbers


@rule
def mean_is(results: Results, task: str, label: str, *, expert: Side, failure: Side) -> Answer:
    """mean D is {expert} ½ on held-out demonstrations and {failure} ½ on failures"""
    seen = _probed(results, task, label, ("mean/held_out", "mean/failure"))
    sides = ["above" if mean > 0.5 else "below" for mean in seen.values()]
    return sides == [expert, failure], _listed(seen, ".2f")


@rule
def keeps_demonstrations(results: Results, task: str, label: str) -> Answer:
    """P(success) of train and held_out lies between {NEARLY_ALL:g} and 1"""
    seen = _probed(results, task, label, ("success/train", "success/held_out"))
    return all(share >= NEARLY_ALL for share in seen.values()), _listed(seen, ".2f")


@rule
def recognises_failures(results: Results, task: str, label: str) -> Answer:
    """P(success) of failure lies between 0 and {NEARLY_NONE:g}"""
    seen = _probed(results, task, label, ("success/failure",))
    return seen["failure"] <= NEARLY_NONE, _listed(seen, ".2f")


@rule
def overfits(results: Results, task: str, label: str) -> Answer:
    """P(success) is at least {MOST:g} on trained demonstrations and more than {OVERFIT:g} lower on
    held-out ones"""
    seen = _probed(results, task, label, ("success/train", "success/held_out"))
    train, held_out = seen.values()
    return train >= MOST and train - held_out > OVERFIT, _listed(seen, ".2f")


@rule
def rises_to_prior(results: Results, task: str, label: str) -> Answer:
    """P(success) of the replay rises by more than {FEW:g} from the first quarter to the last, and
    ends within {NEAR_PRIOR:g} of η"""
    group = results.group(task, label)
    early, late = group.early("success/replay").mean(), group.late("success/replay").mean()
    prior = group.late("prior").mean()
    rises = late - early > FEW and abs(late - prior) <= NEAR_PRIOR
    return rises, f"{label} from {early:.2f} to {late:.2f} at η = {prior:g}"


@rule
def deluded(results: Results, task: str) -> Answer:
    """over the episodes of prl's policy, prl promises more than the true return, by more than
    {LARGE_GAP:.0%} of the expert's"""
    episodes = results.episodes(task)
    true, predicted = (episodes.returns[name].mean() for name in ("true", "prl"))
    expert = results.group(task, "prl").runs[0].expert
    if expert is None:
        raise UnmeasuredError(f"an expert's return on {task}")
    hacked = predicted - true > LARGE_GAP * abs(expert)
    return hacked, f"{predicted:.1f} for {true:.1f} over {episodes}"


@rule
def less_deluded(results: Results, task: str) -> Answer:
    """on the same episodes what nn-purl pays is off the true return by at least {LARGE_GAP:.0%}
    less than what prl does, on average"""
    episodes = results.episodes(task)
    paid, true = episodes.returns, episodes.returns["true"]
    off = {name: abs(paid[name] - true).mean() for name in ("prl", "nn-purl")}
    less = off["nn-purl"] <= (1 - LARGE_GAP) * off["prl"]
    return less, f"off by {_listed(off, '.1f')} over {episodes}"


def _probed(results: Results, task: str, label: str, names: Iterable[str]) -> dict[str, float]:
    """Late means of probed metrics, by the source that each name ends in."""
    group = results.group(task, label)
    return {name.partition("/")[2]: group.late(name).mean() for name in names}


def _best(label: str, values: Mapping[str, np.ndarray], sign: Literal[1, -1] = 1) -> Answer:
    """Whether a line is above (1) or below (−1) each of the others, by Welch's intervals."""
    numbers = _listed({one: mean_of(seeds) for one, seeds in values.items()})
    if min(map(len, values.values())) < 2:
        return "not measured", f"{numbers}; two seeds of each are needed"
    rivals = [one for one in values if one != label]
    lead = {one: difference(sign * values[label], sign * values[one]) for one in rivals}
    if better := [one for one, (_, high) in lead.items() if high < 0]:
        return False, f"{numbers}; better: {' / '.join(better)}"
    if close := [one for one, (low, high) in lead.items() if low <= 0 <= high]:
        near = f"too near to it: {' / '.join(close)}"
        if len(rivals) == 1:
            near = "the difference lies between {:.1f} and {:.1f}".format(*lead[close[0]])
        return "too close to call", f"{numbers}; {near}"
    return True, numbers


def _listed(values: Mapping[str, float | Mean], form: str = "") -> str:
    return ", ".join(f"{name} {value:{form}}" for name, value in values.items())
