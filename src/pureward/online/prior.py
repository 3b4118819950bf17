# SPDX-License-Identifier: Apache-2.0
"""Updates η while a reward learns, from scores of D; the task's own reward is never used."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from pureward.data.frames import FrameBank
from pureward.errors import InputError, warn
from pureward.online.supervision import Supervision, subset
from pureward.purl import Adversary, AgentFrames, has_enough
from pureward.rewards.priors import Prior, PriorData
from pureward.rewards.priors.estimated import FEWEST_EPISODES

# Frames of each kind in an estimate.
_FRAMES = 2048


@dataclass
class PriorUpdates:
    """Sets the η of a discriminator by a prior."""

    prior: Prior
    adversary: Adversary
    agent: AgentFrames
    data: Supervision
    """Held-out episodes and failures for an estimate."""
    warmup_steps: int
    """Steps of the agent before the first estimate."""
    _warned: bool = False

    def __post_init__(self) -> None:
        if "scores" in self.prior.wants:
            more = "bring more, or raise --held-out (in Python held_out=)"
            _check_enough(self.data.held_out, "held-out", more)
        if "failures" in self.prior.wants:
            _check_enough(self.data.failures, "failed", "collect some with --failures")

    def update(self, generator: torch.Generator) -> dict[str, float]:
        """Set D's η for the next updates and return metrics.

        Args:
            generator: for the choice of agent frames.
        """
        scored = "scores" in self.prior.wants and has_enough(self.agent, self.warmup_steps)
        given = self._logits(generator) if scored else PriorData()
        eta = self.prior(given)
        self.adversary.discriminator.set_prior(eta)
        numbers, warning = self.prior.report()
        if warning and not self._warned:
            warn(warning)
            self._warned = True
        return {"prior": eta} | {f"prior/{name}": value for name, value in numbers.items()}

    def state(self) -> dict[str, Tensor]:
        """Return D's η and the state of the prior, for a checkpoint."""
        state = {"eta": self.adversary.discriminator.prior}
        # float64, so that a resumed run continues from exactly these numbers.
        for name, value in self.prior.state_dict().items():
            state[f"own.{name}"] = torch.tensor(value, dtype=torch.float64)
        return state

    def load_state(self, saved: Mapping[str, Tensor]) -> None:
        """Load what `state` returned."""
        self.adversary.discriminator.set_prior(saved["eta"].item())  # used until the next update
        own = {name: value.item() for name, value in saved.items() if name != "eta"}
        self.prior.load_state_dict({name.removeprefix("own."): own[name] for name in own})

    def _logits(self, generator: torch.Generator) -> PriorData:
        """Scores of frames, or none if those of the agent are of too few episodes."""
        frames, steps = self.adversary.unlabeled(self.agent, _FRAMES, generator)
        episodes = self.agent.episodes(steps)
        if len(episodes.unique()) < FEWEST_EPISODES:
            return PriorData()
        # The memory is a sample of the whole run: each of its frames counts as its own episode.
        alone = -1 - torch.arange(len(frames) - len(steps), device=self.agent.device)
        positive, positive_episodes = self._scores(self.data.held_out, generator)
        known = self.data.failures if self.adversary.failures is not None else None
        failure, failure_episodes = self._scores(known)
        return PriorData(
            held_out_positive_logits=positive,
            held_out_episodes=positive_episodes,
            unlabeled_logits=self.adversary.discriminator.logits(frames),
            unlabeled_episodes=torch.cat([episodes, alone]),
            failure_logits=failure,
            failure_episodes=failure_episodes,
        )

    def _scores(
        self, bank: FrameBank | None, absorbing: torch.Generator | None = None
    ) -> tuple[Tensor | None, Tensor | None]:
        """D's logits of frames of a bank, and their episodes; positives with absorbing frames."""
        if bank is None:
            return None, None
        rows = _rows(bank)
        frames = bank[rows]
        if absorbing is not None and self.adversary.absorbing is not None:
            frames = self.adversary.absorbing.among_positives(frames, absorbing)
        return self.adversary.discriminator.logits(frames), bank.episodes[rows]


def _rows(bank: FrameBank) -> Tensor:
    """Rows of the frames of a bank that every estimate uses."""
    return subset(bank, _FRAMES).to(bank.device)


def _check_enough(bank: FrameBank | None, kind: str, remedy: str) -> None:
    """Raise InputError if the frames of an estimate are of too few episodes of a kind."""
    # A short episode may have no frame in the sample.
    found = 0 if bank is None else len(bank.episodes[_rows(bank)].unique())
    if found < FEWEST_EPISODES:
        sample = f" in a sample of {_FRAMES:,} frames" if bank and len(bank) > _FRAMES else ""
        raise InputError(
            f"an estimate of η needs at least {FEWEST_EPISODES} {kind} episodes, and the positives "
            f"have {found}{sample}; {remedy}, or give η as a number, --prior 0.5 (in Python "
            "prior=0.5)"
        )
