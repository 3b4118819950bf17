# SPDX-License-Identifier: Apache-2.0
"""The verdict on a run, from its metrics alone: what became of the learned reward, in words.

Numbers are means over the last quarter of a run; returns are those of the last evaluation, which
is a mean over episodes already. Rules are asked in order and the first that applies speaks; a
rule whose numbers were not measured does not apply.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pureward.diagnostics.verdict.limits import LATE
from pureward.diagnostics.verdict.rules import RULES, Name, Numbers
from pureward.errors import InputError
from pureward.rewards.methods import METHODS

Row = Mapping[str, Any]


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
    for row in rows:
        if not isinstance(row.get("kind"), str) or not isinstance(row.get("step"), int | float):
            raise InputError(
                f"a row of metrics has a kind in words and a step in numbers, got {dict(row)}; "
                "write both, as metrics.jsonl does"
            )
    numbers = late_numbers(rows) | _references(facts)
    for name, told in (("return", "share_of_expert"), ("return/best", "share_of_expert/best")):
        share = _share_of_expert(numbers, name)
        if share is not None:
            numbers[told] = share
    kind = METHODS[facts.method].reward
    for name, rule in RULES[kind].items():
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
    values = [row.get(name) for row in rows]
    return [float(v) for v in values if isinstance(v, int | float) and math.isfinite(v)]


def _references(facts: Facts) -> dict[str, float]:
    known = {"expert": facts.expert, "failure": facts.failure}
    return {name: value for name, value in known.items() if value is not None}


def _share_of_expert(n: Numbers, name: str) -> float | None:
    """How far from failures' return to the expert's a return is."""
    if name not in n or "expert" not in n:
        return None
    low = n.get("failure", 0.0)
    return (n[name] - low) / (n["expert"] - low) if n["expert"] > low else None
