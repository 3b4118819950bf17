# SPDX-License-Identifier: Apache-2.0
"""r_φ: learning, reported errors, held-out episodes, rejected annotations."""

from dataclasses import replace

import pytest
import torch

from pureward.adam import Adam
from pureward.errors import InputError
from pureward.rewards.annotations import split_by_episode
from pureward.rewards.config import RewardConfig, RewardModelConfig
from pureward.rewards.regression import Pass, RewardModel

STILL = {"learning_rate": 2e-3, "batch_size": 16}


def config_of(network, **fit) -> RewardConfig:
    return RewardConfig(network=network, model=RewardModelConfig(**fit))


def annotated(scenes, episodes: int = 8, length: int = 12, seed: int = 0):
    frames, rewards = scenes(episodes * length, seed)
    return frames, rewards, torch.arange(episodes).repeat_interleave(length)


def test_paper_defaults():
    assert RewardModelConfig().learning_rate == 1e-4


def test_fit_learns_and_reports_true_errors(small_network, scenes):
    frames, rewards, episodes = annotated(scenes)
    model = RewardModel(config_of(small_network, epochs=12, **STILL))
    seen: list[Pass] = []
    report = model.fit(frames, rewards, episodes=episodes, progress=seen.append)
    assert tuple(seen) == report.passes
    assert [p.epoch for p in seen] == list(range(1, 13))
    assert seen[-1].fitting_error < 0.3 * seen[0].fitting_error
    train, held_out = split_by_episode(len(frames), episodes, 0.1)
    by_hand = (model.predict(frames[train]) - rewards[train]).square().mean()
    assert report.train_error == pytest.approx(float(by_hand), rel=1e-4)
    assert report.train_error < 0.25 * float(rewards.var())
    held = (model.predict(frames[held_out]) - rewards[held_out]).square().mean()
    assert report.held_out_error == pytest.approx(float(held), rel=1e-4)
    assert seen[-1].held_out_error == pytest.approx(float(held), rel=1e-4)


def test_the_step_size_decays_along_half_a_cosine_and_returns(small_network, scenes, monkeypatch):
    frames, rewards, _ = annotated(scenes, 4, 8)  # 32 frames: two batches a pass
    rates = []
    monkeypatch.setattr(Adam, "set_rate", lambda _, rate: rates.append(rate))
    config = RewardConfig(
        network=small_network, model=RewardModelConfig(epochs=2, decay=True, **STILL)
    )
    RewardModel(config).fit(frames, rewards)
    half = 2**-0.5  # cos 45°
    assert rates == pytest.approx([2e-3, 1e-3 * (1 + half), 1e-3, 1e-3 * (1 - half), 2e-3])


def test_set_rate_applies_to_the_next_step(small_network, scenes):
    frames, rewards, _ = annotated(scenes, 2)
    model = RewardModel(config_of(small_network, **STILL))
    before = model.networks[0].head.weight.clone()
    model.optimizers[0].set_rate(0.0)
    model.update(frames, rewards)
    assert torch.equal(model.networks[0].head.weight, before)
    model.optimizers[0].set_rate(1e-3)
    model.update(frames, rewards)
    assert not torch.equal(model.networks[0].head.weight, before)


def test_split_keeps_episodes_whole():
    episodes = torch.tensor([3, 3, 7, 7, 7, 1, 1, 9, 9, 4])
    train, held_out = split_by_episode(10, episodes, 0.4)
    assert len(train) + len(held_out) == 10
    assert not set(episodes[train].tolist()) & set(episodes[held_out].tolist())
    assert len(set(episodes[held_out].tolist())) == 2
    again = split_by_episode(10, episodes, 0.4)
    assert torch.equal(train, again[0])


@pytest.mark.parametrize(
    ("episodes", "share", "held"), [(2, 0.9, 1), (3, 0.1, 1), (10, 0.25, 2), (10, 0.99, 9)]
)
def test_at_least_one_episode_on_each_side_of_the_split(episodes, share, held):
    numbers = torch.arange(episodes).repeat_interleave(3)
    train, held_out = split_by_episode(len(numbers), numbers, share)
    assert (len(train), len(held_out)) == (3 * (episodes - held), 3 * held)
    # The same ones at every fit, of earlier runs too.
    order = torch.randperm(episodes, generator=torch.Generator().manual_seed(0))
    assert set(numbers[held_out].tolist()) == set(order[:held].tolist())


def test_without_episodes_nothing_is_held_out(small_network, scenes):
    frames, rewards, _ = annotated(scenes, 2)
    report = RewardModel(config_of(small_network, epochs=1, **STILL)).fit(frames, rewards)
    assert report.held_out_error is None
    assert report.passes[0].held_out_error is None


def test_early_stopping_keeps_the_best_epoch(small_network, scenes):
    frames, _, episodes = annotated(scenes, 4)
    noise = torch.rand(len(frames), generator=torch.Generator().manual_seed(1))
    config = RewardConfig(
        network=small_network,
        model=RewardModelConfig(
            epochs=30, held_out=0.5, patience=2, **STILL | {"learning_rate": 9e-3}
        ),
    )
    model = RewardModel(config)
    report = model.fit(frames, noise, episodes=episodes)  # nothing to learn: it must stop
    errors = [p.held_out_error for p in report.passes]
    best = report.kept_epochs[0]
    assert len(errors) < 30
    assert len(errors) == best + 2
    assert errors[best - 1] == min(errors)
    assert report.held_out_error == pytest.approx(errors[best - 1], rel=1e-4)


def test_ensemble_members_differ_and_the_prediction_is_their_minimum(small_network, scenes):
    frames, rewards, _ = annotated(scenes, 2)
    config = config_of(small_network, epochs=1, **STILL)
    model = RewardModel(config, members=3, seed=4)
    report = model.fit(frames, rewards)
    assert [p.member for p in report.passes] == [0, 1, 2]
    each = model.member_predictions(frames)
    assert each.shape == (3, len(frames))
    assert (each[0] - each[1]).abs().max() > 1e-3
    assert torch.equal(model.predict(frames), each.min(0).values)
    repeated = RewardModel(config, members=3, seed=4)
    repeated.fit(frames, rewards)
    assert torch.equal(repeated.member_predictions(frames), each)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_captured_epoch_equals_an_eager_one(small_network, scenes):
    frames, rewards, _ = annotated(scenes)  # 96: six batches as a graph
    config = config_of(small_network, epochs=4, **STILL)
    captured, plain = (RewardModel(config, device="cuda", arithmetic="float32") for _ in range(2))
    plain._stepper = lambda member: lambda *batch: plain._step(member, *batch)
    one, two = captured.fit(frames, rewards), plain.fit(frames, rewards)
    assert one.train_error == pytest.approx(two.train_error, rel=0.05)
    assert one.train_error < 0.5 * float(rewards.var())


def test_incremental_update_lowers_the_error(small_network, scenes):
    frames, rewards, _ = annotated(scenes, 2)
    model = RewardModel(config_of(small_network, **STILL), members=2)
    errors = [float(model.update(frames, rewards - 0.5)["reward/error"]) for _ in range(25)]
    assert errors[-1] < 0.5 * errors[0]
    assert float(model.lowest) == pytest.approx(float((rewards - 0.5).min()))


def test_lowest_is_at_most_zero(small_network, scenes):
    frames, rewards, _ = annotated(scenes, 1)
    for shift, lowest in ((3.0, 0.0), (-3.0, float(rewards.min()) - 3.0)):
        model = RewardModel(config_of(small_network, epochs=1, **STILL))
        model.fit(frames, rewards + shift)
        assert float(model.lowest) == pytest.approx(lowest)


def test_bad_annotations_are_rejected(small_network, scenes):
    frames, rewards, episodes = annotated(scenes, 2)
    model = RewardModel(config_of(small_network, epochs=1, **STILL))
    poisoned = rewards.clone()
    poisoned[15] = float("nan")
    with pytest.raises(InputError, match=r"got nan at frame 15 \(episode 1\); drop or repair"):
        model.fit(frames, poisoned, episodes=episodes)
    with pytest.raises(InputError, match=r"rewards must be a tensor of shape \(24,\)"):
        model.fit(frames, rewards[:-1])
    with pytest.raises(InputError, match=r"episodes must be a tensor of shape \(24,\)"):
        model.fit(frames, rewards, episodes=episodes[:-1])
    with pytest.raises(InputError, match="must not be empty"):
        model.fit(frames[:0], rewards[:0])
    with pytest.raises(InputError, match="at least 2, got 1; pass held_out=0"):
        model.fit(frames, rewards - 9.0, episodes=torch.zeros(24, dtype=torch.int64))
    assert model.lowest == 0
    with pytest.raises(InputError, match="frames must have shape"):
        model.fit(frames[:, :, :16], rewards)


def poisoned(rewards, value: float):
    spoiled = rewards.clone()
    spoiled[15] = value
    return spoiled


BAD_BATCHES = {
    "NaN": (lambda f, r: (f, poisoned(r, float("nan"))), "got nan at frame 15; drop or repair"),
    "infinity": (lambda f, r: (f, poisoned(r, float("inf"))), "got inf at frame 15"),
    "beyond float32": (lambda f, r: (f, poisoned(r.double(), 1e300)), r"got 1e\+300 at frame 15"),
    "column": (lambda f, r: (f, r[:, None]), r"shape \(24,\), one per frame, got \(24, 1\)"),
    "scalar": (lambda f, r: (f, r[0]), r"rewards must be a tensor of shape \(24,\), .* got \(\)"),
    "short": (lambda f, r: (f, r[:-1]), r"rewards must be a tensor of shape \(24,\)"),
    "empty": (lambda f, r: (f[:0], r[:0]), "annotated frames must not be empty"),
    "no rewards": (lambda f, r: (f, None), "rewards must be a tensor .* got NoneType"),
    "list": (lambda f, r: (f, r.tolist()), "rewards must be a tensor .* got list; wrap them in"),
    "numpy": (lambda f, r: (f.numpy(), r.numpy()), "frames must be a tensor .* got ndarray"),
    "floats": (lambda f, r: (f / 255, r), "frames must be uint8 from 0 to 255, got float32"),
    "small": (lambda f, r: (f[:, :, :16], r), r"frames must have shape \(batch, 3, 32, 32\)"),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_fit_and_update_reject_bad_batches(name, small_network, scenes):
    spoil, sentence = BAD_BATCHES[name]
    frames, rewards, _ = annotated(scenes, 2)
    model = RewardModel(config_of(small_network, epochs=1, **STILL))
    before = model.predict(frames)
    for learn in (model.fit, model.update):
        with pytest.raises(InputError, match=sentence):
            learn(*spoil(frames, rewards))
    assert torch.equal(model.predict(frames), before)
    assert model.lowest == 0


def test_episodes_must_be_a_tensor(small_network, scenes):
    frames, rewards, episodes = annotated(scenes, 2)
    model = RewardModel(config_of(small_network, epochs=1, **STILL))
    with pytest.raises(InputError, match="episodes must be a tensor .* got list"):
        model.fit(frames, rewards, episodes=episodes.tolist())


def test_only_uint8_frames_are_predicted(small_network, scenes):
    frames, _, _ = annotated(scenes, 1)
    model = RewardModel(RewardConfig(network=small_network), members=2)
    with pytest.raises(InputError, match="frames must be uint8 from 0 to 255, got float32"):
        model.predict(frames.float())


def test_missing_devices_are_rejected(small_network):
    with pytest.raises(InputError, match="device 'cuda:99' cannot compute here"):
        RewardModel(RewardConfig(network=small_network), device="cuda:99")


def test_rewards_with_gradients_are_not_changed(small_network, scenes):
    frames, values = scenes(8, 0)[:2]
    rewards = values.float().requires_grad_()
    model = RewardModel(config_of(small_network, epochs=1))
    model.fit(frames, rewards)
    model.update(frames, rewards)
    assert rewards.grad is None


def test_invalid_seeds_are_rejected(small_network):
    with pytest.raises(InputError, match="seed must be a whole number, got 1.5"):
        RewardModel(RewardConfig(network=small_network), seed=1.5)


def test_an_ensemble_accepts_every_valid_seed(small_network):
    config = RewardConfig(network=small_network)
    assert len(RewardModel(config, members=5, seed=2**53 - 1).networks) == 5
    with pytest.raises(InputError, match=r"seed must lie between -2\^53 and 2\^53"):
        RewardModel(config, members=5, seed=2**53)


def test_bad_settings_are_rejected(small_network, scenes):
    for change in (
        {"epochs": 0}, {"batch_size": 0}, {"learning_rate": 2.0},
        {"held_out": 1.0}, {"patience": 0},
    ):  # fmt: skip
        with pytest.raises(InputError):
            RewardModelConfig(**change)
    for members in (0, "3"):
        sentence = f"members must be a whole number from 1 to 64, got {members!r}"
        with pytest.raises(InputError, match=sentence):
            RewardModel(RewardConfig(network=small_network), members=members)
    with pytest.raises(InputError, match="config must be a RewardConfig, got int"):
        RewardModel(3)
    frames, rewards, _ = annotated(scenes, 1)
    model = RewardModel(config_of(small_network, patience=1, **STILL))
    with pytest.raises(InputError, match="patience needs held-out episodes"):
        model.fit(frames, rewards)


def test_new_annotations_only_lower_lowest(small_network, scenes):
    model = RewardModel(RewardConfig(network=small_network))
    frames, _ = scenes(3, seed=0)
    lowest = []
    for rewards in ([0.5, 1.0, 2.0], [-3.0, 1.0, 0.0], [4.0, -1.0, 5.0]):
        model.update(frames, torch.tensor(rewards))
        lowest.append(float(model.lowest))
    assert lowest == [0.0, -3.0, -3.0]


def still(network, *, dropout: float = 0.0, rate: float = 1e-12, **rest) -> RewardModel:
    """A model with a tiny step size, on whole frames."""
    config = RewardConfig(
        network=replace(network, dropout=dropout),
        model=RewardModelConfig(learning_rate=rate, **rest),
    )
    return RewardModel(config)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_dropout_in_updates_only(dropout, small_network, scenes):
    model = still(small_network, dropout=dropout)
    frames, rewards = scenes(16, seed=0)
    stored = model.error(frames, rewards, torch.arange(16))
    learned_from = float(model.update(frames, rewards)["reward/error"])
    assert (learned_from == pytest.approx(stored, abs=1e-6)) == (dropout == 0.0)


def test_a_step_uses_the_gradient_of_its_batch(small_network, scenes):
    model = still(small_network)
    network = model.networks[0]
    frames, rewards = scenes(8, seed=0)
    model.update(frames, rewards)
    model.update(frames, 3.0 + rewards)
    loss = (network(frames) - (3.0 + rewards)).square().mean()
    (expected,) = torch.autograd.grad(loss, [network.head.weight])
    torch.testing.assert_close(network.head.weight.grad, expected, rtol=1e-3, atol=1e-6)


def test_the_error_of_an_epoch_is_the_mean_over_its_frames(small_network, scenes):
    """Seven frames in batches of four and three, of a model with a tiny step size."""
    model = still(small_network, batch_size=4, epochs=2)
    frames, rewards = scenes(7, seed=0)
    rewards[:3] += 2.0
    report = model.fit(frames, rewards)
    expected = float((model.predict(frames) - rewards).square().mean())
    errors = [done.fitting_error for done in report.passes]
    assert errors == pytest.approx([expected, expected], rel=1e-4)
    assert report.train_error == pytest.approx(expected, rel=1e-4)


def test_a_fit_depends_on_its_seed_only(small_network, scenes):
    frames, rewards = scenes(12, seed=0)
    heads = []
    for global_seed in (1, 2):
        torch.manual_seed(global_seed)
        model = still(small_network, dropout=0.5, rate=1e-3, batch_size=4, epochs=1)
        model.fit(frames, rewards)
        heads.append(model.networks[0].head.weight.detach().clone())
    assert torch.equal(*heads)
