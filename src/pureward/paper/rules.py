# SPDX-License-Identifier: Apache-2.0
"""Rules by which runs agree with a claim of the paper or not.

Returns, rewards and what D says are means over the last quarter of a run, then over seeds.
"""

from typing import Literal

import numpy as np
from scipy.stats import ttest_ind

from pureward.diagnostics.verdict import FEW, GOOD, MOST, OVERFIT, PARTED
from pureward.paper.figure import Finding, Rule
from pureward.paper.numbers import Results, UnmeasuredError, mean_of

NEARLY_ALL, NEARLY_NONE = 0.9, 0.1
"""P(success) that stands for the paper's 100% and 0%."""
NEAR_PRIOR = 0.15
"""How far P(success) of the replay may lie from η to count as approximating it."""


def near_expert(*labels: str) -> Rule:
    """Every line comes close to the expert."""

    def ask(results: Results, task: str) -> Finding:
        ways = {label: mean_of(results.group(task, label).ways()) for label in labels}
        told = ", ".join(f"{label} {way.value:.0%}" for label, way in ways.items())
        return _decided(all(way.value >= GOOD for way in ways.values()), told)

    return Rule(
        says=f"the return is at least {GOOD:.0%} of the way from failures to the expert", ask=ask
    )


def fails(label: str) -> Rule:
    """A line does not learn the task."""

    def ask(results: Results, task: str) -> Finding:
        way = mean_of(results.group(task, label).ways())
        return _decided(way.value < 1 - GOOD, f"{label} {way.value:.0%}")

    return Rule(
        says=f"the return is below {1 - GOOD:.0%} of the way from failures to the expert", ask=ask
    )


def ahead(one: str, other: str, of: Literal["return", "area"] = "return") -> Rule:
    """A line is above another, in the end or on the whole way."""

    def ask(results: Results, task: str) -> Finding:
        pair = [results.group(task, one), results.group(task, other)]
        span = results.span(task)
        ours, theirs = (g.returns() if of == "return" else g.area(span) for g in pair)
        told = f"{one} {mean_of(ours).told()}, {other} {mean_of(theirs).told()}"
        if min(len(ours), len(theirs)) < 2:
            return Finding(outcome="not measured", told=f"{told}; it takes two seeds of each")
        low, high = _difference(ours, theirs)
        if low <= 0 <= high:
            told += f"; the difference lies between {low:.1f} and {high:.1f}"
            return Finding(outcome="too close to call", told=told)
        return _decided(low > 0, told)

    what = "return at the end" if of == "return" else "mean return over the course of learning"
    return Rule(says=f"the {what} is higher, and Welch's 95% interval excludes 0", ask=ask)


def falls(label: str) -> Rule:
    """A line was better on its way than in the end."""

    def ask(results: Results, task: str) -> Finding:
        group = results.group(task, label)
        best, end = group.peak(), mean_of(group.returns()).value
        told = f"{label} {best:.1f} at its best, {end:.1f} in the end"
        return _decided(best - end > PARTED * abs(best), told)

    return Rule(
        says=f"the return ends more than {PARTED:.0%} below the top of the mean curve", ask=ask
    )


def most_return(label: str, among: tuple[str, ...]) -> Rule:
    """A line is the best of several, itself among them."""

    def ask(results: Results, task: str) -> Finding:
        return _leads(label, {one: results.group(task, one).returns() for one in among})

    return Rule(
        says="the return at the end is higher than that of every other line, and Welch's 95% "
        "intervals exclude 0",
        ask=ask,
    )


def least_error(label: str, among: tuple[str, ...]) -> Rule:
    """A line predicts returns best of several, itself among them."""

    def ask(results: Results, task: str) -> Finding:
        groups = {one: results.group(task, one) for one in among}
        # A seed that promises too much does not make up for one that promises too little.
        sizes = {one: abs(group.late("reward_error")) for one, group in groups.items()}
        return _leads(label, sizes, sign=-1)

    return Rule(
        says="the size of the reward error, whatever its sign, is lower than that of every other "
        "line, and Welch's 95% intervals exclude 0",
        ask=ask,
    )


def errs(label: str, sign: Literal[1, -1]) -> Rule:
    """A line promises more than the truth (1) or less (−1)."""

    def ask(results: Results, task: str) -> Finding:
        error = mean_of(results.group(task, label).late("reward_error"))
        told = f"{label} {error.told()}"
        if error.half_width is None:
            return Finding(outcome="not measured", told=f"{told}; it takes two seeds")
        if abs(error.value) <= error.half_width:
            return Finding(outcome="too close to call", told=told)
        return _decided(sign * error.value > 0, told)

    side = "above" if sign > 0 else "below"
    return Rule(says=f"the 95% interval of the reward error lies {side} 0", ask=ask)


def takes(label: str, *, expert: bool, failure: bool) -> Rule:
    """What the mean of D says of held-out demonstrations and failures: success or not."""

    def ask(results: Results, task: str) -> Finding:
        group = results.group(task, label)
        seen = {s: mean_of(group.late(f"mean/{s}")).value for s in ("held_out", "failure")}
        right = (seen["held_out"] > 0.5) == expert and (seen["failure"] > 0.5) == failure
        return _decided(right, _listed(seen, digits=2))

    sides = {True: "above", False: "below"}
    return Rule(
        says=f"mean D is {sides[expert]} ½ on held-out demonstrations and {sides[failure]} ½ on "
        "failures",
        ask=ask,
    )


def calls(label: str, sources: tuple[str, ...], *, low: float = 0.0, high: float = 1.0) -> Rule:
    """P(success) of sources lies within bounds."""

    def ask(results: Results, task: str) -> Finding:
        group = results.group(task, label)
        seen = {s: mean_of(group.late(f"success/{s}")).value for s in sources}
        return _decided(all(low <= s <= high for s in seen.values()), _listed(seen, digits=2))

    named = " and ".join(sources)
    return Rule(says=f"P(success) of {named} lies between {low:g} and {high:g}", ask=ask)


def overfits(label: str) -> Rule:
    """D knows its demonstrations by heart."""

    def ask(results: Results, task: str) -> Finding:
        group = results.group(task, label)
        seen = {s: mean_of(group.late(f"success/{s}")).value for s in ("train", "held_out")}
        wide = seen["train"] >= MOST and seen["train"] - seen["held_out"] > OVERFIT
        return _decided(wide, _listed(seen, digits=2))

    return Rule(
        says=f"P(success) is at least {MOST:g} on trained demonstrations and more than "
        f"{OVERFIT:g} lower on held-out ones",
        ask=ask,
    )


def rises_to_prior(label: str) -> Rule:
    """D calls more of the agent's frames a success as it learns, in the end a share of η."""

    def ask(results: Results, task: str) -> Finding:
        group = results.group(task, label)
        early = mean_of(group.early("success/replay")).value
        late = mean_of(group.late("success/replay")).value
        prior = mean_of(group.late("prior")).value
        told = f"{label} from {early:.2f} to {late:.2f} at η = {prior:g}"
        return _decided(late - early > FEW and abs(late - prior) <= NEAR_PRIOR, told)

    return Rule(
        says=f"P(success) of the replay rises by more than {FEW:g} from the first quarter to the "
        f"last, and ends within {NEAR_PRIOR:g} of η",
        ask=ask,
    )


def deluded() -> Rule:
    """prl promises its own policy more than the truth keeps."""

    def ask(results: Results, task: str) -> Finding:
        episodes = results.episodes(task)
        true, promised = (float(episodes.returns[name].mean()) for name in ("true", "prl"))
        numbers = f"{promised:.1f} for {true:.1f} over {episodes.told()}"
        expert = results.group(task, "prl").runs[0].expert
        if expert is None:
            raise UnmeasuredError(f"an expert's return on {task}")
        return _decided(promised - true > PARTED * abs(expert), numbers)

    return Rule(
        says=f"over the episodes of prl's policy, prl promises more than the true return, by more "
        f"than {PARTED:.0%} of the expert's",
        ask=ask,
    )


def less_deluded() -> Rule:
    """nn-purl is nearer to the truth than prl where prl is exploited."""

    def ask(results: Results, task: str) -> Finding:
        episodes = results.episodes(task)
        paid, true = episodes.returns, episodes.returns["true"]
        off = {name: float(abs(paid[name] - true).mean()) for name in ("prl", "nn-purl")}
        told = f"off by {_listed(off)} over {episodes.told()}"
        return _decided(off["nn-purl"] < off["prl"], told)

    return Rule(
        says="on the same episodes what nn-purl pays is off the true return by less than what prl "
        "does, on average",
        ask=ask,
    )


def _leads(label: str, values: dict[str, np.ndarray], sign: Literal[1, -1] = 1) -> Finding:
    """Whether a line is above (1) or below (−1) each of the others, by Welch's intervals."""
    told = ", ".join(f"{one} {mean_of(seeds).told()}" for one, seeds in values.items())
    if min(map(len, values.values())) < 2:
        return Finding(outcome="not measured", told=f"{told}; it takes two seeds of each")
    rivals = [one for one in values if one != label]
    lead = {one: _difference(sign * values[label], sign * values[one]) for one in rivals}
    better = [one for one, (_, high) in lead.items() if high < 0]
    close = [one for one, (low, high) in lead.items() if low <= 0 <= high]
    if better:
        return _decided(False, f"{told}; better: {' / '.join(better)}")
    if close:
        told += f"; too near to it: {' / '.join(close)}"
        return Finding(outcome="too close to call", told=told)
    return _decided(True, told)


def _difference(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, float]:
    """Welch's 95% interval of the difference of two means."""
    if np.ptp(ours) == 0 and np.ptp(theirs) == 0:  # nothing to estimate a spread from
        apart = float(ours.mean() - theirs.mean())
        return apart, apart
    interval = ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    return float(interval.low), float(interval.high)


def _decided(holds: bool, told: str) -> Finding:
    return Finding(outcome="holds" if holds else "does not hold", told=told)


def _listed(values: dict[str, float], digits: int = 1) -> str:
    return ", ".join(f"{name} {value:.{digits}f}" for name, value in values.items())
