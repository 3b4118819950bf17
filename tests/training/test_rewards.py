# SPDX-License-Identifier: Apache-2.0
"""The parts of a run's reward have the settings of the run and of its method."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from pureward.data.frames import FrameBank
from pureward.data.replay.replay import Replay
from pureward.errors import InputError
from pureward.online.learner import RewardLearner
from pureward.online.supervision import Supervision
from pureward.purl import Purl
from pureward.relabel import CachedLabels, FreshLabels, Labels, TaskLabels
from pureward.rewards.methods import METHODS
from pureward.rewards.network import NetworkConfig
from pureward.rewards.view import View
from pureward.runs.config import RunConfig
from pureward.training.reward import build_labels, build_reward_learner
from tiny import SMALL_REWARD, tiny

SHAPE = (3, 32, 32)
SEEN = replace(NetworkConfig(stage_channels=(2, 2), stage_blocks=0), height=32, width=32)


def bank(*rewards: float) -> FrameBank:
    """One episode whose frame t has all pixels t."""
    shades = torch.arange(len(rewards) + 1, dtype=torch.uint8).view(-1, 1, 1, 1)
    frames = shades.expand(-1, *SHAPE).contiguous()
    episode = SimpleNamespace(frames=frames, rewards=torch.tensor(rewards))
    return FrameBank([episode])  # type: ignore[list-item]


def replay_of(config: RunConfig) -> Replay:
    """An empty replay of four worlds."""
    return Replay(
        config.replay, worlds=4, horizon=9, state_size=1, action_size=1, frame_shape=SHAPE
    )


def built(
    method: str,
    *rewards: float,
    run: dict | None = None,
    failures: bool = False,
    view: View | None = None,
    terminates: bool = False,
    **settings,
) -> RewardLearner:
    """The reward of a run on positives with rewards, or with 0 and 1."""
    needs = METHODS[method].positives
    assert needs is not None
    network = replace(SMALL_REWARD.network, view=view or View())
    reward = replace(SMALL_REWARD, network=network, **settings)
    run = {needs: "X", "failures": "Y" if failures else ""} | (run or {})
    config = tiny("runs/none", method=method, reward=reward, **run)
    data = Supervision(train=bank(*(rewards or (0.0, 1.0))), held_out=None, failures=None)
    known = bank(0.0, 0.0) if failures else None
    return build_reward_learner(config, replay_of(config), data, known, terminates=terminates)


def adversary(reward: RewardLearner):
    assert reward.adversary is not None
    return reward.adversary


def joined(reward: RewardLearner | None) -> Purl:
    """Algorithm 1 with a reward and without an agent."""
    learned = reward.learned if reward else None
    parts: dict = dict.fromkeys(("agent", "replay", "labels", "generator"))
    return Purl(**parts, batch=1, learned=learned)


def test_d_has_the_settings_of_the_run():
    view = View(crop=0.9)
    given = {"learning_rate": 2e-4, "slack": 0.3, "loss": "sigmoid", "even": True}
    opponent = adversary(built("nn-purl", run={"prior": "0.3"}, view=view, batch=7, **given))
    config = opponent.discriminator.config
    assert {name: getattr(config, name) for name in given} == given
    assert config.network == replace(SEEN, view=view)
    assert float(opponent.discriminator.prior) == pytest.approx(0.3)
    assert opponent.batch == 7


@pytest.mark.parametrize("method", ["gail", "gail-noreg"])
def test_only_gail_noreg_has_no_augmentation(method):
    config = adversary(built(method)).discriminator.config
    regularised = method == "gail"
    assert config.network.view == (View() if regularised else View.off())
    assert config.network.dropout == (0.5 if regularised else 0.0)


def test_a_reward_model_has_the_settings_of_the_run_and_the_members_of_its_method():
    fit = replace(SMALL_REWARD.model, learning_rate=3e-4, epochs=2)
    for method, members in (("prl", 1), ("prl-ensemble", 5), ("nn-purl", 1)):
        model = built(method, model=fit, view=View(crop=0.7)).model
        assert model is not None
        assert model.config == fit
        assert [n.config for n in model.networks] == [replace(SEEN, view=View(crop=0.7))] * members


def test_ensemble_members_start_from_different_weights():
    model = built("prl-ensemble").model
    assert model is not None
    heads = torch.stack([network.head.weight for network in model.networks])
    assert len(heads.unique(dim=0)) == 5


@pytest.mark.parametrize(
    ("method", "rewards", "lowest"),
    [
        ("nn-purl", (-2.0, 1.0), -2.0),
        ("nn-purl", (0.5, 1.0), 0.0),
        ("nn-pugail", (-2.0, 1.0), 0.0),
    ],
)
def test_a_gate_counts_from_the_lowest_annotated_reward_below_zero(method, rewards, lowest):
    gate = built(method, *rewards).learned
    assert gate.spec.lowest == gate.zero == lowest


def test_ceiling_and_threshold_by_method():
    reward = built("nn-pugail", ceiling=0.8)
    imitated = joined(reward)
    assert reward.learned.spec.ceiling == imitated.ceiling == 0.8
    assert imitated.threshold == pytest.approx(math.log(2))  # −log(1 − ½)
    for other in (joined(built("nn-purl", ceiling=0.8)), joined(None)):
        assert (other.ceiling, other.threshold) == (math.inf, 0.0)


def labels(reward: RewardLearner | None, kind: str) -> Labels:
    """The labels of a run with this setting."""
    config = tiny("runs/none", reward=replace(SMALL_REWARD, labels=kind))
    return build_labels(config, replay_of(config), reward)


def test_labels_and_memory_follow_the_settings():
    assert isinstance(labels(built("nn-purl"), "fresh"), FreshLabels)
    assert isinstance(labels(built("nn-purl"), "cached"), CachedLabels)
    assert isinstance(labels(None, "cached"), TaskLabels)
    assert adversary(built("nn-pugail")).memory is None
    opponent = adversary(built("nn-purl", memory=5))
    assert opponent.memory is not None
    assert opponent.memory.sample(2, torch.Generator()).shape == (2, *SHAPE)


def test_known_failures_go_to_d():
    assert adversary(built("nn-pugail")).failures is None
    assert adversary(built("nn-pugail", failures=True, risk="nnpnu")).failures is not None


def test_the_reward_model_fits_the_annotated_rewards():
    """Sixty passes over a constant reward of 3 bring predictions there from about 0."""
    fit = replace(SMALL_REWARD.model, learning_rate=1e-2, epochs=60, held_out=0.0)
    reward = built("prl", *[3.0] * 8, model=fit, view=View.off())
    passes: list = []
    report = reward.fit(passes.append)
    assert report is not None
    assert len(passes) == 60
    assert report.train_error < 0.5 < passes[0].fitting_error
    assert built("nn-pugail").fit(passes.append) is None


def test_imitation_has_an_absorbing_state_where_episodes_terminate():
    reward = built("gail", terminates=True)
    absorbing_reward = joined(reward).absorbing_reward
    assert absorbing_reward is not None
    black = torch.zeros(1, *SHAPE, dtype=torch.uint8)
    assert torch.equal(absorbing_reward(), reward.learned(black))
    assert adversary(reward).absorbing is reward.absorbing is not None
    for other in (
        built("gail"),
        built("gail", terminates=True, absorbing=False),
        built("pnrl", terminates=True),
    ):
        assert joined(other).absorbing_reward is None
        assert adversary(other).absorbing is None


def test_an_absorbing_state_needs_a_discount_below_one():
    replay = replace(tiny("runs/none").replay, discount=1.0)
    with pytest.raises(InputError, match="discount below 1"):
        built("gail", terminates=True, run={"replay": replay})
    for method in ("prl", "pnrl", "nn-purl"):  # have no absorbing state
        built(method, terminates=True, run={"replay": replay, "prior": ""})
