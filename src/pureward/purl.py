# SPDX-License-Identifier: Apache-2.0
"""Algorithm 1: a discriminator and a policy that learn beside each other.

    for i = 1, 2, 3, …
        s, a, s' ~ replay;  s_p ~ demonstrations, or annotated states      }
        if R⁰(s) − η R⁰(s_p) ≥ −β:  descend on the non-negative PU risk    } `discriminate`
        else:                       ascend on its negative part            }
        r ← −log(1 − D(s')), or [D(s') > ½] r_φ(s')                        }
        update the policy with s, a, r, s' by D4PG                         } `improve`

The branch is inside the risk (`rewards/risks/pu.py`). The two kinds of reward are in
`rewards/compose.py`. A method is a choice of these (`rewards/methods.py`); all methods run through
here, the task's own reward too. Discriminator and policy draw their own minibatches, so one may
learn more often than the other.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from pureward.agents.agent import Agent, Batch
from pureward.data.frames import FrameBank
from pureward.data.replay.memory import FrameMemory
from pureward.data.replay.replay import Replay
from pureward.data.replay.windows import Windows
from pureward.relabel import Labels
from pureward.rewards.discriminator import Discriminator

# One in so many of the newest frames is offered to the memory: neighbours are near copies.
_REMEMBERED = 8


@dataclass(frozen=True, kw_only=True)
class Adversary:
    """D and what it learns from, apart from the replay."""

    discriminator: Discriminator
    positives: FrameBank
    """Demonstrations, or annotated episodes."""
    failures: FrameBank | None = None
    """Known failures, where the risk takes them."""
    memory: FrameMemory | None = None
    """A sample of the agent's whole experience, beside what the replay still holds."""
    batch: int = 256
    """Frames of each kind in an update."""


class Purl:
    """One step of Algorithm 1, in its two halves."""

    def __init__(
        self,
        *,
        agent: Agent,
        replay: Replay,
        labels: Labels,
        batch: int,
        generator: torch.Generator,
        adversary: Adversary | None = None,
        ceiling: float = float("inf"),
        threshold: float = 0.0,
    ) -> None:
        """Join the parts.

        Args:
            agent: the policy and its critic.
            replay: the agent's experience, D's unlabeled frames.
            labels: gives replayed steps their rewards.
            batch: windows in an update of the agent.
            generator: of everything drawn here.
            adversary: D and its positives, for methods that have one.
            ceiling: r_max, to tell how many rewards have reached it.
            threshold: what a reward is above where D > ½, to tell how many are.
        """
        self.agent = agent
        self.replay = replay
        self.labels = labels
        self.adversary = adversary
        self.ceiling = ceiling
        self.threshold = threshold
        self._batch = batch
        self._generator = generator

    def arrive(self) -> None:
        """Take note of the newest step of every world."""
        self.labels.arrive()
        if self.adversary is not None and self.adversary.memory is not None:
            newest = self.replay.newest_steps()
            some = torch.randint(
                len(newest),
                (max(1, len(newest) // _REMEMBERED),),
                generator=self._generator,
                device=newest.device,
            )
            frames = self.replay.arrival_frames(newest[some])
            self.adversary.memory.add(frames, self._generator)

    def discriminate(self) -> dict[str, Tensor]:
        """Update D on positives and unlabeled frames; returns metrics, on the device."""
        assert self.adversary is not None, "this method has no discriminator"
        batch, rng = self.adversary.batch, self._generator
        positive = self.adversary.positives.sample(batch, rng)
        unlabeled = self.unlabeled(batch)
        known = self.adversary.failures
        failures = None if known is None else known.sample(batch, rng)
        return self.adversary.discriminator.update(positive, unlabeled, failures)

    def unlabeled(self, count: int) -> Tensor:
        """Draw frames of the agent: of the replay, and of all that was before it."""
        adversary, rng = self.adversary, self._generator
        if adversary is None or adversary.memory is None:
            return self.replay.sample_frames(count, rng)
        old = adversary.memory.sample(count // 2, rng)
        return torch.cat([self.replay.sample_frames(count - count // 2, rng), old])

    def improve(self, updates: int) -> dict[str, Tensor]:
        """Reward replayed steps and update the policy with them, several times.

        Windows are drawn once for all updates: the replay does not change between.
        Returns metrics of the last update and of all rewards, on the device.
        """
        windows = self.replay.sample(updates * self._batch, self._generator)
        rewards = self.labels(windows)
        returns = windows.n_step_return(rewards)
        metrics: dict[str, Tensor] = {}
        for part, reward in zip(windows.chunk(updates), returns.chunk(updates), strict=True):
            metrics = self.agent.update(_batch(part, reward))
        first = rewards[:, 0]  # of every window the step that it surely has
        metrics |= {
            "reward/mean": first.mean(),
            "reward/saturated": (first >= self.ceiling).float().mean(),
            "reward/open": (first > self.threshold).float().mean(),
        }
        return metrics


def _batch(windows: Windows, reward: Tensor) -> Batch:
    return Batch(
        state=windows.state,
        action=windows.action,
        reward=reward,
        discount=windows.discount,
        next_state=windows.next_state,
    )
