# SPDX-License-Identifier: Apache-2.0
"""The verdict on a run: what its metrics mean for the learned reward.

Metrics are means over the last quarter of a run; returns are those of the last evaluation, which
averages over episodes itself. Rules are tried in order and the first that applies counts. A rule
does not apply if its metrics were not measured.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pureward.diagnostics.probe import SOURCES
from pureward.errors import InputError
from pureward.rewards.methods import METHODS, Method

LATE = 0.25  # share of a run, at its end, to average over: longer than an oscillation of D
SATURATED = 0.9  # share of rewards at the ceiling above which most states are paid the same
MISMATCH = 0.15  # difference of mean D, or of r_φ relative to it if above 1, between two views
FLAT = 0.05  # difference of mean D below which it does not separate demonstrations and failures
NO_SUCCESS = 0.005  # mean D that counts as zero: a quarter of the lowest floor of η in the presets
MOST, FEW = 0.8, 0.05  # shares of frames that count as nearly all and as nearly none
NO_REWARD = 0.1  # mean imitation reward that counts as none; the ceiling is usually 1 to 3
DISTRACTED = 0.3  # how far mean D of the agent's successes is below that of demonstrations
ACCEPTED = 0.5  # lowest P(success) of positives, if no return tells whether the reward is good
OVERFIT = 0.2  # largest difference of P(success) between trained and held-out demonstrations
FORGOT = 0.3  # highest P(success) of failures after the best policy that counts as forgotten
# Shares of the way from the failures' return to the expert's: solved, and not half solved.
GOOD, POOR = 0.8, 0.5
LARGE_GAP = 1 - GOOD  # relative difference of predicted and true, or of best and last return
LARGE_GAP_ALONE = 0.5  # the same as a share of the predicted return, if no expert is known
SHORT = 200  # updates of D: those that learned have separated after 40 to 100
COORDINATES = {"kind", "step", "seconds", "updates"}  # of a row; its other names are metrics

Numbers = Mapping[str, float]
Rows = Sequence[Mapping[str, Any]]
Found = Iterator[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the metrics of a run mean for its reward."""

    name: str
    sentence: str
    numbers: dict[str, float]
    """All metrics at the end of the run, by name."""

    def __str__(self) -> str:
        return f"{self.name}: {self.sentence}"


def find_verdict(
    rows: Rows,
    method: str,
    expert: float | None = None,
    failure: float | None = None,
    *,
    updates: int | None = None,
) -> Verdict:
    """Return the verdict on a run.

    Args:
        rows: of its metrics.jsonl.
        method: its name in `METHODS`.
        expert: the best return in its data, if known.
        failure: mean return of episodes that never succeed, if known.
        updates: number of updates of D, if known; with few, D may only not have learned yet.
    """
    for row in rows:
        if not isinstance(row.get("kind"), str) or not isinstance(row.get("step"), int | float):
            raise InputError(
                f"a row of metrics must have a text 'kind' and a number 'step', got {dict(row)}; "
                "write both, as metrics.jsonl does"
            )
    numbers = late_numbers(rows)
    known = {"expert": expert, "failure": failure, "updates": updates}
    numbers |= {name: value for name, value in known.items() if value is not None}
    low = numbers.get("failure", 0.0)
    if expert is not None and expert > low:
        for name, share in (("return", "share_of_expert"), ("return/best", "share_of_expert/best")):
            if name in numbers:
                numbers[share] = (numbers[name] - low) / (expert - low)
    name, sentence = next(_all_verdicts(numbers, METHODS[method]))
    return Verdict(name=name, sentence=sentence + _true_return(numbers), numbers=numbers)


def late_numbers(rows: Rows) -> dict[str, float]:
    """Return every metric at the end of a run, by name; greedy returns replace others.

    `return/best` is the best greedy return of the whole run, `learned_return/best` the learned
    return of the same episodes, `success/failure/since` the highest P(success) of failures after
    them; `return/step` is the env step of the last greedy return.
    """
    last = max((row["step"] for row in rows), default=0)
    numbers: dict[str, float] = {}
    for kind in ("model", "train", "probe", "eval"):  # later kinds replace names of earlier ones
        own = [row for row in rows if row["kind"] == kind]
        late = [row for row in own if row["step"] >= (1 - LATE) * last]
        if kind == "eval" or not late:  # the policy may have changed within the last quarter
            late = own[-1:]
        for name in sorted({name for row in late for name in row} - COORDINATES):
            if values := _finite(late, name):
                numbers[name] = sum(values) / len(values)
    greedy = [row for row in rows if row["kind"] == "eval" and _finite([row], "return")]
    if greedy:
        best = max(greedy, key=lambda row: row["return"])
        numbers |= {"return/best": best["return"], "return/step": greedy[-1]["step"]}
        if paid := _finite([best], "learned_return"):
            numbers["learned_return/best"] = paid[0]
        later = [row for row in rows if row["kind"] == "probe" and row["step"] > best["step"]]
        if accepted := _finite(later, "success/failure"):
            numbers["success/failure/since"] = max(accepted)
    return numbers


def _finite(rows: Rows, name: str) -> list[float]:
    values = [row.get(name) for row in rows]
    return [float(v) for v in values if isinstance(v, int | float) and math.isfinite(v)]


def _all_verdicts(n: Numbers, method: Method) -> Found:
    """All verdicts that apply, the first of which counts."""
    if method.reward == "truth":
        yield "undecided", "the reward is the task's own, so there is none to judge"
        return
    yield from _view_mismatch(n)
    if method.reward == "imitation":
        yield from _discriminator_faults(n)
        yield from _imitation_faults(n)
    else:
        yield from _model_faults(n, method)
    yield from _progress(n, method)
    yield (
        "undecided",
        "the metrics so far allow no verdict; let the run reach an evaluation and a probe",
    )


def _view_mismatch(n: Numbers) -> Found:
    for name, label in (("mean", "mean D"), ("predicted", "mean r_φ")):
        trained, scored = (n.get(f"{name}/{view}", math.nan) for view in ("as_trained", "train"))
        if abs(trained - scored) > MISMATCH * max(1.0, abs(trained)):
            yield (
                "view mismatch",
                f"{label} on trained frames is {trained:.2f} in the random views of training and "
                f"{scored:.2f} in scoring, so the agent is not paid what was learned; weaken the "
                "augmentation (reward.network.view)",
            )


def _discriminator_faults(n: Numbers) -> Found:
    """D is the same everywhere: on demonstrations and failures, or the agent's frames instead."""
    if (saturated := n.get("reward/saturated", 0.0)) >= SATURATED:
        same = "so good and bad frames are paid the same"
        yield "saturated", f"{saturated:.0%} of rewards are at the ceiling, {same}"
    other = "failure" if "mean/failure" in n else "replay"
    if "mean/train" not in n or f"mean/{other}" not in n:
        return
    shown, found, label = n["mean/train"], n[f"mean/{other}"], SOURCES[other]
    low, high = sorted((shown, found))
    # D cannot separate the frames of an agent that acts as demonstrated.
    imitated = other == "replay" and n.get("share_of_expert", 0.0) >= GOOD
    if high < NO_SUCCESS:
        yield (
            "collapsed",
            f"D calls nothing a success: its mean is {shown:.4f} on demonstrations and "
            f"{found:.4f} on {label}, so the reward is almost 0",
        )
    elif (other == "failure" and shown < found) or (
        not imitated and high - low <= FLAT and high <= 2 * low  # a small η makes D small
    ):
        alike = ", or the agent acts as demonstrated" if other == "replay" else ""
        means = f"mean D is {shown:.2f} on demonstrations and {found:.2f} on {label}"
        made = n.get("updates")
        if made is None:
            fails = "has not learned yet, or does not separate them any more"
            yield "collapsed", f"{means}: D {fails}{alike}"
        elif made < SHORT:
            few = f"after {made:,.0f} updates of D, too few to tell; make at least {SHORT}"
            yield "undecided", f"{means} {few}"
        else:
            yield "collapsed", f"{means}: D does not separate them{alike}"


def _imitation_faults(n: Numbers) -> Found:
    """D accepts too little of what the agent does, or too much."""
    shown, own = n.get("mean/held_out", 0.0), n.get("mean/solved", 1.0)
    poor = n.get("share_of_expert", 0.0) < GOOD
    if poor and shown - own >= DISTRACTED and own <= shown / 2:
        yield (
            "distracted",
            f"mean D is {shown:.2f} on held-out demonstrations and {own:.2f} on the agent's own "
            "successes: D depends on something other than success, such as the look of the scene; "
            "try a PU method with a higher η, or a higher floor of an estimated η",
        )
    train, held_out = n.get("success/train", 0.0), n.get("success/held_out")
    accepted, paid = n.get("success/replay"), n.get("reward/mean")
    if accepted is None:
        return
    if train >= MOST and accepted <= FEW and (paid or 0.0) <= NO_REWARD:
        yield (
            "discriminator won",
            f"P(success) is {train:.0%} for trained demonstrations"
            + ("" if held_out is None else f", {held_out:.0%} for held-out ones")
            + f" and {accepted:.0%} for the agent's frames"
            + ("" if paid is None else f"; the mean reward is {paid:.2f}")
            + (": D has memorised its demonstrations, and " if _memorised(n) else ": ")
            + "the agent gets almost no reward to learn from",
        )
    if n.get("share_of_expert", 1.0) < POOR <= accepted:
        yield "reward hacked", f"D calls {accepted:.0%} of the agent's frames a success"
    before, paid = n.get("learned_return/best", math.inf), n.get("learned_return", 0.0)
    if poor and _fell(n) and paid >= before:
        yield (
            "reward hacked",
            f"the learned return rose from {before:.1f} to {paid:.1f} since the best policy, while "
            "the true return fell",
        )


def _model_faults(n: Numbers, method: Method) -> Found:
    """Predictions are far above the truth, or a gate is closed on the agent's frames.

    Annotated episodes may fail, so a gate that is open on failures has not collapsed.
    """
    error, opened = n.get("reward_error"), n.get("success/replay")
    large = LARGE_GAP_ALONE * abs(n.get("learned_return", n.get("return", 0.0)))
    if "expert" in n:
        large = LARGE_GAP * abs(n["expert"])
    if error is not None and error > large and n.get("share_of_expert", 0.0) < GOOD:
        gate = "" if opened is None else f", and the gate is open on {opened:.0%} of its frames"
        yield (
            "reward hacked",
            f"the agent's predicted return is {error:.1f} above the true one{gate}",
        )
    short = error is not None and error < -large
    if method.reward == "gated" and opened is not None and opened <= (POOR if short else FEW):
        missing = "" if error is None else f"; predicted − true return is {error:+.1f}"
        yield (
            "starved",
            f"the gate is open on {opened:.0%} of the agent's frames{missing}"
            + (_memory(n, method) or _outgrown(n, method)),
        )


def _progress(n: Numbers, method: Method) -> Found:
    """The reward has no fault: how good is the policy, and was it better before?"""
    share, best = n.get("share_of_expert"), n.get("share_of_expert/best", 0.0)
    since = n.get("success/failure/since", 0.0)
    state = describe_reward(n) + _memory(n, method)
    if method.reward == "gated" and n.get("success/replay", 0.0) >= 1 - FEW:
        state += "; the gate is open on nearly all of the agent's frames, so D withholds nothing"
    if share is None and "return" in n:
        state += "; the policy is not judged, since the best return in its data is unknown"
    if share is None and not {"success/held_out", "success/replay"} & n.keys():
        if {"reward_error", "return"} <= n.keys():
            error, true = n["reward_error"], n["return"]
            agrees = abs(error) <= LARGE_GAP * max(abs(true), abs(true + error))
            yield "healthy" if agrees else "undecided", state
        return
    if best >= POOR and share is not None and share < GOOD * best:
        forgot = (
            f"; after its best, P(success) of failures rose to {since:.0%}: D forgot what the "
            "agent no longer does; try a larger reward.memory"
        )
        yield "unsteady", state + (forgot if since > FORGOT else "")
    kind = "held-out" if "success/held_out" in n else "trained"
    accepted = n.get("success/held_out", n.get("success/train", 1.0))
    if share is None and accepted < ACCEPTED:
        yield (
            "undecided",
            f"{state}; D must accept at least {ACCEPTED:.0%} of the {kind} frames of its "
            f"positives, and accepts {accepted:.0%}: train longer, or give more positives",
        )
    elif share is None or share >= POOR:
        yield "healthy", state
    else:
        yield "unfinished", f"{state}, but the policy is not good yet"


def describe_reward(n: Numbers) -> str:
    """Return P(success) or mean D of every source, or the error of a reward model without D."""
    seen = [source for source in SOURCES if f"success/{source}" in n]
    # With a small η, D is below ½ everywhere, and its mean says more than P(success).
    low = all(n[f"success/{source}"] < FEW and f"mean/{source}" in n for source in seen)
    name, label, form = ("mean", "mean D", ".2f") if low else ("success", "P(success)", ".0%")
    if seen:
        values = (f"{n[f'{name}/{source}']:{form}} on {SOURCES[source]}" for source in seen)
        return f"{label} is {', '.join(values)}"
    error = n.get("reward_error")
    return "no fault was found" if error is None else f"predicted − true return is {error:+.1f}"


def _memorised(n: Numbers) -> bool:
    """Whether D calls far fewer held-out frames a success than trained ones."""
    return n.get("success/train", 0.0) - n.get("success/held_out", math.inf) > OVERFIT


def _memory(n: Numbers, method: Method) -> str:
    """Whether D has memorised its positives, and what to try; "" if not."""
    if not _memorised(n):
        return ""
    data = "demonstrations" if method.reward == "imitation" else "annotated episodes"
    return f"; D has memorised its {data}: try {_other_risk(method)}more {data}"


def _outgrown(n: Numbers, method: Method) -> str:
    """Whether D accepts failures rather than an agent that was good, and what to try."""
    failures, own = n.get("success/failure", 0.0), n.get("success/replay", math.inf)
    if failures - own <= OVERFIT or n.get("share_of_expert/best", 0.0) < POOR:
        return ""
    return (
        f"; D accepts {failures:.0%} of the failures, although the agent was better: good frames "
        f"are probably rare among the annotated ones; try {_other_risk(method)}more good episodes"
    )


def _other_risk(method: Method) -> str:
    """The non-negative risk as a remedy that another follows; "" if the method has it."""
    other = "nn-pugail" if method.reward == "imitation" else "nn-purl"
    return "" if method.risk == "nnpu" else f"a non-negative risk ({other}), or "


def _fell(n: Numbers) -> bool:
    """Whether the last return is far below the best."""
    best = n.get("return/best", -math.inf)
    return best - n.get("return", math.inf) > LARGE_GAP * abs(best)


def _true_return(n: Numbers) -> str:
    if "return" not in n:
        return ""
    best = n.get("return/best", n["return"])
    expert = f", against {n['expert']:.1f} in its data" if "expert" in n else ""
    fallen = f", and its best was {best:.1f}" if _fell(n) else ""
    at = f" at {n['return/step']:,.0f} env steps" if "return/step" in n else ""
    return f"; the true return is {n['return']:.1f}{at}{expert}{fallen}"
