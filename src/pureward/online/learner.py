# SPDX-License-Identifier: Apache-2.0
"""The networks of a learned reward, and how they are built, fitted, updated and saved."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from pureward.data.absorbing import Absorbing
from pureward.data.frames import FrameBank
from pureward.data.replay.memory import FrameMemory
from pureward.diagnostics.probe import Probes
from pureward.errors import InputError, TrainingError
from pureward.online.prior import PriorUpdates
from pureward.online.supervision import Supervision, subset
from pureward.purl import Adversary, AgentFrames, has_enough
from pureward.rewards.config import RewardConfig
from pureward.rewards.discriminator import Discriminator
from pureward.rewards.learned import LearnedReward, RewardSpec
from pureward.rewards.methods import METHODS, choose
from pureward.rewards.regression import FitReport, Pass, RewardModel
from pureward.rewards.saved import save_reward
from pureward.runs.checkpoint import flattened, under


class RewardLearner:
    """A discriminator, a reward model, or both, by the method; `train` and `OnlineReward` use it.

    Attributes:
        learned: the reward function.
        adversary: the discriminator with its data, or None.
        absorbing: counts of absorbing steps, or None.
        annotated: frames that the reward model is fitted to, if there is one.
    """

    def __init__(
        self,
        settings: RewardConfig,
        data: Supervision,
        agent: AgentFrames,
        *,
        method: str,
        prior: str | float | None = None,
        failures: FrameBank | None = None,
        annotated: FrameBank | None = None,
        absorbing: Absorbing | None = None,
        warmup_steps: int = 0,
        probe_frames: int = 512,
        seed: int = 0,
    ) -> None:
        """Build the networks.

        Args:
            settings: of the reward; the frames' shape is taken from the data.
            data: positives, and frames for probes.
            agent: the agent's frames: D's unlabeled data.
            method: a name in `METHODS`, not "truth".
            prior: η, or how it is found; None for the method's own.
            failures: known failures to train on, or None.
            annotated: frames that the reward model is fitted to; None for those of `data`.
            absorbing: absorbing steps, for D of an imitation method.
            warmup_steps: steps of the agent before the first estimate of η.
            probe_frames: frames per source and probe.
            seed: of weights and probes.
        """
        row, device, self._agent = METHODS[method], agent.device, agent
        self.annotated, self._probe_frames = annotated or data.train, probe_frames
        shape = data.train.shape
        network = row.network(
            replace(settings.network, frame_channels=shape[0], height=shape[1], width=shape[2])
        )
        settings = replace(settings, network=network)
        choice = choose(method, risk=settings.risk, prior=prior, failures=failures is not None)
        self.model: RewardModel | None = None
        if row.has_reward_model:
            self.model = RewardModel(settings, members=row.members, device=device, seed=seed)
        self.discriminator: Discriminator | None = None
        self.adversary: Adversary | None = None
        self.absorbing = absorbing if row.reward == "imitation" else None
        self._prior: PriorUpdates | None = None
        if choice is not None:
            self.discriminator = Discriminator(
                settings, risk=settings.risk or row.risk, device=device, seed=seed
            )
            self.adversary = Adversary(
                discriminator=self.discriminator,
                positives=data.train,
                failures=failures,
                memory=FrameMemory(settings.memory, shape, device) if settings.memory else None,
                absorbing=self.absorbing,
                batch=settings.batch,
            )
            self._prior = PriorUpdates(
                choice.prior, self.adversary, agent, data, warmup_steps=warmup_steps
            )
        assert row.reward != "truth", "the task's own reward is not learned"
        cameras = shape[0] // (3 * data.train.stack)
        spec = RewardSpec(
            reward=row.reward,
            network=network,
            members=row.members if self.model else 0,
            ceiling=settings.ceiling,
            lowest=min(0.0, float(self.annotated.rewards.min())) if self.model else 0.0,
            absorbing=self.absorbing is not None,
            stack=data.train.stack,
            images=data.images if len(data.images) == cameras else (),
        )
        self.learned = LearnedReward(
            spec,
            discriminator=self.discriminator.network if self.discriminator else None,
            members=self.model.networks if self.model else (),
        )
        self._generator = torch.Generator(device).manual_seed(seed)
        sources = {name: bank[subset(bank, probe_frames)] for name, bank in data.sources().items()}
        self._probes = Probes(sources)
        self.update_prior()

    def fit(self, progress: Callable[[Pass], None] | None = None) -> FitReport | None:
        """Fit the reward model, if there is one; `progress` is called after each pass."""
        if self.model is None:
            return None
        bank = self.annotated
        return self.model.fit(bank.every(), bank.rewards, episodes=bank.episodes, progress=progress)

    @property
    def can_update(self) -> bool:
        """Whether there is a D, and enough of the agent's frames for a minibatch."""
        return self.adversary is not None and has_enough(self._agent, self.adversary.batch)

    def update(
        self, agent: AgentFrames, generator: torch.Generator, updates: int
    ) -> dict[str, float]:
        """Update D some times; return means of the metrics, with one host sync.

        Args:
            agent: D's unlabeled frames.
            generator: of the minibatches.
            updates: number of minibatches, at least 1.
        """
        assert self.adversary is not None, "this method has no discriminator"
        rows = []
        for _ in range(updates):
            (batch,) = self.adversary.sample(agent, 1, generator)
            rows.append(self.adversary.discriminator.update(*batch))
        names = list(rows[0])
        means = torch.stack([torch.stack([row[n].float() for n in names]) for row in rows]).mean(0)
        metrics = dict(zip(names, means.tolist(), strict=True))
        if not all(map(math.isfinite, metrics.values())):
            raise TrainingError("a metric of D is not finite; lower config.learning_rate")
        return metrics

    def update_prior(self) -> dict[str, float]:
        """Set η for the next updates; return metrics."""
        return {} if self._prior is None else self._prior.update(self._generator)

    def probe(self, solved: Tensor | None = None, *, apart: bool = False) -> dict[str, float]:
        """Return P(success) and predictions on known kinds of frames and on the agent's.

        Args:
            solved: frames at which the agent succeeded, uint8 (frames, channels, height, width).
            apart: whether later random numbers are the same as without this probe.
        """
        recent = None
        if len(self._agent):
            generator = self._generator.clone_state() if apart else self._generator
            steps = self._agent.sample_steps(self._probe_frames, generator)
            recent = self._agent.arrival_frames(steps)
        return self._probes.measure(self.learned, recent, solved)

    def save(self, folder: Path) -> None:
        """Write the reward for `load_reward`."""
        save_reward(self.learned, folder)

    def trained(self) -> list[Tensor]:
        """Return D's weights and Adam's moments."""
        return [] if self.discriminator is None else self.discriminator.optimizer.changed()

    def generators(self) -> list[torch.Generator]:
        """Return D's generator."""
        return [] if self.discriminator is None else [self.discriminator.generator]

    def tensors(self) -> dict[str, Tensor]:
        """Return weights, moments, random states and the state of the prior."""
        return {
            **self._copied(),
            **{f"generator.{i}": rng.get_state() for i, rng in enumerate(self.generators())},
            "probes": self._generator.get_state(),
            **flattened("absorbing", self.absorbing.tensors() if self.absorbing else {}),
            **flattened("prior", self._prior.state() if self._prior else {}),
        }

    @torch.no_grad()
    def load_tensors(self, saved: Mapping[str, Tensor]) -> None:
        """Load what `tensors` returned, in place, since captured graphs hold these tensors."""
        counts = self.discriminator.optimizer.counts() if self.discriminator else ()
        for value in (saved[f"trained.{i}"] for i in counts):
            if value < 0:
                raise InputError(
                    f"a number of optimizer steps must be at least 0, got {float(value):g}; "
                    "restore the checkpoint"
                )
        for name, tensor in self._copied().items():
            tensor.copy_(saved[name])
        for i, rng in enumerate(self.generators()):
            rng.set_state(saved[f"generator.{i}"].cpu())
        self._generator.set_state(saved["probes"].cpu())
        if self.absorbing is not None:
            self.absorbing.load_tensors(under("absorbing", saved))
        if self._prior is not None:
            self._prior.load_state(under("prior", saved))

    def _copied(self) -> dict[str, Tensor]:
        """What D's updates change and the weights of the reward models, by name."""
        found = {f"trained.{i}": tensor for i, tensor in enumerate(self.trained())}
        for i, member in enumerate(self.learned.members):
            found |= {f"member.{i}.{name}": each for name, each in member.state_dict().items()}
        return found
