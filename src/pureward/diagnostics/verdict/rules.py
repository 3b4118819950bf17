# SPDX-License-Identifier: Apache-2.0
"""The rules of a verdict: each looks at a run's numbers and says a sentence, or nothing."""

from collections.abc import Callable, Mapping
from typing import Literal

from pureward.diagnostics.verdict.limits import (
    DEAD,
    DISTRACTED,
    FEW,
    FLAT,
    FORGOT,
    GOOD,
    MISMATCH,
    MOST,
    NOTHING,
    OVERFIT,
    PARTED,
    PARTED_FROM_ITSELF,
    POOR,
    SATURATED,
)

Numbers = Mapping[str, float]
Name = Literal[
    "healthy",
    "unsteady",
    "unfinished",
    "view mismatch",
    "saturated",
    "collapsed",
    "distracted",
    "discriminator won",
    "reward hacked",
    "starved",
    "undecided",
]


def _mismatched(n: Numbers) -> str | None:
    """D or r_φ of the trained frames differs between training's views and scoring."""
    for name, said in (("mean", "mean D"), ("predicted", "mean r_φ")):
        trained, scored = n.get(f"{name}/as_trained"), n.get(f"{name}/train")
        if trained is None or scored is None:
            continue
        if abs(trained - scored) > MISMATCH * max(1.0, abs(trained)):
            return (
                f"{said} of the trained frames is {trained:.2f} in the views of training and "
                f"{scored:.2f} as rewards are paid: what is paid is not what was learned; weaken "
                f"the distortions (reward.network.view){_and_return(n)}"
            )
    return None


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
    named = {"failure": "failures", "replay": "the agent's frames"}[other]
    low, high = sorted((n["mean/train"], n[f"mean/{other}"]))
    if high < NOTHING:
        return (
            f"the discriminator calls nothing a success: mean D is {n['mean/train']:.4f} on "
            f"demonstrations and {n[f'mean/{other}']:.4f} on {named}, and next to nothing is paid"
            f"{_and_return(n)}"
        )
    if high - low > FLAT or high > 2 * low:  # where η is small D is, on everything
        return None
    return (
        f"the discriminator says the same of demonstrations (mean D {n['mean/train']:.2f}) and "
        f"of {named} ({n[f'mean/{other}']:.2f}): it has not learned yet, or has fallen to a "
        f"constant{_and_return(n)}"
    )


def _distracted(n: Numbers) -> str | None:
    """D trusts the data and not the same behaviour of the agent: it goes by something else."""
    if "mean/solved" not in n or "mean/held_out" not in n or n.get("share_of_expert", 0.0) >= GOOD:
        return None
    shown, own = n["mean/held_out"], n["mean/solved"]
    if shown - own < DISTRACTED or own > shown / 2:
        return None
    return (
        f"mean D is {shown:.2f} on held-out demonstrations and {own:.2f} on the agent's own "
        "successes: it goes by something other than success, such as how the scene looks; "
        f"a PU method with a higher η, or floor of an estimated one, may not{_and_return(n)}"
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
    if n["reward_error"] <= _parted(n):
        return None
    return (
        f"the reward promises {n['reward_error']:.1f} more an episode than the truth keeps"
        f"{_and_return(n)}"
    )


def _starved(n: Numbers) -> str | None:
    """A gate starves the agent where it is shut on what the agent does."""
    open_share = n.get("success/replay")
    if open_share is None or open_share > POOR:
        return None
    short = "reward_error" in n and n["reward_error"] < -_parted(n)
    if not short and open_share > FEW:
        return None
    missed = f", {n['reward_error']:+.1f} of return an episode" if "reward_error" in n else ""
    return f"the gate is open on {open_share:.0%} of the agent's frames{missed}{_and_return(n)}"


def _unsteady(n: Numbers) -> str | None:
    """A policy that was as good as the expert and is no longer."""
    best = n.get("share_of_expert/best", 0.0)
    if best < GOOD or n.get("share_of_expert", best) >= GOOD * best:
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


_SOURCES = {
    "train": "trained on",
    "held_out": "held out",
    "failure": "failing",
    "replay": "the agent's",
    "solved": "of its successes",
}


def _state_of_reward(n: Numbers) -> str:
    seen = {k: v for k, v in _SOURCES.items() if f"success/{k}" in n}
    if seen and all(n[f"success/{k}"] < FEW and f"mean/{k}" in n for k in seen):
        # Where η is small D is below ½ on everything, and pays by how far.
        means = ", ".join(f"{n[f'mean/{k}']:.2f} {v}" for k, v in seen.items())
        return f"the reward is alive: D is below ½ on all frames, its mean {means}"
    if seen:
        shares = ", ".join(f"{n[f'success/{k}']:.0%} {v}" for k, v in seen.items())
        return f"the reward is alive: P(success) of frames {shares}"
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
RULES: dict[str, dict[Name, Rule]] = {
    "truth": {},
    "imitation": {
        "view mismatch": _mismatched,
        "saturated": _saturated,
        "collapsed": _collapsed,
        "distracted": _distracted,
        "discriminator won": _won,
        "reward hacked": _fooled,
        **_LAST,
    },
    "regression": {"view mismatch": _mismatched, "reward hacked": _hacked, **_LAST},
    # Annotated episodes may fail too, so a gate that trusts failures is no collapse.
    "gated": {
        "view mismatch": _mismatched,
        "reward hacked": _hacked,
        "starved": _starved,
        **_LAST,
    },
}
