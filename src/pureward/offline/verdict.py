# SPDX-License-Identifier: Apache-2.0
"""The verdict on a reward that was fitted to data alone."""

from collections.abc import Collection
from dataclasses import replace

from pureward.diagnostics.probe import SOURCES
from pureward.diagnostics.verdict import FEW, Numbers, Rows, Verdict, find_verdict
from pureward.rewards.annotations import reward_problem
from pureward.rewards.methods import METHODS
from pureward.rewards.priors.estimated import FEWEST_EPISODES

#: What a fit calls the frames that are an agent's in a run: if enough, those that D does not learn.
LOGS, HELD_OUT_LOGS = "the logs", "held-out logs"
#: Share of the variance of held-out rewards that r_φ must explain.
EXPLAINED = 0.2
#: Share of the mean reward of held-out demonstrations above which a failure counts as paid.
PAID = 0.5
#: Shares of the failures that are paid above which the verdict tells it, and is not healthy.
TOLD, MANY_PAID = 0.1, 1 / 3
#: Width of the 95% interval of η above which it is hardly known.
WIDE = 0.5
# Share of paid failures of a kind → the mean reward of their frames, and what they are.
_FAILED = {
    "reward/paid_failures": ("reward/failure", "failures"),
    "reward/paid_failed_logs": ("reward/failed_logs", "logs that failed"),
}
#: Words of a run's verdict → those of a fit's, which has no agent.
_WORDS = {
    "the agent acts as demonstrated": "the logs are like the demonstrations",
    "the agent is not paid what was learned": "rewards are not what was learned",
    "(reward.network.view)": "(in Python, network.view of config=)",
}


def fit_verdict(
    rows: Rows,
    method: str,
    *,
    held_out: tuple[int, str],
    logs: str = LOGS,
    positives: str = "demonstrations",
    rewards: tuple[float, float] | None = None,
    given: Collection[str] = (),
) -> Verdict:
    """Return what the last metrics of a fit mean for its reward; rules as for runs, in other words.

    Args:
        rows: of its metrics.jsonl; steps count updates of D.
        method: its name in `METHODS`.
        held_out: number of held-out episodes that the metrics rest on, and what they are; with
            fewer than an estimate of η needs, a reward is not called healthy.
        logs: which of them the probes look at, `LOGS` or `HELD_OUT_LOGS`.
        positives: what D learns from, "demonstrations" or "annotated episodes".
        rewards: lowest and highest one that r_φ learns from; None if there is no r_φ.
        given: options that no remedy needs to name, of "failures" and "stack".
    """
    # Those of the reward that is saved: a fit has no policy that makes D oscillate.
    last = {row.get("kind"): row for row in rows}
    updates = max((int(row["step"]) for row in rows), default=0)
    found = find_verdict(list(last.values()), method, updates=updates)
    explained = found.numbers.get("model/explained")
    unknown = explained is None and rewards is not None
    model = ""
    if explained is not None:
        model = f"r_φ explains {explained:.0%} of the variance of held-out rewards"
    elif unknown:
        model = "no two held-out rewards differ, so what r_φ explains is unknown; annotate more"
    name, sentence = found.name, found.sentence
    own = {SOURCES["replay"]: logs, "annotated episodes": positives}
    for words, others in (_WORDS | own).items():
        sentence = sentence.replace(words, others)
    accepted = found.numbers.get("success/replay")
    wrong = "" if rewards is None else reward_problem("annotations", *rewards)
    unlearned = bool(wrong) if explained is None else explained < EXPLAINED
    if unlearned and name != "view mismatch":
        name = "not learned"
        sentence = wrong or f"{model}: annotate more episodes, or longer ones"
    elif accepted is not None and (
        name in ("discriminator won", "starved") or (name == "healthy" and accepted <= FEW)
    ):
        name = "no successes found"
        sentence = (
            f"D accepts {accepted:.0%} of the frames of {logs}: hardly any of them succeeds, or D "
            "tells them from the positives by something else than behaviour; run `pureward check` "
            "on both"
        )
    elif name == "undecided" and model and accepted is None:  # there is no D to judge
        name, sentence = "healthy", model
    elif model:
        sentence += f"; {model}"
    if unknown and name == "healthy":
        name = "undecided"
    count, what = held_out
    if name == "healthy" and count < FEWEST_EPISODES:
        name = "undecided"
        sentence += (
            f"; no fault was found, but a verdict needs at least {FEWEST_EPISODES} held-out "
            f"{what}, got {count}; bring more"
        )
    # Failed episodes with rewards may have good frames.
    if name == "healthy" and METHODS[method].reward == "imitation":
        share, told = _paid_failures(found.numbers, given)
        name = "failures paid" if share > MANY_PAID else name
        sentence += told
    if name != "not learned":
        sentence += _unknown_prior(found.numbers)
    return replace(found, name=name, sentence=sentence)


def _paid_failures(n: Numbers, given: Collection[str]) -> tuple[float, str]:
    """The largest share of failures of a kind that are paid, and what to try; or 0 and ""."""
    share, kind = max((n.get(kind, 0.0), kind) for kind in _FAILED)
    if share <= TOLD:
        return share, ""
    mean, failures = _FAILED[kind]
    remedies = {
        "failures": "such episodes as --failures",
        "stack": "a larger --stack, which shows motion",
    }
    left = [remedy for option, remedy in remedies.items() if option not in given]
    return share, (
        f"; {share:.0%} of the {failures} are paid more than half as much as held-out "
        f"demonstrations (the mean reward of a frame is {n[mean]:.2f} and "
        f"{n['reward/held_out']:.2f}), so D hardly tells those apart; pass "
        + ", or ".join(left or ["more demonstrations"])
    )


def _unknown_prior(n: Numbers) -> str:
    low, high = n.get("prior/low", 0.0), n.get("prior/high", 0.0)
    if high - low <= WIDE:
        return ""
    return (
        f"; η is hardly known, its 95% interval is {low:.2f} to {high:.2f}: if you know the share "
        "of the logs that is like the positives, pass it as --prior"
    )
