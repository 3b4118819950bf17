# SPDX-License-Identifier: Apache-2.0
"""The reward of a run: the task's own, or a learned one, and the labels of the replay."""

from pureward.data.frames import FrameBank
from pureward.data.replay.replay import Replay
from pureward.envs import BatchEnv
from pureward.errors import InputError
from pureward.online.learner import RewardLearner
from pureward.online.supervision import Supervision
from pureward.relabel import CachedLabels, FreshLabels, Labels, TaskLabels
from pureward.rewards.methods import METHODS
from pureward.runs.config import RunConfig
from pureward.training.supervision import load_failures, load_supervision


def load_reward_learner(config: RunConfig, env: BatchEnv, replay: Replay) -> RewardLearner | None:
    """Read the data of a run and build its learned reward; None for the task's own reward."""
    if METHODS[config.method].reward == "truth":
        return None
    data = load_supervision(config, env)
    failures = load_failures(config, env, data)
    return build_reward_learner(config, replay, data, failures, terminates=env.terminates)


def build_reward_learner(
    config: RunConfig,
    replay: Replay,
    data: Supervision,
    failures: FrameBank | None = None,
    *,
    terminates: bool = False,
) -> RewardLearner:
    """Build the learned reward of a run.

    Args:
        config: of the run.
        replay: the agent's steps.
        data: positives, and frames for probes.
        failures: known failures to train on, or None.
        terminates: whether episodes may end before their time limit.
    """
    layout, absorbing = replay.layout, None
    imitates = METHODS[config.method].reward == "imitation"
    if imitates and terminates and config.reward.absorbing:
        if config.replay.discount == 1:
            raise InputError(
                "absorbing states need replay.discount below 1, got 1; lower it, or turn them "
                "off with --reward.no-absorbing"
            )
        absorbing = data.absorbing(layout.horizon, recent=layout.steps, worlds=layout.worlds)
    return RewardLearner(
        config.reward,
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


def build_labels(config: RunConfig, replay: Replay, reward: RewardLearner | None) -> Labels:
    """Return what gives the steps of a replay their rewards; None is the task's own reward."""
    if reward is None:
        return TaskLabels()
    if config.reward.labels == "fresh":
        return FreshLabels(reward.learned, replay)
    return CachedLabels(reward.learned, replay, refreshed=config.reward.refreshed)
