# SPDX-License-Identifier: Apache-2.0
"""Evidence: greedy episodes of a run's policy where its reward and the truth part most."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

from pureward.data.episodes import Episode
from pureward.data.frames import FrameBank
from pureward.diagnostics.eta import Eta, read_eta
from pureward.diagnostics.history import History, read_history
from pureward.diagnostics.strip import Panel, Strip, Track, draw_strips, film_strip
from pureward.diagnostics.verdict import Verdict
from pureward.envs import find_device, make
from pureward.errors import InputError
from pureward.files import write_json
from pureward.picture import cameras, save_figure
from pureward.rewards.learned import LearnedReward
from pureward.rewards.methods import METHODS
from pureward.rewards.saved import load_reward
from pureward.runs.collect import rollout
from pureward.runs.policy import load_policy

_SHOWN = 2  # episodes in the picture
_TRUE, _LEARNED, _PREDICTED, _TRUST = "black", "tab:orange", "tab:blue", "tab:green"


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One greedy episode and what a run's reward says of every arrival."""

    episode: Episode
    learned: Tensor
    """What the agent is paid, (steps,)."""
    success: Tensor | None
    """D, (steps,), where there is a discriminator."""
    predicted: Tensor | None
    """r_φ before any gate, (steps,), where there is a reward model."""

    def returns(self) -> dict[str, float]:
        """Sums over the episode, and the share of steps with D above ½."""
        told = {
            "true_return": float(self.episode.rewards.sum()),
            "learned_return": float(self.learned.sum()),
        }
        if self.predicted is not None:
            told["predicted_return"] = float(self.predicted.sum())
        if self.success is not None:
            told["success"] = float((self.success > 0.5).float().mean())
        return told


@dataclass(frozen=True, kw_only=True)
class Probed:
    """What `probe` found and wrote."""

    verdict: Verdict
    env_steps: int
    """When the policy was kept."""
    means: dict[str, float]
    """Returns of the episodes, on average."""
    eta: Eta | None
    """η at the end of the run, where the method has one."""
    strip: Path
    film: Path
    table: Path

    def told(self) -> str:
        """The means in words."""
        names = {
            "true_return": "true return",
            "learned_return": "learned return",
            "predicted_return": "predicted return",
        }
        said = [f"{word} {self.means[n]:.1f}" for n, word in names.items() if n in self.means]
        if "success" in self.means:
            said.append(f"D above ½ on {self.means['success']:.0%} of frames")
        return ", ".join(said)


def probe(
    run: Path, out: Path | None = None, *, episodes: int = 16, device: str = "auto", seed: int = 0
) -> Probed:
    """Judge a run, and show where its reward is most wrong.

    Args:
        run: the directory of a run on a learned reward.
        out: folder for evidence.png, evidence.mp4 and probe.json, by default RUN/probe.
        episodes: greedy episodes to look among.
        device: "auto" (CUDA where there is one), "cpu" or "cuda".
        seed: of the episodes' first states.
    """
    history = read_history(run)
    if METHODS[history.method].reward == "truth":
        raise InputError(
            f"{run} learned from the task's own reward, so there is nothing to probe; "
            "probe a run on a learned reward, such as nn-pugail's"
        )
    if episodes < 1:
        raise InputError(f"episodes must be at least 1, got {episodes}; raise it")
    place = str(find_device(device))
    policy, reward = load_policy(run, device=place), load_reward(run, device=place)
    shapes = policy.config.distractors or None
    env = make(history.task, episodes, place, seed=seed, cameras=True, distractors=shapes)
    stack = policy.config.replay.frame_stack
    judged = [judge_episode(episode, reward, stack) for episode in rollout(env, policy.act)]
    order = by_disagreement(judged)
    folder = out or run / "probe"
    speed = 1.0 / env.task.control_step(env.engine.model)
    strips = [_strip(history, judged[index], index) for index in order[:_SHOWN]]
    found = Probed(
        verdict=history.verdict(),
        env_steps=policy.env_steps,
        means=_means(judged),
        eta=read_eta(history),
        strip=folder / "evidence.png",
        film=folder / "evidence.mp4",
        table=folder / "probe.json",
    )
    save_figure(draw_strips(strips), found.strip)
    film_strip(strips[0], found.film, speed)
    write_json(found.table, _table(history, found, judged, order))
    return found


def judge_episode(episode: Episode, reward: LearnedReward, stack: int) -> Judged:
    """What a reward says of every arrival of an episode with frames."""
    scores = reward.scores(FrameBank([episode], stack=stack, device=reward.device).every())
    return Judged(
        episode=episode,
        learned=reward.from_scores(scores).cpu(),
        success=scores[0].sigmoid().cpu() if reward.discriminator is not None else None,
        predicted=scores[-1].cpu() if reward.members else None,
    )


def by_disagreement(judged: list[Judged]) -> list[int]:
    """Numbers of the episodes, those first where reward and truth part most.

    Predictions are on the truth's scale: they part by the difference of returns. Imitation
    rewards are not: there the ranks of all steps count, much pay for little truth first.
    """
    if judged[0].predicted is not None:
        parted = [
            abs(float(one.predicted.sum() - one.episode.rewards.sum()))
            for one in judged
            if one.predicted is not None
        ]
    else:
        paid = _ranks(torch.stack([one.learned for one in judged]))
        due = _ranks(torch.stack([one.episode.rewards for one in judged]))
        parted = (paid - due).sum(dim=1).tolist()
    return sorted(range(len(judged)), key=lambda index: -parted[index])


def _ranks(values: Tensor) -> Tensor:
    """Share of all values that each one exceeds, ties counted half."""
    ranks = rankdata(values.numpy(), axis=None).reshape(values.shape)
    return torch.from_numpy((ranks - 0.5) / values.numel())


def _strip(history: History, one: Judged, index: int) -> Strip:
    assert one.episode.frames is not None
    sums = one.returns()
    promised = sums.get("predicted_return", sums["learned_return"])
    word = "predicted" if one.predicted is not None else "learned"
    return Strip(
        title=f"{history.task}, {history.method}, episode {index}: "
        f"{word} return {promised:.1f}, true return {sums['true_return']:.1f}",
        frames=np.stack(cameras(one.episode.frames[1:]), axis=1),
        panels=panels(one),
    )


def panels(one: Judged) -> list[Panel]:
    """The tracks of an episode: rewards, and the discriminator's trust below them."""
    truth = Track(label="true r", values=one.episode.rewards.numpy(), colour=_TRUE)
    paid = Track(label="gated r", values=one.learned.numpy(), colour=_LEARNED, style="--")
    if one.predicted is None:
        paid = replace(paid, label="r = −log(1 − D)", style="-")
        drawn = [Panel(title="true r", tracks=[truth]), Panel(title=paid.label, tracks=[paid])]
    else:
        guess = Track(label="predicted r_φ", values=one.predicted.numpy(), colour=_PREDICTED)
        gated = [] if one.success is None else [paid]
        drawn = [Panel(title="reward", tracks=[truth, guess, *gated])]
    if one.success is not None:
        trust = Track(label="D", values=one.success.numpy(), colour=_TRUST)
        drawn.append(Panel(title="D", tracks=[trust], highest=1.0, threshold=0.5))
    return drawn


def _means(judged: list[Judged]) -> dict[str, float]:
    rows = [one.returns() for one in judged]
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}


def _table(history: History, found: Probed, judged: list[Judged], order: list[int]) -> dict:
    return {
        "run": str(history.path),
        "task": history.task,
        "method": history.method,
        "env_steps": found.env_steps,
        "verdict": found.verdict.name,
        "sentence": found.verdict.sentence,
        "numbers": found.verdict.numbers,
        "means": found.means,
        "eta": {} if found.eta is None else found.eta.numbers(),
        "parted_most_first": order,
        "episodes": [one.returns() for one in judged],
    }
