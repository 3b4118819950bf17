"""Probes: shares and means by hand, and the same frames each time."""

import math

import pytest
import torch
from torch import Tensor, nn

from pureward.diagnostics.probe import Probes
from pureward.errors import InputError
from pureward.rewards.learned import LearnedReward, RewardSpec
from pureward.rewards.network import NetworkConfig, ResidualCNN
from pureward.rewards.view import View

SHAPE = NetworkConfig(height=32, width=32, view=View.off())


class Brightness(ResidualCNN):
    """A network whose output is the first pixel, from −1 (black) to 1 (white)."""

    def __init__(self):
        super().__init__(SHAPE)
        self.shift = nn.Parameter(torch.zeros(()))

    def embed(self, frames: Tensor) -> Tensor:
        return frames[:, 0, 0, 0].float() / 255

    def read_out(self, features: Tensor, generator=None) -> Tensor:
        return 2 * features - 1 + self.shift


def reward(kind: str) -> LearnedReward:
    members = [] if kind == "imitation" else [Brightness()]
    spec = RewardSpec(reward=kind, network=SHAPE, members=len(members))
    net = None if kind == "regression" else Brightness()
    return LearnedReward(spec, discriminator=net, members=members)


def frames(*pixels: int) -> Tensor:
    made = torch.zeros(len(pixels), 3, 32, 32, dtype=torch.uint8)
    made[:] = torch.tensor(pixels, dtype=torch.uint8).view(-1, 1, 1, 1)
    return made


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_shares_and_means_of_every_source():
    probes = Probes({"train": frames(255, 255, 255, 0), "failure": frames(0, 0)})
    found = probes.measure(reward("gated"), frames(255, 0), frames(255))
    high, low = sigmoid(1), sigmoid(-1)
    assert found == pytest.approx(
        {
            "success/train": 0.75,
            "mean/train": (3 * high + low) / 4,
            "predicted/train": 0.5,
            "success/failure": 0.0,
            "mean/failure": low,
            "predicted/failure": -1.0,
            "success/replay": 0.5,
            "mean/replay": 0.5,
            "predicted/replay": 0.0,
            "success/solved": 1.0,
            "mean/solved": high,
            "predicted/solved": 1.0,
            "mean/as_trained": (3 * high + low) / 4,
            "predicted/as_trained": 0.5,
        },
        abs=1e-6,
    )


def test_only_the_parts_of_a_reward_are_measured():
    probes = Probes({"held_out": frames(255)})
    assert set(probes.measure(reward("imitation"))) == {"success/held_out", "mean/held_out"}
    assert set(probes.measure(reward("regression"))) == {"predicted/held_out"}


def test_one_half_is_not_a_success():
    net = Brightness()
    net.shift.data.fill_(1.0)  # black is now logit 0, D = ½
    spec = RewardSpec(reward="imitation", network=SHAPE)
    found = Probes({"train": frames(0)}).measure(LearnedReward(spec, discriminator=net))
    assert found["success/train"] == 0.0
    assert found["mean/train"] == pytest.approx(0.5)


def test_sources_without_frames_are_absent():
    probes = Probes({"train": frames(255), "failure": frames()})
    found = probes.measure(reward("imitation"), frames())
    assert set(found) == {"success/train", "mean/train", "mean/as_trained"}
    assert Probes({}).measure(reward("imitation")) == {}


def test_a_source_of_another_name_is_refused():
    with pytest.raises(InputError, match="unknown sources"):
        Probes({"held-out": frames(1)})
