# SPDX-License-Identifier: Apache-2.0
"""What to read from a picture of runs, in sentences made of what they measured."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pureward.diagnostics.history import History
from pureward.diagnostics.lines import Line
from pureward.diagnostics.verdict import MOST, OVERFIT, PARTED

_SOURCES = {
    "train": "{} of the frames it trains on",
    "held_out": "{} of those held out",
    "failure": "{} of failures",
    "replay": "{} of the agent's own",
    "solved": "{} of its successes",
}
# An error has a name where the verdict has: one that does no harm is none of these.
_CALLED = {"reward hacked": ", which is delusion", "starved": ", which is starvation"}


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How runs of one line ended: the last greedy evaluation, the mean over seeds."""

    label: str
    seeds: int
    mean: float
    spread: float
    """Half of the 95% interval over the episodes of one seed, or of the range over several."""
    best: float
    """The best evaluation on the way, the mean over seeds."""
    expert: float | None

    def told(self) -> str:
        """The line, its return, and what share that is of the data's."""
        return f"{self.label} at {self.told_return()}"

    def told_return(self) -> str:
        """The return, and what share it is of the data's: the expert's or the best annotated."""
        share = f" ({self.mean / self.expert:.0%} of {self.expert:.1f})" if self.expert else ""
        return f"{self.mean:.1f} ± {self.spread:.1f}{share}"


def ending(line: Line) -> Ending | None:
    """How runs that differ in their seed ended, or None if none has been evaluated."""
    runs = line.runs
    last = [run.series("eval", "return")[-1:, 1] for run in runs]
    values = np.concatenate(last) if last else np.empty(0)
    if not len(values):
        return None
    best = [course[:, 1].max() for run in runs if len(course := run.series("eval", "return"))]
    if len(values) > 1:
        spread = float(np.ptp(values)) / 2
    else:
        within = [run.series("eval", "return_ci95")[-1:, 1] for run in runs]
        spread = float(np.concatenate(within).max(initial=0.0))
    known = [run.expert for run in runs if run.expert is not None]
    return Ending(
        label=line.label,
        seeds=len(values),
        mean=float(values.mean()),
        spread=spread,
        best=float(np.mean(best)),
        expert=known[0] if known else None,
    )


def read_curves(ours: Line, others: Sequence[Line]) -> list[str]:
    """Compare a line with others of its task; whoever is ahead is said to be."""
    one = ending(ours)
    ends = [end for end in map(ending, others) if end]
    if one is None:
        return ["None of these runs has been evaluated yet."]
    told = [f"In the end {'; '.join(end.told() for end in [one, *ends])}."]
    told += [_compared(one, end) for end in ends]
    fell = [end for end in [one, *ends] if end.best - end.mean > PARTED * abs(end.best)]
    told += [f"{e.label} had been at {e.best:.1f} on its way and fell back." for e in fell]
    if max(end.seeds for end in [one, *ends]) == 1:
        told.append(
            "One seed each: the interval is over episodes, and another seed may end elsewhere."
        )
    return told


def _compared(one: Ending, other: Ending) -> str:
    ahead = one.mean - other.mean
    if abs(ahead) <= one.spread + other.spread:
        return f"{one.label} and {other.label} are too close to call."
    word = "ahead of" if ahead > 0 else "behind"
    return f"{one.label} is {abs(ahead):.1f} {word} {other.label}."


def read_success(run: History) -> str:
    """What the discriminator of a run says of each source, and what that means."""
    numbers = run.verdict().numbers
    seen = [
        text.format(f"{numbers[f'success/{source}']:.0%}")
        for source, text in _SOURCES.items()
        if f"success/{source}" in numbers
    ]
    if not seen:
        return f"{run.method} has no discriminator that was probed."
    told = f"At the end {run.method} takes for success {', '.join(seen)}."
    train, held_out = numbers.get("success/train"), numbers.get("success/held_out")
    if train is None or held_out is None:
        return told
    if train - held_out > OVERFIT:
        return f"{told} It has overfitted: of those held out {train - held_out:.0%} fewer."
    if held_out >= MOST:
        return f"{told} What it knows of the trained frames holds for those held out."
    return told


def read_error(run: History) -> str:
    """How far the promised return of a supervised method lies from the true one."""
    verdict = run.verdict()
    error = verdict.numbers.get("reward_error")
    if error is None:
        return f"{run.method} was not evaluated with its predictions."
    side = "more" if error > 0 else "less"
    told = f"{run.method} is paid {abs(error):.1f} {side} an episode than the truth"
    if run.expert:
        told += f", {abs(error / run.expert):.0%} of the best annotated return"
    return f"{told}{_CALLED.get(verdict.name, '')}."


def trained_for(run: History) -> tuple[int, float]:
    """Env steps and seconds of training that a run has measured."""
    steps = max((row["step"] for row in run.rows), default=0)
    return int(steps), float(max((row.get("seconds", 0.0) for row in run.rows), default=0.0))
