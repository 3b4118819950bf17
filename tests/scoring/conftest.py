"""Small rewards that tell frames apart."""

from pathlib import Path

import pytest
import torch

from pureward.rewards.learned import LearnedReward, RewardSpec
from pureward.rewards.network import NetworkConfig, seeded_network
from pureward.rewards.saved import save_reward

CPU = torch.device("cpu")


@pytest.fixture
def a_reward(tmp_path):
    """Makes and saves a reward; returns its folder and the reward itself."""

    def make(kind="gated", channels=3, **changes) -> tuple[Path, LearnedReward]:
        network = NetworkConfig(
            frame_channels=channels, height=32, width=32, stage_channels=(4, 8), stage_blocks=0
        )
        members = 0 if kind == "imitation" else 1
        spec = RewardSpec(reward=kind, network=network, members=members, **changes)
        made = [seeded_network(network, seed, CPU) for seed in range(2)]
        for net in made:  # otherwise all rewards are nearly 0
            net.head.weight.data.mul_(30)
        reward = LearnedReward(
            spec,
            discriminator=made[0] if spec.has_discriminator else None,
            members=made[1 : 1 + members],
        )
        folder = tmp_path / f"reward-{kind}-{channels}"
        save_reward(reward, folder)
        return folder, reward

    return make
