# SPDX-License-Identifier: Apache-2.0
"""The verdict on a run, from its metrics alone: what became of the learned reward, in words.

Numbers are means over the last quarter of a run; returns are those of the last evaluation, which
is a mean over episodes already. Rules are asked in order and the first that applies speaks; a
rule whose numbers were not measured does not apply.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pureward.reward.methods import method_named

Row = Mapping[str, Any]
Numbers = Mapping[str, float]
Name = Literal[
    "healthy",
    "unsteady",
    "unfinished",
    "saturated",
    "collapsed",
    "discriminator won",
    "reward hacked",
    "starved",
    "undecided",
]

LATE = 0.25
"""Share of a run, its end, that is averaged: long enough to outlast one swing of the game."""
SATURATED = 0.9
"""Share of rewards at the ceiling above which hardly two states differ in reward."""
FLAT = 0.05
"""Distance of mean D between demonstrations and failures below which D tells nothing apart."""
MOST, FEW = 0.8, 0.05
"""Shares of frames that count as nearly all and as next to none."""
DEAD = 0.1
"""Mean imitation reward that counts as none: D is then below 0.1, of a usual ceiling of 1 to 3."""
OVERFIT = 0.2
"""How far P(success) of held-out demonstrations may lie below that of trained ones: two whole
episodes of ten, where chance in the choice of episodes moves single frames."""
FORGOT = 0.3
"""P(success) of failures, at its highest after the best policy, that counts as forgetting them."""
GOOD, POOR = 0.8, 0.5
"""Shares of the way from failures' return to the expert's: as good as done, and not half done."""
PARTED = 1 - GOOD
"""Episodic reward error, as a share of the expert's return, beyond which prediction and truth
have parted: it can pass a policy off as good that is not."""
PARTED_FROM_ITSELF = 0.5
"""The same as a share of the prediction, where no expert is known: half of it is not there."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a verdict must know besides the metrics."""

    method: str
    expert: float | None = None
    """Return of the best behaviour in the data, where the truth is known."""
    failure: float | None = None
    """Mean return of episodes that never succeed, where the truth is known."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of a learned reward."""

    name: Name
    sentence: str
    """The reasons, with the numbers that say so."""
    numbers: dict[str, float]
    """All that was known, by metric name."""

    def __str__(self) -> str:
        return f"{self.name}: {self.sentence}"


def judge(facts: Facts, rows: Sequence[Row]) -> Verdict:
    """Judge a run by the rows of its metrics.jsonl."""
    numbers = late_numbers(rows) | _references(facts)
    share = _share_of_expert(numbers)
    if share is not None:
        numbers["share_of_expert"] = share
    kind = method_named(facts.method).reward
    for name, rule in _RULES[kind].items():
        sentence = rule(numbers)
        if sentence:
            return Verdict(name=name, sentence=sentence, numbers=numbers)
    return Verdict(
        name="undecided",
        sentence="nothing was measured that could tell; let it run to an evaluation",
        numbers=numbers,
    )


def late_numbers(rows: Sequence[Row]) -> dict[str, float]:
    """Every metric at the end of a run, by name; greedy returns win over others.

    `return/best` is the best greedy return of the whole run, `success/failure/since` the highest
    P(success) of failures after it.
    """
    last = max((row["step"] for row in rows), default=0)
    numbers: dict[str, float] = {}
    for kind in ("train", "probe", "eval"):  # a name of a later kind replaces an earlier one's
        own = [row for row in rows if row["kind"] == kind]
        late = [row for row in own if row["step"] >= (1 - LATE) * last]
        if kind == "eval" or not late:  # a policy that rose or fell of late is not their mean
            late = own[-1:]
        names = {name for row in late for name in row} - {"kind", "step", "seconds", "updates"}
        for name in names:
            values = _finite(late, name)
            if values:
                numbers[name] = sum(values) / len(values)
    return numbers | _since_the_best(rows)


def _since_the_best(rows: Sequence[Row]) -> dict[str, float]:
    greedy = [row for row in rows if row["kind"] == "eval" and _finite([row], "return")]
    if not greedy:
        return {}
    best = max(greedy, key=lambda row: row["return"])
    later = [row for row in rows if row["kind"] == "probe" and row["step"] > best["step"]]
    accepted = _finite(later, "success/failure")
    known = {"success/failure/since": max(accepted)} if accepted else {}
    return {"return/best": best["return"], **known}


def _finite(rows: Sequence[Row], name: str) -> list[float]:
    return [float(row[name]) for row in rows if name in row and math.isfinite(row[name])]


def _references(facts: Facts) -> dict[str, float]:
    known = {"expert": facts.expert, "failure": facts.failure}
    return {name: value for name, value in known.items() if value is not None}


def _share_of_expert(n: Numbers) -> float | None:
    """How far from failures' return to the expert's a policy has come."""
    if "return" not in n or "expert" not in n:
        return None
    low = n.get("failure", 0.0)
    return (n["return"] - low) / (n["expert"] - low) if n["expert"] > low else None


def _saturated(n: Numbers) -> str | None:
    if n.get("reward/saturated", 0.0) < SATURATED:
        return None
    return (
        f"{n['reward/saturated']:.0%} of the rewards lie at the ceiling, so better and worse "
        f"frames are paid the same{_and_return(n)}"
    )


def _collapsed(n: Numbers) -> str | None:
    """D says the same of everything; failures tell, or the agent's frames where there are none."""
    other = "failure" if "mean/failure" in n else "replay"
    if "mean/train" not in n or f"mean/{other}" not in n:
        return None
    low, high = sorted((n["mean/train"], n[f"mean/{other}"]))
    if high - low > FLAT or high > 2 * low:  # where η is small D is, on everything
        return None
    named = {"failure": "failures", "replay": "the agent's frames"}[other]
    return (
        f"the discriminator says the same of demonstrations (mean D {n['mean/train']:.2f}) and "
        f"of {named} ({n[f'mean/{other}']:.2f}): it has not learned yet, or has fallen to a "
        f"constant{_and_return(n)}"
    )


def _won(n: Numbers) -> str | None:
    if n.get("success/train", 0.0) < MOST or n.get("success/replay", 1.0) > FEW:
        return None
    if n.get("reward/mean", 0.0) > DEAD:
        return None
    held_out = n.get("success/held_out")
    told = "" if held_out is None else f", {held_out:.0%} of those held out"
    reason = "the agent has next to nothing to climb"
    if held_out is not None and n["success/train"] - held_out > OVERFIT:
        reason = "it knows its demonstrations by heart, and " + reason
    paid = f"; the mean reward is {n['reward/mean']:.2f}" if "reward/mean" in n else ""
    return (
        f"P(success) is {n['success/train']:.0%} for demonstrations it trains on{told} and "
        f"{n['success/replay']:.0%} for the agent's frames{paid}: {reason}{_and_return(n)}"
    )


def _fooled(n: Numbers) -> str | None:
    """An imitation reward is hacked where D accepts frames of a policy that does not succeed."""
    if "share_of_expert" not in n or n["share_of_expert"] >= POOR:
        return None
    if n.get("success/replay", 0.0) < POOR:
        return None
    return (
        f"the discriminator calls {n['success/replay']:.0%} of the agent's frames a success"
        f"{_and_return(n)}"
    )


def _hacked(n: Numbers) -> str | None:
    """A prediction is hacked where it promises what the truth does not keep."""
    if "reward_error" not in n or n.get("share_of_expert", 0.0) >= GOOD:
        return None
    if n["reward_error"] < _parted(n):
        return None
    return (
        f"the reward promises {n['reward_error']:.1f} more an episode than the truth keeps"
        f"{_and_return(n)}"
    )


def _starved(n: Numbers) -> str | None:
    """A gate starves the agent where it is shut on what the agent does."""
    open_share = n.get("success/replay", n.get("reward/open"))
    if open_share is None or open_share > POOR:
        return None
    short = "reward_error" in n and n["reward_error"] < -_parted(n)
    if not short and open_share > FEW:
        return None
    missed = f", {n['reward_error']:+.1f} of return an episode" if "reward_error" in n else ""
    return f"the gate is open on {open_share:.0%} of the agent's frames{missed}{_and_return(n)}"


def _unsteady(n: Numbers) -> str | None:
    """A policy that was as good as the expert and is no longer."""
    if n.get("return/best", 0.0) < GOOD * n.get("expert", math.inf):
        return None
    if n["return"] >= GOOD * n["return/best"]:
        return None
    since = n.get("success/failure/since", 0.0)
    forgot = (
        f"; since then P(success) of failures was up to {since:.0%}: the discriminator forgot what "
        "the agent no longer did, a larger reward.memory would remind it"
    )
    return _state_of_reward(n) + _and_return(n) + (forgot if since > FORGOT else "")


def _healthy(n: Numbers) -> str | None:
    share = n.get("share_of_expert")
    if share is not None and share < POOR:
        return None
    if share is None and "success/held_out" not in n and "success/replay" not in n:
        return None
    return _state_of_reward(n) + _and_return(n)


def _unfinished(n: Numbers) -> str | None:
    if "share_of_expert" not in n:
        return None
    return f"{_state_of_reward(n)}, but the policy is not there{_and_return(n)}"


def _state_of_reward(n: Numbers) -> str:
    sources = {"train": "trained on", "held_out": "held out", "failure": "failing"}
    seen = [f"{n[f'success/{k}']:.0%} {v}" for k, v in sources.items() if f"success/{k}" in n]
    if "success/replay" in n:
        seen.append(f"{n['success/replay']:.0%} the agent's")
    if seen:
        return "the reward is alive: P(success) of frames " + ", ".join(seen)
    error = n.get("reward_error")
    return "the reward" + (
        " is alive" if error is None else f" predicts returns with an error of {error:+.1f}"
    )


def _and_return(n: Numbers) -> str:
    """How well the policy really does, where that is known."""
    if "return" not in n:
        return ""
    told = f"; the true return is {n['return']:.1f}"
    if "expert" in n:
        told += f", against {n['expert']:.1f} in its data"
    best = n.get("return/best", n["return"])
    fell = best - n["return"] > PARTED * abs(best)
    return told + (f", and was {best:.1f} at its best" if fell else "")


def _parted(n: Numbers) -> float:
    """The reward error beyond which prediction and truth have parted."""
    if "expert" in n:
        return PARTED * abs(n["expert"])
    return PARTED_FROM_ITSELF * abs(n.get("learned_return", n.get("return", 0.0)))


Rule = Callable[[Numbers], str | None]

_LAST: dict[Name, Rule] = {"unsteady": _unsteady, "healthy": _healthy, "unfinished": _unfinished}
_RULES: dict[str, dict[Name, Rule]] = {
    "truth": {},
    "imitation": {
        "saturated": _saturated,
        "collapsed": _collapsed,
        "discriminator won": _won,
        "reward hacked": _fooled,
        **_LAST,
    },
    "regression": {"reward hacked": _hacked, **_LAST},
    # Annotated episodes may fail too, so a gate that trusts failures is no collapse.
    "gated": {"reward hacked": _hacked, "starved": _starved, **_LAST},
}
