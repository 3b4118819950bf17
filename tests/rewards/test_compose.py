# SPDX-License-Identifier: Apache-2.0
"""Rewards from logits and predictions, by hand."""

from math import log

import pytest
import torch

from pureward.errors import InputError
from pureward.rewards.compose import ensemble_minimum, gated_reward, imitation_reward
from pureward.rewards.config import RewardConfig
from pureward.rewards.learned import RewardSpec

LN3 = log(3)


def test_imitation_reward_by_hand():
    # −log(1 − D): D = ½ gives ln 2, D = ¾ gives ln 4, D = ¼ gives ln 4/3.
    reward = imitation_reward(torch.tensor([0.0, LN3, -LN3]), ceiling=3.0)
    assert reward.tolist() == pytest.approx([log(2), log(4), log(4 / 3)])


def test_imitation_reward_is_stable_and_capped():
    logits = torch.tensor([-1e4, -30.0, 2.0, 1e4])
    reward = imitation_reward(logits, ceiling=1.5)
    assert reward.isfinite().all()
    assert reward.tolist() == pytest.approx([0.0, 9.357623e-14, 1.5, 1.5])
    assert imitation_reward(logits.bfloat16(), ceiling=1.5).dtype == torch.float32


def test_hard_gate_by_hand():
    logits = torch.tensor([0.1, -0.1, 0.0, 5.0])  # D = ½ exactly does not pass
    predicted = torch.tensor([0.7, 0.7, 0.7, 0.2])
    assert gated_reward(logits, predicted).tolist() == pytest.approx([0.7, 0.0, 0.0, 0.2])


def test_rewards_of_low_precision_inputs_are_float32():
    logits, predicted = torch.tensor([1.3, -0.7]).bfloat16(), torch.tensor([0.3, 0.9]).bfloat16()
    paid = gated_reward(logits, predicted)
    assert paid.dtype == torch.float32
    assert torch.equal(paid, gated_reward(logits.float(), predicted.float()))


def test_a_closed_gate_never_raises_the_reward():
    """Also with negative rewards."""
    predicted = torch.tensor([-2.0, -1.0, -0.5, 0.0, 1.0])
    shut = gated_reward(torch.full((5,), -9.0), predicted, lowest=-1.0)
    open_ = gated_reward(torch.full((5,), 9.0), predicted, lowest=-1.0)
    assert (open_ >= shut).all()
    assert (shut >= 0).all()
    assert open_.tolist() == [0.0, 0.0, 0.5, 1.0, 2.0]


def test_nan_predictions_do_not_pass_a_closed_gate():
    out = gated_reward(torch.tensor([-1.0, -1.0]), torch.tensor([float("nan"), float("inf")]))
    assert out.tolist() == [0.0, 0.0]


def test_minimum_of_an_ensemble():
    predictions = torch.tensor([[1.0, 5.0, 3.0], [2.0, 4.0, 3.5]])
    assert ensemble_minimum(predictions).tolist() == [1.0, 4.0, 3.0]


@pytest.mark.parametrize("ceiling", [0.0, -1.0, float("inf"), float("nan")])
def test_bad_ceiling(ceiling):
    with pytest.raises(InputError, match="ceiling must be (positive|a finite number)"):
        RewardSpec(reward="imitation", ceiling=ceiling)
    with pytest.raises(InputError, match="ceiling must be (positive|a finite number)"):
        RewardConfig(ceiling=ceiling)


def test_bad_lowest():
    with pytest.raises(InputError, match=r"lowest must be finite and at most 0, got 0\.5"):
        RewardSpec(reward="gated", members=1, lowest=0.5)
