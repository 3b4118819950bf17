"""A run that takes a second, for tests to stop, kill and spoil."""

import os
import signal
from dataclasses import replace

import torch

import pureward
from pureward.agents.d4pg.agent import D4PGConfig
from pureward.data.replay.replay import ReplayConfig
from pureward.online import online_reward
from pureward.rewards.config import RewardConfig, RewardModelConfig
from pureward.rewards.network import NetworkConfig
from pureward.runs import checkpoint

SMALL = D4PGConfig(actor_layers=(16,), critic_layers=(16,), atoms=11)
SMALL_REWARD = RewardConfig(
    batch=4,
    network=NetworkConfig(stage_channels=(2, 2), stage_blocks=0),
    model=RewardModelConfig(epochs=1, batch_size=128),
    labels="cached",
    refreshed=3,
)
# A reward that learns from bright shapes within seconds.
ONLINE_REWARD = replace(
    online_reward.SMALL,
    learning_rate=3e-3,
    batch=16,
    memory=0,
    network=replace(online_reward.SMALL.network, stage_channels=(4, 8)),
)


def tiny(out, **changes) -> pureward.RunConfig:
    config = pureward.RunConfig(
        task="reach",
        device="cpu",
        out=str(out),
        worlds=4,
        env_steps=480,
        warmup_steps=40,
        updates_per_step=1,
        batch=16,
        replay=ReplayConfig(capacity=400),
        agent=SMALL,
        log_every=40,
        evaluate_every=240,
        evaluate_episodes=2,
        checkpoint_every=80,
        snapshot_every=120,
    )
    return replace(config, **changes)


def train_tiny(out: str, die_in_write: int = 0, **changes) -> None:
    """Train it in a process of its own; kill the process inside its N-th checkpoint write.

    Args:
        out: folder of the run.
        die_in_write: N; 0 for never.
        changes: of its settings.
    """
    torch.set_num_threads(1)
    whole, count = checkpoint.write_tensors, iter(range(1, 10**9))

    def half(path, tensors):
        whole(path, tensors)
        if next(count) == die_in_write:
            os.truncate(path, path.stat().st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    checkpoint.write_tensors = half
    pureward.train(tiny(out, **changes))
