# SPDX-License-Identifier: Apache-2.0
"""The reward of a run: the networks of its method, and how they are built, fitted and saved."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from pureward.data.frames import FrameBank
from pureward.data.replay.memory import FrameMemory
from pureward.data.replay.replay import Replay
from pureward.diagnostics.probe import Probes
from pureward.envs import BatchEnv
from pureward.purl import Adversary
from pureward.relabel import CachedLabels, FreshLabels, Labels, TaskLabels
from pureward.rewards.discriminator import Discriminator
from pureward.rewards.learned import LearnedReward, RewardSpec
from pureward.rewards.methods import METHODS, choose
from pureward.rewards.optimizer import trained_tensors
from pureward.rewards.regression import FitReport, Pass, RewardModel
from pureward.rewards.saved import save_reward
from pureward.runs.checkpoint import flattened, under
from pureward.runs.config import RunConfig
from pureward.training.prior import RunPrior
from pureward.training.supervision import Supervision, load_failures, load_supervision, subset


class RunReward:
    """The task's own reward; the base of learned ones."""

    def __init__(self) -> None:
        self.labels: Labels = TaskLabels()
        self.adversary: Adversary | None = None
        self.learned: LearnedReward | None = None
        self.ceiling = math.inf
        self.threshold = 0.0

    def fit(self, progress: Callable[[Pass], None]) -> FitReport | None:
        """Fit the reward model, if there is one; `progress` is called after each pass."""
        return None

    def update_prior(self, progress: float) -> dict[str, float]:
        """Set η for the next updates at this share of the run; return metrics."""
        return {}

    def probe(self, solved: Tensor | None = None) -> dict[str, float]:
        """Return outputs of the networks on known kinds of frames.

        Args:
            solved: frames at which the agent succeeded, uint8 (frames, channels, height, width).
        """
        return {}

    def save(self, folder: Path) -> None:
        """Write a learned reward for `load_reward`."""

    def trained(self) -> list[Tensor]:
        """Return the tensors that an update of the discriminator changes."""
        return []

    def generators(self) -> list[torch.Generator]:
        """Return the generators that the discriminator draws from."""
        return []

    def step_tensors(self) -> dict[str, Tensor]:
        """Return what is stored per agent step outside the replay: frame memory and scores."""
        memory = None if self.adversary is None else self.adversary.memory
        frames = {} if memory is None else {f"memory.{k}": v for k, v in memory.tensors().items()}
        return frames | {f"labels.{name}": value for name, value in self.labels.tensors().items()}

    def tensors(self) -> dict[str, Tensor]:
        """Return the state for a checkpoint, without `step_tensors`."""
        return {}

    def load_tensors(self, saved: Mapping[str, Tensor]) -> None:
        """Load what `tensors` returned, in place."""


class LearnedRunReward(RunReward):
    """A discriminator, a reward model, or both, by the run's method."""

    def __init__(
        self, config: RunConfig, replay: Replay, data: Supervision, failures: FrameBank | None
    ) -> None:
        """Build the networks.

        Args:
            config: of the run.
            replay: the agent's steps.
            data: positives, and frames for probes.
            failures: known failures to train on, or None.
        """
        super().__init__()
        self._config, self._replay, self._data = config, replay, data
        method, device, settings = METHODS[config.method], replay.device, config.reward
        assert method.reward != "truth"
        assert replay.layout.frame_shape is not None, "a learned reward needs frames"
        channels, height, width = replay.layout.frame_shape
        shape = (config.replay.frame_stack * channels, height, width)
        network = method.network(
            replace(settings.network, frame_channels=shape[0], height=height, width=width)
        )
        settings = replace(settings, network=network)
        choice = choose(
            config.method,
            risk=settings.risk,
            prior=config.prior or None,
            failures=failures is not None,
        )
        self._model: RewardModel | None = None
        if method.has_reward_model:
            self._model = RewardModel(
                settings, members=method.members, device=device, seed=config.seed
            )
        self._discriminator: Discriminator | None = None
        self._prior: RunPrior | None = None
        if choice is not None:
            self._discriminator = Discriminator(
                settings, risk=settings.risk or method.risk, device=device, seed=config.seed
            )
            self.adversary = Adversary(
                discriminator=self._discriminator,
                positives=data.train,
                failures=failures,
                memory=FrameMemory(settings.memory, shape, device) if settings.memory else None,
                batch=settings.batch,
            )
            self._prior = RunPrior(
                choice.prior, self.adversary, replay, data, warmup_steps=config.warmup_steps
            )
        spec = RewardSpec(
            reward=method.reward,
            network=network,
            members=method.members if self._model else 0,
            ceiling=settings.ceiling,
            lowest=min(0.0, float(data.train.rewards.min())) if self._model else 0.0,
        )
        self.learned = LearnedReward(
            spec,
            discriminator=self._discriminator.network if self._discriminator else None,
            members=self._model.networks if self._model else (),
        )
        if method.reward == "imitation":
            self.ceiling, self.threshold = settings.ceiling, math.log(2)  # −log(1 − ½)
        if settings.labels == "fresh":
            self.labels = FreshLabels(self.learned, replay)
        else:
            self.labels = CachedLabels(self.learned, replay, refreshed=settings.refreshed)
        self._generator = torch.Generator(device).manual_seed(config.seed)
        most = config.probe_frames
        sources = {name: bank[subset(bank, most)] for name, bank in data.sources().items()}
        self._probes = Probes(sources, most=most)
        self.update_prior(0.0)

    def fit(self, progress: Callable[[Pass], None]) -> FitReport | None:
        """Fit r_φ to the annotated frames."""
        if self._model is None:
            return None
        bank = self._data.train
        return self._model.fit(
            bank.every(), bank.rewards, episodes=bank.episodes, progress=progress
        )

    def update_prior(self, progress: float) -> dict[str, float]:
        """Set η for the next updates at this share of the run; return metrics."""
        return {} if self._prior is None else self._prior.update(progress, self._generator)

    def probe(self, solved: Tensor | None = None) -> dict[str, float]:
        """Return P(success) and predictions on known kinds of frames and on the replay."""
        assert self.learned is not None
        count = self._config.probe_frames
        recent = self._replay.sample_frames(count, self._generator) if len(self._replay) else None
        return self._probes.measure(self.learned, recent, solved)

    def save(self, folder: Path) -> None:
        """Write the reward for `load_reward`."""
        assert self.learned is not None
        save_reward(self.learned, folder)

    def trained(self) -> list[Tensor]:
        """Return D's weights and Adam's moments."""
        return [] if self._discriminator is None else trained_tensors(self._discriminator.optimizer)

    def generators(self) -> list[torch.Generator]:
        """Return D's generator."""
        return [] if self._discriminator is None else [self._discriminator.generator]

    def tensors(self) -> dict[str, Tensor]:
        """Return weights, moments, random states and the state of the prior."""
        found = {f"trained.{i}": tensor for i, tensor in enumerate(self.trained())}
        found |= {f"generator.{i}": rng.get_state() for i, rng in enumerate(self.generators())}
        found |= {"probes": self._generator.get_state()} | self._member_tensors()
        return found | flattened("prior", self._prior.state() if self._prior else {})

    @torch.no_grad()
    def load_tensors(self, saved: Mapping[str, Tensor]) -> None:
        """Load what `tensors` returned, in place, since captured graphs hold these tensors."""
        for i, tensor in enumerate(self.trained()):
            tensor.copy_(saved[f"trained.{i}"])
        for i, rng in enumerate(self.generators()):
            rng.set_state(saved[f"generator.{i}"].cpu())
        self._generator.set_state(saved["probes"].cpu())
        for name, tensor in self._member_tensors().items():
            tensor.copy_(saved[name])
        if self._prior is not None:
            self._prior.load_state(under("prior", saved))

    def _member_tensors(self) -> dict[str, Tensor]:
        return {
            f"member.{i}.{name}": tensor
            for i, member in enumerate(self._model.networks if self._model else ())
            for name, tensor in member.state_dict().items()
        }


def build_reward(config: RunConfig, env: BatchEnv, replay: Replay) -> RunReward:
    """Build the reward of a run's method; reads its data."""
    if METHODS[config.method].reward == "truth":
        return RunReward()
    data = load_supervision(config, env)
    return LearnedRunReward(config, replay, data, load_failures(config, env))
