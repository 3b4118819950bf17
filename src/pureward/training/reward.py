# SPDX-License-Identifier: Apache-2.0
"""The reward of a run: the task's own, or a learned one with the labels of the replay."""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from pureward.data.frames import FrameBank
from pureward.data.replay.memory import FrameMemory
from pureward.data.replay.replay import Replay
from pureward.envs import BatchEnv
from pureward.errors import InputError
from pureward.online.learner import RewardLearner
from pureward.online.supervision import Supervision
from pureward.purl import Adversary
from pureward.relabel import CachedLabels, FreshLabels, Labels, TaskLabels
from pureward.rewards.learned import LearnedReward
from pureward.rewards.methods import METHODS
from pureward.runs.config import RunConfig
from pureward.training.supervision import load_failures, load_supervision
from pureward.types import Step


class RunReward:
    """The task's own reward, or a learned one that scores the steps of the replay."""

    def __init__(
        self,
        config: RunConfig,
        replay: Replay,
        data: Supervision | None = None,
        failures: FrameBank | None = None,
        *,
        terminates: bool = False,
    ) -> None:
        """Build the networks.

        Args:
            config: of the run.
            replay: the agent's steps.
            data: positives, and frames for probes; None for the task's own reward.
            failures: known failures to train on, or None.
            terminates: whether episodes may end before their time limit.
        """
        self.learner: RewardLearner | None = None
        self.learned: LearnedReward | None = None
        self.adversary: Adversary | None = None
        self.labels: Labels = TaskLabels()
        self.ceiling, self.threshold = math.inf, 0.0
        self.absorbing_reward: Callable[[], Tensor] | None = None
        if data is None:
            return
        settings, layout = config.reward, replay.layout
        absorbing = None
        imitates = METHODS[config.method].reward == "imitation"
        if imitates and terminates and settings.absorbing:
            if config.replay.discount == 1:
                raise InputError(
                    "absorbing states need replay.discount below 1, got 1; lower it, or turn them "
                    "off with --reward.no-absorbing"
                )
            absorbing = data.absorbing(layout.horizon, recent=layout.steps, worlds=layout.worlds)
        self.learner = RewardLearner(
            settings,
            data,
            replay,
            method=config.method,
            prior=config.prior or None,
            failures=failures,
            absorbing=absorbing,
            warmup_steps=config.warmup_steps,
            probe_frames=config.probe_frames,
            seed=config.seed,
        )
        self.learned, self.adversary = self.learner.learned, self.learner.adversary
        if self.learner.absorbing is not None:
            self.absorbing_reward = self.learned.absorbing_reward
        if imitates:
            self.ceiling, self.threshold = settings.ceiling, math.log(2)  # −log(1 − ½)
        if settings.labels == "fresh":
            self.labels = FreshLabels(self.learned, replay)
        else:
            self.labels = CachedLabels(self.learned, replay, refreshed=settings.refreshed)

    def arrive(self, step: Step) -> None:
        """Count the episodes that a new step ends."""
        if self.learner and self.learner.absorbing:
            self.learner.absorbing.arrive(step.terminated, step.terminated | step.truncated)

    def end_episodes(self) -> None:
        """Leave out the episodes that are under way: the next step begins new ones."""
        if self.learner and self.learner.absorbing:
            self.learner.absorbing.end_episodes()

    def trained(self) -> list[Tensor]:
        """Return the tensors that an update of the discriminator changes."""
        return self.learner.trained() if self.learner else []

    def generators(self) -> list[torch.Generator]:
        """Return the generators that the discriminator draws from."""
        return self.learner.generators() if self.learner else []

    @property
    def memory(self) -> FrameMemory | None:
        """The sample of all past agent frames, if D uses one."""
        return self.adversary.memory if self.adversary else None

    def step_tensors(self) -> dict[str, Tensor]:
        """Return what is stored per agent step outside the replay: frame memory and scores."""
        memory = {} if self.memory is None else self.memory.tensors()
        frames = {f"memory.{name}": value for name, value in memory.items()}
        return frames | {f"labels.{name}": value for name, value in self.labels.tensors().items()}

    def tensors(self) -> dict[str, Tensor]:
        """Return the state for a checkpoint, without `step_tensors`."""
        return self.learner.tensors() if self.learner else {}

    def load_tensors(self, saved: Mapping[str, Tensor]) -> None:
        """Load what `tensors` returned, in place."""
        if self.learner:
            self.learner.load_tensors(saved)


def build_reward(config: RunConfig, env: BatchEnv, replay: Replay) -> RunReward:
    """Build the reward of a run's method; reads its data."""
    if METHODS[config.method].reward == "truth":
        return RunReward(config, replay)
    data = load_supervision(config, env)
    return RunReward(config, replay, data, load_failures(config, env), terminates=env.terminates)
