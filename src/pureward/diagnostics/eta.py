# SPDX-License-Identifier: Apache-2.0
"""η of a run: what it used and estimated, beside what the simulator knows.

Demonstrations hold more than successes: an arm must get to its object first. If the agent's
frames are a mixture of η demonstrated ones and of others that are no successes, then the share
of successes among them is η times that among the demonstrations. So η is the ratio of the two.
"""

from dataclasses import dataclass

import numpy as np

from pureward.diagnostics.history import History
from pureward.rewards.methods import METHODS


@dataclass(frozen=True, kw_only=True)
class Eta:
    """η at the end of a run, and what there is to hold it against."""

    used: float
    """η that the discriminator was told."""
    estimate: tuple[float, float, float] | None
    """η̂ of the last estimate and the ends of its 95% interval, where η is estimated."""
    agent: float | None
    """Share of successes among the agent's frames, where the run has logged it."""
    demonstrated: float | None
    """Share of successes among the demonstrations' frames, where their card tells it."""
    annotated: bool
    """Whether positives are annotated episodes, which fail too."""

    @property
    def true(self) -> float | None:
        """η by the simulator."""
        if self.annotated or self.agent is None or not self.demonstrated:
            return None
        return min(1.0, self.agent / self.demonstrated)

    def told(self) -> str:
        """All of it in a sentence."""
        said = f"η is {self.used:.2f}"
        if self.estimate is not None:
            value, low, high = self.estimate
            said = f"η̂ is {value:.2f} (95% interval {low:.2f} to {high:.2f}) and {said}"
        return f"{said}; {self._told_truth()}"

    def numbers(self) -> dict[str, float]:
        """What is known, by name, for a table."""
        known = {"used": self.used, "true": self.true, "agent_success": self.agent}
        known["demonstrated_success"] = self.demonstrated
        if self.estimate is not None:
            known |= dict(zip(("estimate", "low", "high"), self.estimate, strict=True))
        return {name: value for name, value in known.items() if value is not None}

    def _told_truth(self) -> str:
        if self.annotated:
            return "annotated episodes fail too, so no share of successes can tell it"
        if self.agent is None:
            return "the run has not logged the true share of successes"
        agent = f"{self.agent:.0%} of the agent's frames are successes"
        if self.true is None:
            return f"{agent}; the card of the demonstrations does not tell how many of theirs are"
        side = "" if self._holds() is None else f", {'in' if self._holds() else 'out'}side it"
        return (
            f"by the simulator it is {self.true:.2f}{side} "
            f"({agent}, {self.demonstrated:.0%} of the demonstrations')"
        )

    def _holds(self) -> bool | None:
        """Whether the interval holds the truth, where there are both."""
        if self.estimate is None or self.true is None:
            return None
        _, low, high = self.estimate
        return low <= self.true <= high


def read_eta(run: History) -> Eta | None:
    """η at the end of a run; None for methods that need none, and before the first line."""
    rows = [row for row in run.rows if row["kind"] == "train" and "prior" in row]
    if not rows or not has_eta(run.method):
        return None
    last = rows[-1]
    estimated = all(f"prior/{name}" in last for name in ("value", "low", "high"))
    return Eta(
        used=last["prior"],
        estimate=(last["prior/value"], last["prior/low"], last["prior/high"])
        if estimated
        else None,
        agent=last.get("true_success"),
        demonstrated=run.demonstrated,
        annotated=METHODS[run.method].needs_annotations,
    )


def true_course(run: History, by: str = "step") -> np.ndarray:
    """η by the simulator over a run, (count, 2); empty where it is not known."""
    if not run.demonstrated or METHODS[run.method].needs_annotations:
        return np.empty((0, 2))
    course = run.series("train", "true_success", by)
    course[:, 1] = np.minimum(1.0, course[:, 1] / run.demonstrated)
    return course


def has_eta(method: str) -> bool:
    """Whether a method's risk takes a share of successes; `gail` has a weight that is none."""
    row = METHODS[method]
    return row.has_discriminator and row.prior is None
