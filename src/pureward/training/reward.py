# SPDX-License-Identifier: Apache-2.0
"""The reward of a run: which networks its method has, how they are built, fitted and saved."""

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
from pureward.rewards.methods import METHODS, Method, choose
from pureward.rewards.network import NetworkConfig
from pureward.rewards.optimizer import trained_tensors
from pureward.rewards.regression import FitReport, Pass, RewardModel
from pureward.rewards.saved import save_reward
from pureward.runs.checkpoint import flattened, under
from pureward.runs.config import RunConfig
from pureward.training.prior import RunPrior
from pureward.training.supervision import Supervision, load_failures, load_supervision, subset


class RunReward:
    """What rewards a run's steps; the task itself, in a run without networks."""

    def __init__(self) -> None:
        """The task's own reward."""
        self.labels: Labels = TaskLabels()
        self.adversary: Adversary | None = None
        self.learned: LearnedReward | None = None
        self.ceiling = float("inf")
        self.threshold = 0.0

    def fit(self, progress: Callable[[Pass], None]) -> FitReport | None:
        """Train what has to be trained before the policy; nothing here."""
        return None

    def follow(self, share_done: float) -> dict[str, float]:
        """Let η follow the run; returns what there is to log."""
        return {}

    def probe(self, solved: Tensor | None = None) -> dict[str, float]:
        """What the networks say of known kinds of frames, the agent's successes among them."""
        return {}

    def save(self, folder: Path) -> None:
        """Write the reward for `load_reward`; a task's own cannot be."""

    def trained(self) -> list[Tensor]:
        """Tensors that an update of the discriminator changes."""
        return []

    def remembered(self) -> dict[str, Tensor]:
        """What is kept of the agent's steps besides the replay, by name."""
        memory = None if self.adversary is None else self.adversary.memory
        kept = {} if memory is None else {f"memory.{k}": v for k, v in memory.tensors().items()}
        return kept | {f"labels.{name}": tensor for name, tensor in self.labels.tensors().items()}

    def generators(self) -> list[torch.Generator]:
        """Random generators that it draws from."""
        return []

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint must hold."""
        return {}

    def load_tensors(self, saved: Mapping[str, Tensor]) -> None:
        """Go on from where `tensors` were taken."""


class LearnedRunReward(RunReward):
    """Discriminator, reward model, or both, as the run's method says."""

    def __init__(
        self, config: RunConfig, replay: Replay, data: Supervision, failures: FrameBank | None
    ) -> None:
        """Build the networks.

        Args:
            config: of the run.
            replay: whose steps are rewarded.
            data: positives, and the sources of probes.
            failures: known failures to train on, where the run has some.
        """
        super().__init__()
        self._config, self._replay, self._data = config, replay, data
        method, device = METHODS[config.method], replay.device
        choice = choose(
            config.method,
            risk=config.reward.risk,
            prior=config.prior or None,
            failures=failures is not None,
        )
        network = method.network(_network(config, replay))
        self._prior: RunPrior | None = None
        settings = replace(config.reward, network=network)
        self._model: RewardModel | None = None
        if method.has_reward_model:
            self._model = RewardModel(
                settings, members=method.members, device=device, seed=config.seed
            )
        self._discriminator: Discriminator | None = None
        if choice is not None:
            self._discriminator = Discriminator(
                settings, risk=settings.risk or method.risk, device=device, seed=config.seed
            )
        self.learned = self._assembled(method, network)
        if choice is not None and self._discriminator is not None:
            self.adversary = self._adversary(self._discriminator, failures)
            self._prior = RunPrior(
                choice.prior, self.adversary, replay, data, warmup_steps=config.warmup_steps
            )
        if method.reward == "imitation":
            self.ceiling, self.threshold = config.reward.ceiling, math.log(2)  # −log(1 − ½)
        self.labels = self._labels()
        self._generator = torch.Generator(device).manual_seed(config.seed)
        self._probes = Probes(
            {
                name: bank[subset(bank, config.probe_frames)]
                for name, bank in data.sources().items()
            },
            most=config.probe_frames,
        )
        self.follow(0.0)

    def fit(self, progress: Callable[[Pass], None]) -> FitReport | None:
        """Regress r_φ on the annotated frames."""
        if self._model is None:
            return None
        bank = self._data.train
        return self._model.fit(
            bank.every(), bank.rewards, episodes=bank.episodes, progress=progress
        )

    def follow(self, share_done: float) -> dict[str, float]:
        """Set η for the updates to come."""
        return {} if self._prior is None else self._prior.follow(share_done, self._generator)

    def probe(self, solved: Tensor | None = None) -> dict[str, float]:
        """P(success) and predictions on known kinds of frames and on the replay."""
        assert self.learned is not None
        count = self._config.probe_frames
        recent = self._replay.sample_frames(count, self._generator) if len(self._replay) else None
        return self._probes.measure(self.learned, recent, solved)

    def save(self, folder: Path) -> None:
        """Write the reward for `load_reward`."""
        assert self.learned is not None
        save_reward(self.learned, folder)

    def trained(self) -> list[Tensor]:
        """D's weights and what Adam keeps of them."""
        return [] if self._discriminator is None else trained_tensors(self._discriminator.optimizer)

    def generators(self) -> list[torch.Generator]:
        """D's own."""
        return [] if self._discriminator is None else [self._discriminator.generator]

    def tensors(self) -> dict[str, Tensor]:
        """Weights, moments, random states, and how η stands."""
        kept = {f"trained.{i}": tensor for i, tensor in enumerate(self.trained())}
        kept |= {f"generator.{i}": rng.get_state() for i, rng in enumerate(self.generators())}
        kept |= {"probes": self._generator.get_state()}
        for i, member in enumerate(self._model.networks if self._model else ()):
            kept |= {f"member.{i}.{name}": t for name, t in member.state_dict().items()}
        return kept | flattened("prior", self._prior.state() if self._prior else {})

    @torch.no_grad()
    def load_tensors(self, saved: Mapping[str, Tensor]) -> None:
        """Go on from where `tensors` were taken, in place, which captured graphs see."""
        for i, tensor in enumerate(self.trained()):
            tensor.copy_(saved[f"trained.{i}"])
        for i, rng in enumerate(self.generators()):
            rng.set_state(saved[f"generator.{i}"].cpu())
        self._generator.set_state(saved["probes"].cpu())
        for i, member in enumerate(self._model.networks if self._model else ()):
            for name, tensor in member.state_dict().items():
                tensor.copy_(saved[f"member.{i}.{name}"])
        if self._prior is not None:
            self._prior.load_state(under("prior", saved))

    def _assembled(self, method: Method, network: NetworkConfig) -> LearnedReward:
        assert method.reward != "truth"
        settings = self._config.reward
        spec = RewardSpec(
            reward=method.reward,
            network=network,
            members=method.members if method.has_reward_model else 0,
            ceiling=settings.ceiling,
            lowest=min(0.0, float(self._data.train.rewards.min())) if self._model else 0.0,
        )
        return LearnedReward(
            spec,
            discriminator=self._discriminator.network if self._discriminator else None,
            members=self._model.networks if self._model else (),
        )

    def _adversary(self, discriminator: Discriminator, failures: FrameBank | None) -> Adversary:
        """D with what it learns from."""
        settings = self._config.reward
        return Adversary(
            discriminator=discriminator,
            positives=self._data.train,
            failures=failures,
            memory=_memory(self._config, discriminator.config.network, self._replay.device),
            batch=settings.batch,
        )

    def _labels(self) -> Labels:
        assert self.learned is not None
        settings = self._config.reward
        if settings.labels == "fresh":
            return FreshLabels(self.learned, self._replay)
        return CachedLabels(self.learned, self._replay, refreshed=settings.refreshed)


def build_reward(config: RunConfig, env: BatchEnv, replay: Replay) -> RunReward:
    """Build what a run's method needs, reading its data."""
    if METHODS[config.method].reward == "truth":
        return RunReward()
    data = load_supervision(config, env)
    return LearnedRunReward(config, replay, data, load_failures(config, env))


def _network(config: RunConfig, replay: Replay) -> NetworkConfig:
    assert replay.layout.frame_shape is not None, "a learned reward needs frames"
    channels, height, width = replay.layout.frame_shape
    stacked = config.replay.frame_stack * channels
    return replace(config.reward.network, frame_channels=stacked, height=height, width=width)


def _memory(config: RunConfig, network: NetworkConfig, device: torch.device) -> FrameMemory | None:
    if config.reward.memory == 0:
        return None
    shape = network.frame_channels, network.height, network.width
    return FrameMemory(config.reward.memory, shape, device)
