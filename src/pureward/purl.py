# SPDX-License-Identifier: Apache-2.0
"""Algorithm 1: a discriminator and a policy that learn together.

    for i = 1, 2, 3, …
        s, a, s' ~ replay;  s_p ~ demonstrations, or annotated states      }
        if R⁰(s) − η R⁰(s_p) ≥ −β:  descend on the non-negative PU risk    } `discriminate`
        else:                       ascend on its negative part            }
        r ← −log(1 − D(s')), or [D(s') > ½] r_φ(s')                        }
        update the policy with s, a, r, s' by D4PG                         } `improve`

The branch is in the risk (`rewards/risks/pu.py`), the rewards are in `rewards/compose.py`, and a
method chooses among them (`rewards/methods.py`). All methods use this class, the task's own reward
too. Discriminator and policy sample their own minibatches, so one may have more updates.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from pureward.agents.agent import Agent, Batch
from pureward.data.frames import FrameBank
from pureward.data.replay.memory import FrameMemory
from pureward.data.replay.replay import Replay
from pureward.relabel import Labels
from pureward.rewards.discriminator import Discriminator

# The memory gets one in eight of the newest frames: consecutive frames are near copies.
_MEMORY_STRIDE = 8


@dataclass(frozen=True, kw_only=True)
class Adversary:
    """The discriminator and its data apart from the replay."""

    discriminator: Discriminator
    positives: FrameBank
    """Demonstrations, or annotated episodes."""
    failures: FrameBank | None = None
    """Known failures, if the risk takes them."""
    memory: FrameMemory | None = None
    """A sample of all the agent's frames, also of those that the replay has dropped."""
    batch: int = 256
    """Frames of each kind in an update."""


class Purl:
    """The two halves of a step of Algorithm 1: `discriminate` and `improve`."""

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
        """Store the parts.

        Args:
            agent: the policy and its critic.
            replay: the agent's experience; D's unlabeled frames.
            labels: rewards of replayed steps.
            batch: windows in an update of the agent.
            generator: for all sampling.
            adversary: D and its positives; None if the method has no discriminator.
            ceiling: r_max, for the metric reward/saturated.
            threshold: the reward at D = ½, for the metric reward/open.
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
        """Process the newest step of every world: labels and memory."""
        self.labels.arrive()
        if self.adversary is not None and self.adversary.memory is not None:
            newest, rng = self.replay.newest_steps(), self._generator
            shape = (max(1, len(newest) // _MEMORY_STRIDE),)
            some = torch.randint(len(newest), shape, generator=rng, device=newest.device)
            self.adversary.memory.add(self.replay.arrival_frames(newest[some]), rng)

    def discriminate(self) -> dict[str, Tensor]:
        """Update D on positives and unlabeled frames; return metrics, on the device."""
        assert self.adversary is not None, "this method has no discriminator"
        batch, rng = self.adversary.batch, self._generator
        positive = self.adversary.positives.sample(batch, rng)
        unlabeled = self.unlabeled(batch)
        known = self.adversary.failures
        failures = None if known is None else known.sample(batch, rng)
        return self.adversary.discriminator.update(positive, unlabeled, failures)

    def unlabeled(self, count: int) -> Tensor:
        """Sample agent frames (count, channels, height, width); half from the memory, if any."""
        adversary, rng = self.adversary, self._generator
        if adversary is None or adversary.memory is None:
            return self.replay.sample_frames(count, rng)
        old = adversary.memory.sample(count // 2, rng)
        return torch.cat([self.replay.sample_frames(count - count // 2, rng), old])

    def improve(self, updates: int) -> dict[str, Tensor]:
        """Compute rewards of replayed steps and update the policy on them.

        Windows are sampled once for all updates: the replay does not change between them.

        Args:
            updates: number of updates.

        Returns:
            Metrics of the last update and of all rewards, on the device.
        """
        windows = self.replay.sample(updates * self._batch, self._generator)
        rewards = self.labels(windows)
        returns = windows.n_step_return(rewards)
        metrics: dict[str, Tensor] = {}
        for part, reward in zip(windows.chunk(updates), returns.chunk(updates), strict=True):
            batch = Batch(
                state=part.state,
                action=part.action,
                reward=reward,
                discount=part.discount,
                next_state=part.next_state,
            )
            metrics = self.agent.update(batch)
        first = rewards[:, 0]  # windows at the end of an episode have fewer steps, but always one
        return metrics | {
            "reward/mean": first.mean(),
            "reward/saturated": (first >= self.ceiling).float().mean(),
            "reward/open": (first > self.threshold).float().mean(),
        }
