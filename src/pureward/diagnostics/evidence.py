# SPDX-License-Identifier: Apache-2.0
"""Evidence: greedy episodes of a run's policy for which its reward promises too much."""

from dataclasses import dataclass
from numbers import Integral
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pureward.data.episodes import Episode
from pureward.data.frames import FrameBank
from pureward.diagnostics.history import Eta, History, read_eta, read_history
from pureward.diagnostics.strip import Panel, Strip, draw_strips, film_strip
from pureward.diagnostics.verdict import Verdict
from pureward.errors import InputError
from pureward.files import check_writable, write_json
from pureward.picture import cameras, save_figure
from pureward.rewards.learned import LearnedReward
from pureward.rewards.methods import METHODS
from pureward.rewards.saved import load_reward
from pureward.runs.collect import rollout
from pureward.runs.policy import load_policy
from pureward.settings import as_path
from pureward.types import find_device

_SHOWN = 2  # episodes in evidence.png


@dataclass(frozen=True, kw_only=True)
class ScoredEpisode:
    """A greedy episode with the values of a run's reward at every arrival."""

    episode: Episode
    learned: Tensor
    """The reward that the agent is paid, (steps,)."""
    success: Tensor | None
    """D, (steps,), if there is a discriminator."""
    predicted: Tensor | None
    """r_φ before any gate, (steps,), if there is a reward model."""

    def returns(self) -> dict[str, float]:
        """Sums over the episode, and the share of steps with D above ½."""
        sums = {"true": self.episode.rewards, "learned": self.learned, "predicted": self.predicted}
        returns = {f"{k}_return": float(v.sum()) for k, v in sums.items() if v is not None}
        if self.success is not None:
            returns["success"] = float((self.success > 0.5).float().mean())
        return returns

    def strip(self, title: str) -> Strip:
        """The episode as frames over panels of the rewards, and of D if there is one."""
        assert self.episode.frames is not None
        returns, paid = self.returns(), self.learned.numpy()
        truth = {"true r": (self.episode.rewards.numpy(), "k")} if self.episode.rated else {}
        if self.predicted is None:  # its scale is not that of the true reward
            kind, label = "learned", "r = −log(1 − D)"
            scales = {"true r": truth, label: {label: (paid, "C1")}}
        else:
            kind = "predicted"
            gated = {} if self.success is None else {"gated r": (paid, "C1--")}
            scales = {"reward": truth | {"predicted r_φ": (self.predicted.numpy(), "C0")} | gated}
        panels = [Panel(title=name, tracks=tracks) for name, tracks in scales.items() if tracks]
        if self.success is not None:
            trust = {"D": (self.success.numpy(), "C2")}
            panels.append(Panel(title="D", tracks=trust, highest=1.0, threshold=0.5))
        known = f", true return {returns['true_return']:.1f}" if truth else ""
        return Strip(
            title=f"{title}: {kind} return {returns[f'{kind}_return']:.1f}{known}",
            frames=np.stack(cameras(self.episode.frames[1:]), axis=1),
            panels=panels,
        )


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """What `probe` found and wrote."""

    verdict: Verdict
    env_steps: int
    """Age of the policy."""
    means: dict[str, float]
    """Mean returns of the episodes."""
    eta: Eta | None
    """η at the end of the run, if the method has one."""
    files: list[Path]
    """evidence.png, evidence.mp4 and probe.json."""

    def summary(self) -> str:
        """The means in words."""
        returns = {name: value for name, value in self.means.items() if name != "success"}
        parts = [f"{name.replace('_', ' ')} {value:.1f}" for name, value in returns.items()]
        if "success" in self.means:
            parts.append(f"D above ½ on {self.means['success']:.0%} of frames")
        return ", ".join(parts)


def probe(
    run: str | Path,
    out: str | Path | None = None,
    *,
    episodes: int = 16,
    device: str = "auto",
    seed: int = 0,
) -> ProbeResult:
    """Find the verdict on a run, and show the episodes where its reward is most wrong.

    Args:
        run: the directory of a run on a learned reward.
        out: folder for evidence.png, evidence.mp4 and probe.json, by default RUN/probe.
        episodes: greedy episodes to choose from.
        device: "auto" (CUDA if there is one), "cpu" or "cuda".
        seed: of the episodes' first states.
    """
    if not isinstance(episodes, Integral) or episodes < 1:
        raise InputError(f"episodes must be a whole number from 1, got {episodes!r}; try 16")
    run = as_path("run", run)
    out = as_path("out", out) if out else run / "probe"
    history, place = read_history(run), str(find_device(device))
    check_writable(out)
    scored, env_steps, control_step = score_policy(history, episodes, place, seed)
    order = by_difference(scored)
    title = f"{history.task}, {history.method}, episode"
    strips = [scored[index].strip(f"{title} {index}") for index in order[:_SHOWN]]
    picture, film, table = (out / name for name in ("evidence.png", "evidence.mp4", "probe.json"))
    save_figure(draw_strips(strips), picture)
    film_strip(strips[0], film, 1.0 / control_step)
    rows = [one.returns() for one in scored]
    found = ProbeResult(
        verdict=history.verdict(),
        env_steps=env_steps,
        means={name: sum(row[name] for row in rows) / len(rows) for name in rows[0]},
        eta=read_eta(history),
        files=[picture, film, table],
    )
    facts = {
        "run": str(run),
        "task": history.task,
        "method": history.method,
        "env_steps": found.env_steps,
        "verdict": found.verdict.name,
        "sentence": found.verdict.sentence,
        "numbers": found.verdict.numbers,
        "means": found.means,
        "eta": {} if found.eta is None else found.eta.numbers,
        "parted_most_first": order,
        "episodes": rows,
    }
    write_json(table, facts)
    return found


def score_policy(
    run: History, episodes: int, device: str, seed: int = 0
) -> tuple[list[ScoredEpisode], int, float]:
    """Score greedy episodes of a run's policy by its reward.

    Returns:
        The episodes, the env steps of the policy, and the seconds of a control step.
    """
    if METHODS[run.method].reward == "truth":
        raise InputError(
            f"{run.path} learned from the task's own reward, so there is nothing to compare; "
            "choose a run on a learned reward, such as nn-pugail's"
        )
    policy, reward = load_policy(run.path, device=device), load_reward(run.path, device=device)
    stack = policy.config.replay.frame_stack
    with policy.config.make_env(episodes, device, seed=seed, cameras=True) as env:
        scored = [score_episode(each, reward, stack) for each in rollout(env, policy.act)]
    return scored, policy.env_steps, env.control_step


def score_episode(episode: Episode, reward: LearnedReward, stack: int) -> ScoredEpisode:
    """Return the values of a reward at every arrival of an episode with frames."""
    scores = reward.scores(FrameBank([episode], stack=stack, device=reward.device).every())
    return ScoredEpisode(
        episode=episode,
        learned=reward.from_scores(scores).cpu(),
        success=scores[0].sigmoid().cpu() if reward.discriminator is not None else None,
        predicted=scores[-1].cpu() if reward.members else None,
    )


def by_difference(scored: list[ScoredEpisode]) -> list[int]:
    """Return the episodes' indices by promised − true reward, the largest first.

    Predictions have the scale of the truth, so the returns are compared. Imitation rewards have
    not: steps are ranked by both, and an episode with high rewards for low true ones comes first.
    """
    if scored[0].predicted is not None:
        returns = [one.returns() for one in scored]
        differences = [each["predicted_return"] - each["true_return"] for each in returns]
    else:
        from scipy.stats import rankdata  # its import takes a second

        both = [one.learned for one in scored], [one.episode.rewards for one in scored]
        learned, truth = (rankdata(torch.cat(rewards)) for rewards in both)
        ends = np.cumsum([len(one.learned) for one in scored])[:-1]  # lengths may differ
        differences = [steps.mean() for steps in np.split(learned - truth, ends)]
    return sorted(range(len(scored)), key=lambda index: -differences[index])
