# SPDX-License-Identifier: Apache-2.0
"""η of a run: used, estimated, and by the simulator.

Demonstrations also hold frames before success. If a share η of the agent's frames is like the
demonstrations and the rest are not successes, then the share of successes among the agent's
frames is η times that among the demonstrations. So η is the ratio of the two shares.
"""

from dataclasses import dataclass

import numpy as np

from pureward.diagnostics.history import History
from pureward.rewards.methods import METHODS


@dataclass(frozen=True, kw_only=True)
class Eta:
    """η at the end of a run."""

    sentence: str
    numbers: dict[str, float]
    """`used`; `estimate`, `low` and `high` of its 95% interval, if η is estimated; `true`,
    `agent_success` and `demonstrated_success`, if known."""


def read_eta(run: History) -> Eta | None:
    """Return η at the end of a run; None for methods without η, and before the first line."""
    rows = [row for row in run.rows if row["kind"] == "train" and "prior" in row]
    if not rows or not has_eta(run.method):
        return None
    last = rows[-1]
    sentence, side = f"η is {last['prior']:.2f}", ""
    agent, shown, true = last.get("true_success"), run.demonstrated, None
    if agent is not None and shown and not METHODS[run.method].needs_annotations:
        true = min(1.0, agent / shown)
    value, low, high = (last.get(f"prior/{name}") for name in ("value", "low", "high"))
    if value is not None and low is not None and high is not None:
        sentence = f"η̂ is {value:.2f} (95% interval {low:.2f} to {high:.2f}) and {sentence}"
        if true is not None:
            side = f", {'inside' if low <= true <= high else 'outside'} the interval"
    successes = "" if agent is None else f"{agent:.0%} of the agent's frames are successes"
    if METHODS[run.method].needs_annotations:
        sentence += "; the true η is unknown, since annotated episodes may fail"
    elif agent is None:
        sentence += "; the run has not logged the true share of successes"
    elif true is None:
        sentence += f"; {successes}; the demonstrations' card has no share of successes"
    else:
        sentence += f"; by the simulator it is {true:.2f}{side} "
        sentence += f"({successes}, {shown:.0%} of the demonstrations')"
    numbers = {"used": last["prior"], "true": true, "agent_success": agent}
    numbers |= {"demonstrated_success": shown, "estimate": value, "low": low, "high": high}
    return Eta(
        sentence=sentence,
        numbers={name: number for name, number in numbers.items() if number is not None},
    )


def true_eta(run: History, by: str = "step") -> np.ndarray:
    """Return η by the simulator over a run, (count, 2); empty if it is not known."""
    if not run.demonstrated or METHODS[run.method].needs_annotations:
        return np.empty((0, 2))
    series = run.series("train", "true_success", by)
    series[:, 1] = np.minimum(1.0, series[:, 1] / run.demonstrated)
    return series


def has_eta(method: str) -> bool:
    """Whether a method's risk has a class prior η; the fixed weight of `gail` is not one."""
    return METHODS[method].has_discriminator and METHODS[method].prior is None
