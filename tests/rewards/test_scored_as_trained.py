# SPDX-License-Identifier: Apache-2.0
"""Frames are scored at the scale of training."""

from dataclasses import replace

import pytest
import torch

from pureward.diagnostics.probe import Probes
from pureward.diagnostics.verdict import MISMATCH, find_verdict
from pureward.rewards.config import RewardConfig, RewardModelConfig
from pureward.rewards.discriminator import Discriminator
from pureward.rewards.learned import LearnedReward, RewardSpec
from pureward.rewards.network import NetworkConfig
from pureward.rewards.regression import RewardModel
from pureward.rewards.view import View

VIEWS = {"window": View(flip=False), "shifts": View(flip=False, crop=1.0)}


def discs(count: int, radius: float, seed: int) -> torch.Tensor:
    """Bright discs of one radius at random places on dark noise, (count, 3, 32, 32)."""
    rng = torch.Generator().manual_seed(seed)
    frames = torch.randint(0, 40, (count, 3, 32, 32), dtype=torch.uint8, generator=rng)
    centre = 8 + 16 * torch.rand(count, 2, 1, 1, generator=rng)
    rows = torch.arange(32).view(1, 32, 1) - centre[:, 0]
    columns = torch.arange(32).view(1, 1, 32) - centre[:, 1]
    inside = (rows.square() + columns.square()).sqrt() < radius
    frames += 180 * inside.unsqueeze(1).to(torch.uint8)
    return frames


def trained(view: View) -> LearnedReward:
    """A gated reward that separates large discs (1) from small ones (0) by scale."""
    network = NetworkConfig(
        height=32, width=32, stage_channels=(4, 4), stage_blocks=0, dropout=0.0, view=view
    )
    config = RewardConfig(network=network, learning_rate=1e-2, even=True)
    discriminator = Discriminator(config, prior=0.1, seed=0)
    large, small = discs(128, 7.0, 1), discs(128, 4.0, 2)
    frames, rewards = torch.cat([large, small]), torch.cat([torch.ones(128), torch.zeros(128)])
    model = RewardModel(
        RewardConfig(
            network=network, model=RewardModelConfig(learning_rate=3e-3, batch_size=32, epochs=4)
        )
    )
    model.fit(frames, rewards)
    rng = torch.Generator().manual_seed(3)
    for _ in range(100):
        some = torch.randint(128, (16,), generator=rng)
        discriminator.update(large[some], small[some])
    spec = RewardSpec(reward="gated", network=network, members=1)
    return LearnedReward(spec, discriminator=discriminator.network, members=model.networks)


@pytest.mark.parametrize("name", VIEWS)
def test_trained_frames_score_as_in_training(name):
    reward = trained(VIEWS[name])
    measured = Probes({"train": discs(128, 7.0, 1), "failure": discs(128, 4.0, 2)}).measure(reward)
    assert measured["mean/train"] - measured["mean/failure"] > 0.2, "it has learned something"
    for part in ("mean", "predicted"):
        assert abs(measured[f"{part}/as_trained"] - measured[f"{part}/train"]) < MISMATCH


def test_members_of_an_ensemble_see_the_same_random_views():
    """Three equal members are one: the minimum over three views would be lower."""
    one = trained(VIEWS["window"]).members
    network, large = one[0].config, discs(16, 7.0, 1)
    alone, thrice = (
        LearnedReward(
            RewardSpec(reward="regression", network=network, members=len(members)),
            discriminator=None,
            members=members,
        ).predicted(large, torch.Generator().manual_seed(0))
        for members in (one, one * 3)
    )
    assert torch.equal(alone, thrice)


def test_scoring_whole_frames_after_training_on_windows_is_reported():
    """As in version 0.1: a window in training, the whole frame in scoring."""
    reward = trained(replace(VIEWS["window"], crop=0.4))
    large = discs(128, 7.0, 1)
    right = Probes({"train": large}).measure(reward)
    assert reward.discriminator is not None
    whole = reward.discriminator(large).sigmoid().mean().item()
    assert abs(whole - right["mean/as_trained"]) > MISMATCH
    rows = [{"kind": "probe", "step": 1, **right, "mean/train": whole}]
    verdict = find_verdict(rows, method="nn-purl")
    assert verdict.name == "view mismatch"
    assert f"{whole:.2f} in scoring" in verdict.sentence
    assert find_verdict([rows[0] | right], method="nn-purl").name != "view mismatch"
