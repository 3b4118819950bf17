"""A run that takes a second, for tests to stop, kill and spoil.

    python tests/tiny.py DIRECTORY [--die-in-write N] [--env-steps N]

trains it in this process; `--die-in-write N` kills the process inside its N-th checkpoint write.
"""

import argparse
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
    network=NetworkConfig(stage_channels=(4, 4), stage_blocks=0),
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
        env_steps=800,
        warmup_steps=40,
        updates_per_step=1,
        batch=16,
        replay=ReplayConfig(capacity=400),
        agent=SMALL,
        log_every=40,
        evaluate_every=400,
        evaluate_episodes=2,
        checkpoint_every=80,
        snapshot_every=200,
    )
    return replace(config, **changes)


def die_in_write(which: int) -> None:
    """Kill this process halfway through writing the tensors of a checkpoint."""
    whole, count = checkpoint.write_tensors, iter(range(1, 10**9))

    def half(path, tensors):
        whole(path, tensors)
        if next(count) == which:
            os.truncate(path, path.stat().st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    checkpoint.write_tensors = half


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--die-in-write", type=int, default=0)
    parser.add_argument("--env-steps", type=int, default=800)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.die_in_write:
        die_in_write(args.die_in_write)
    pureward.train(tiny(args.out, env_steps=args.env_steps))


if __name__ == "__main__":
    main()
