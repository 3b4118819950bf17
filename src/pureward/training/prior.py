# SPDX-License-Identifier: Apache-2.0
"""η over a run: gathers what a prior may know, never the task's reward, and tells D its answer."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from pureward.data.frames import FrameBank
from pureward.data.replay.replay import Replay
from pureward.errors import InputError
from pureward.progress import Progress
from pureward.purl import Adversary
from pureward.rewards.priors import Evidence, Prior
from pureward.rewards.priors.estimated import FEWEST_EPISODES
from pureward.training.supervision import Supervision, subset

# Frames of each kind that an estimate looks at.
_LOOKED_AT = 2048


class RunPrior:
    """Asks a prior for η now and then."""

    def __init__(
        self,
        prior: Prior,
        adversary: Adversary,
        replay: Replay,
        data: Supervision,
        *,
        warmup_steps: int,
    ) -> None:
        """Join a prior with what it is about.

        Args:
            prior: fixed, scheduled or estimated.
            adversary: D, and the mixture of frames that it learns from.
            replay: the agent's experience.
            data: held-out episodes, which an estimate needs.
            warmup_steps: no estimate before so many steps are in the replay.
        """
        if "scores" in prior.wants:
            _check_enough(data.held_out, "held-out", "--held-out")
        if "failures" in prior.wants:
            _check_enough(data.failures, "failed", "--failures")
        self._prior, self._adversary, self._replay, self._data = prior, adversary, replay, data
        self._warmup_steps = warmup_steps
        self._warned = False

    def follow(self, share_done: float, generator: torch.Generator) -> dict[str, float]:
        """Set D's η for the updates to come; returns what there is to log."""
        scored = "scores" in self._prior.wants and self._enough_is_seen()
        evidence = (
            self._evidence(share_done, generator) if scored else Evidence(progress=share_done)
        )
        eta = self._prior(evidence)
        self._adversary.discriminator.set_prior(eta)
        return {"prior": eta} | self._told()

    def _enough_is_seen(self) -> bool:
        """Whether the agent has been at it for long enough, and for enough episodes."""
        steps, layout = len(self._replay), self._replay.layout
        begun = layout.worlds * math.ceil(steps / layout.worlds / layout.horizon)
        return steps >= self._warmup_steps and begun >= FEWEST_EPISODES

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint must hold: D's η, and where an estimate stands."""
        kept = {"eta": self._adversary.discriminator.prior}
        # float64, as Python's: a resumed run continues from exactly these numbers.
        for name, value in self._prior.state_dict().items():
            kept[name] = torch.tensor(value, dtype=torch.float64)
        return kept

    def load_state(self, saved: Mapping[str, Tensor]) -> None:
        """Go on from where `state` was taken."""
        stands = {name: value.item() for name, value in saved.items()}
        # The prior is asked now and then; until it is again, D goes on with the last answer.
        self._adversary.discriminator.set_prior(stands.pop("eta"))
        self._prior.load_state_dict(stands)

    def _told(self) -> dict[str, float]:
        numbers, warning = self._prior.report()
        if warning and not self._warned:
            Progress.write(f"warning: {warning}")
            self._warned = True
        return {f"prior/{name}": value for name, value in numbers.items()}

    def _evidence(self, share_done: float, generator: torch.Generator) -> Evidence:
        unlabeled, unlabeled_episodes = self._agent_scores(generator)
        positive, positive_episodes = self._scores(self._data.held_out)
        known = self._data.failures if self._adversary.failures is not None else None
        failure, failure_episodes = self._scores(known)
        return Evidence(
            progress=share_done,
            held_out_positive_logits=positive,
            held_out_episodes=positive_episodes,
            unlabeled_logits=unlabeled,
            unlabeled_episodes=unlabeled_episodes,
            failure_logits=failure,
            failure_episodes=failure_episodes,
        )

    def _agent_scores(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """D's logits of agent frames in the mixture it learns from, and their episodes."""
        memory = self._adversary.memory
        old = 0 if memory is None else _LOOKED_AT // 2
        steps = self._replay.sample_steps(_LOOKED_AT - old, generator)
        frames, episodes = [self._replay.arrival_frames(steps)], [self._replay.episodes(steps)]
        if memory is not None:
            frames.append(memory.sample(old, generator))
            # So few of so many: hardly two are of one episode.
            episodes.append(-1 - torch.arange(old, device=self._replay.device))
        logits = self._adversary.discriminator.logits(torch.cat(frames))
        return logits, torch.cat(episodes)

    def _scores(self, bank: FrameBank | None) -> tuple[Tensor | None, Tensor | None]:
        """D's logits of some rows of a bank, and their episodes."""
        if bank is None:
            return None, None
        rows = subset(bank, _LOOKED_AT).to(self._replay.device)
        return self._adversary.discriminator.logits(bank[rows]), bank.episodes[rows]


def _check_enough(bank: FrameBank | None, kind: str, option: str) -> None:
    """Refuse positives with too few such episodes for an estimate, before anything is learned."""
    there = 0 if bank is None else len(bank.episodes.unique())
    if there < FEWEST_EPISODES:
        raise InputError(
            f"an estimate of η needs at least {FEWEST_EPISODES} {kind} episodes, and the dataset "
            f"of positives has {there}; collect some with {option} or give η as a number, "
            "--prior 0.5"
        )
