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

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from pureward.agents.agent import Agent, Batch
from pureward.data.absorbing import Absorbing
from pureward.data.frames import FrameBank
from pureward.data.replay.memory import FrameMemory
from pureward.data.replay.replay import Replay
from pureward.relabel import Labels
from pureward.rewards.discriminator import Discriminator
from pureward.rewards.learned import LearnedReward

# The memory gets one in eight of the newest frames, at least one: consecutive ones are near copies.
_MEMORY_STRIDE = 8


class AgentFrames(Protocol):
    """Frames of the agent's arrival states: a `Replay`, or frames that were observed."""

    @property
    def device(self) -> torch.device:
        """Where the frames are."""
        ...

    @property
    def capacity(self) -> int:
        """The most steps that it stores."""
        ...

    def __len__(self) -> int:
        """Number of stored steps."""
        ...

    def sample_steps(self, batch: int, generator: torch.Generator) -> Tensor:
        """Sample indices of stored steps, int64 (batch,)."""
        ...

    def arrival_frames(self, steps: Tensor) -> Tensor:
        """Return the frames of steps, uint8 (batch, channels, height, width)."""
        ...

    def episodes(self, steps: Tensor) -> Tensor:
        """Return the episode of each step, as a number."""
        ...


def enough(agent: AgentFrames, steps: int) -> int:
    """Return how many steps must be stored: so many, or as many as there is room for."""
    return min(steps, agent.capacity)


def has_enough(agent: AgentFrames, steps: int) -> bool:
    """Whether so many steps are stored, or as many as there is room for."""
    return 0 < len(agent) >= enough(agent, steps)


@dataclass(frozen=True, kw_only=True)
class Adversary:
    """The discriminator and its data apart from the agent's recent frames."""

    discriminator: Discriminator
    positives: FrameBank
    """Demonstrations, or annotated episodes."""
    failures: FrameBank | None = None
    """Known failures, if the risk takes them."""
    memory: FrameMemory | None = None
    """A sample of all the agent's frames, also of those that the replay has dropped."""
    absorbing: Absorbing | None = None
    """Shares of absorbing frames, if episodes of an imitation task may terminate."""
    batch: int = 256
    """Frames of each kind in an update."""

    def sample(
        self, agent: AgentFrames, updates: int, generator: torch.Generator
    ) -> list[tuple[Tensor, ...]]:
        """Sample the frames of some updates: positives, unlabeled and, if any, known failures."""
        count = updates * self.batch
        positive = self.positives.sample(count, generator)
        if self.absorbing is not None:
            positive = self.absorbing.among_positives(positive, generator)
        kinds = [positive, self.unlabeled(agent, count, generator)[0]]
        if self.failures is not None:
            kinds.append(self.failures.sample(count, generator))
        # Unlabeled frames from the memory are at the end, so an update takes every n-th frame.
        return [tuple(kind[at::updates] for kind in kinds) for at in range(updates)]

    def unlabeled(
        self, agent: AgentFrames, count: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Sample agent frames, half of them from the memory, if there is one.

        Returns:
            The frames (count, channels, height, width), and the steps (recent,) of the first ones,
            which are not from the memory.
        """
        old = 0 if self.memory is None else count // 2
        steps = agent.sample_steps(count - old, generator)
        frames = agent.arrival_frames(steps)
        if self.memory is not None:
            frames = torch.cat([frames, self.memory.sample(old, generator)])
        if self.absorbing is not None:
            frames = self.absorbing.among_unlabeled(frames, generator)
        return frames, steps

    def remember(self, agent: AgentFrames, steps: Tensor, generator: torch.Generator) -> None:
        """Add one in eight of new steps (count,), at least one, to the memory, if there is one."""
        if self.memory is not None:
            shape = (max(1, len(steps) // _MEMORY_STRIDE),)
            some = torch.randint(len(steps), shape, generator=generator, device=steps.device)
            self.memory.add(agent.arrival_frames(steps[some]), generator)


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
        learned: LearnedReward | None = None,
    ) -> None:
        """Store the parts.

        Args:
            agent: the policy and its critic.
            replay: the agent's experience; D's unlabeled frames.
            labels: rewards of replayed steps.
            batch: windows in an update of the agent.
            generator: for the sampling of the agent's updates.
            adversary: D and its positives; None if the method has no discriminator.
            learned: the reward that `labels` are of; None for the task's own.
        """
        self.agent = agent
        self.replay = replay
        self.labels = labels
        self.adversary = adversary
        self._batch = batch
        self._generator = generator
        # For metrics: r_max, and the reward at D = ½.
        self.ceiling, self.threshold = math.inf, 0.0
        self.absorbing_reward = None
        if learned is not None and learned.spec.reward == "imitation":
            self.ceiling, self.threshold = learned.spec.ceiling, math.log(2)  # −log(1 − ½)
            if learned.spec.absorbing:
                self.absorbing_reward = learned.absorbing_reward

    def arrive(self) -> None:
        """Process the newest step of every world: labels and memory."""
        self.labels.arrive()
        if self.adversary is not None:
            self.adversary.remember(self.replay, self.replay.newest_steps(), self._generator)

    def discriminate(self, updates: int) -> list[dict[str, Tensor]]:
        """Update D on positives and the agent's frames.

        Frames are sampled once for all updates: the replay does not change between them.

        Args:
            updates: number of updates.

        Returns:
            Metrics of each update, on the device.
        """
        assert self.adversary is not None, "this method has no discriminator"
        discriminator = self.adversary.discriminator
        # D's own generator: on CUDA it learns beside the policy.
        batches = self.adversary.sample(self.replay, updates, discriminator.generator)
        return [discriminator.update(*batch) for batch in batches]

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
        if self.absorbing_reward is not None:
            returns = returns + windows.absorbing_return(
                self.absorbing_reward(), self.replay.config.discount
            )
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
