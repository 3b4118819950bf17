# SPDX-License-Identifier: Apache-2.0
"""What a figure of the paper is: lines, tasks, a picture, and what the paper says of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pureward.paper.numbers import Results, UnmeasuredError

Outcome = Literal["holds", "does not hold", "too close to call", "not measured"]
Ask = Callable[[Results, str], "Finding"]

Picture = Literal["curves", "success", "prior", "error", "strips", "gap"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Whether runs agree with a claim, and the numbers that say so."""

    outcome: Outcome
    told: str


@dataclass(frozen=True, kw_only=True)
class Rule:
    """When a claim holds, in words and as a function of results and a task."""

    says: str
    ask: Ask


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, in our words."""

    paper: str
    tasks: tuple[str, ...]
    """The tasks it is made for."""
    rule: Rule

    def judge(self, results: Results, task: str) -> Finding:
        """Ask the rule; what was not measured cannot agree or disagree."""
        try:
            return self.rule.ask(results, task)
        except UnmeasuredError as missing:
            return Finding(outcome="not measured", told=f"nobody has measured {missing}")


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A line of a figure: a method, and settings on top of the task's preset."""

    method: str
    settings: Mapping[str, str | bool] = field(default_factory=dict)
    """By their names on the command line, such as "prior" and "reward.even"."""

    @property
    def label(self) -> str:
        """What it is called in tables and claims; settings that all lines share are left out."""
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
    """Which function of `draw` makes it."""
    claims: tuple[Claim, ...]

    def claims_for(self, task: str) -> list[Claim]:
        """The claims that are made for a task; of a task that the paper has not, all of them."""
        return [claim for claim in self.claims if task in claim.tasks or task not in self.tasks]
