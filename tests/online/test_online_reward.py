# SPDX-License-Identifier: Apache-2.0
"""A reward that learns from observed frames: bright squares are successes, dark ones are not."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pureward import OnlineReward, load_reward
from pureward.data.episodes import Episode, split_by_share
from pureward.errors import InputError, TrainingError
from pureward.online.online_reward import frames_of
from pureward.pixels import to_frames
from pureward.rewards.network import NETWORKS, ResidualCNN
from tiny import ONLINE_REWARD

CONFIG = ONLINE_REWARD


def square(place: int, count: int = 1, *, seed: int = 0) -> np.ndarray:
    """Images with a square at a place, uint8 (count, 64, 64, 3), with noise."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 40, (count, 64, 64, 3))
    images[:, 20:40, place : place + 20] += 180
    return images.astype(np.uint8)


def demonstrations(count: int = 20) -> list[np.ndarray]:
    return [square(40, 6, seed=k) for k in range(count)]


def small_demonstrations(count: int = 20, held_out: float = 0.2) -> list[Episode]:
    """The same in frames of 32×32, for which learning takes a quarter of the time."""
    splits = split_by_share(count, held_out)
    frames = [to_frames(images, size=(32, 32)) for images in demonstrations(count)]
    return [
        Episode(frames=each, rewards=torch.zeros(5), split=split)
        for each, split in zip(frames, splits, strict=True)
    ]


def observed(reward: OnlineReward, place: int, steps: int, *, seed: int = 100, length: int = 5):
    for t in range(steps):
        over = (t + 1) % length == 0
        reward.observe(square(place, 4, seed=seed + t), [over] * 4)


def test_it_learns_to_pay_for_successes_alone():
    reward = OnlineReward(small_demonstrations(), config=CONFIG, device="cpu", prior=0.3)
    assert reward.learn() == {}, "nothing was observed yet"
    observed(reward, 4, 20)
    observed(reward, 40, 10, seed=500)  # a third of the agent's frames are successes
    for _ in range(4):
        metrics = reward.learn(10)
    assert reward.updates == 40
    assert metrics["prior"] == pytest.approx(0.3)
    good, bad = reward(square(40, 8, seed=7)), reward(square(4, 8, seed=8))
    assert good.dtype == torch.float32
    assert good.shape == (8,)
    assert float(good.mean()) > float(bad.mean()) + 0.3
    verdict = reward.verdict()
    assert verdict.name == "healthy", verdict
    assert verdict.numbers["mean/held_out"] > verdict.numbers["mean/replay"] + 0.3


def test_a_reward_that_has_not_learned_is_undecided_and_says_why(tmp_path, capsys):
    reward = OnlineReward(small_demonstrations(), config=CONFIG, device="cpu", prior=0.3)

    def verdict(start: str) -> None:
        assert str(reward.verdict()).startswith(f"undecided: {start} of the agent were observed;")

    verdict("D has made 0 updates, and 0 frames")
    reward.observe(square(4, 4), [False] * 4)
    assert reward.learn() == reward.learn() == {}
    told = "D learns from at least 16 observed frames, and there are 4, so nothing was updated;"
    assert capsys.readouterr().out.count(f"warning: {told}") == 1
    verdict("D has made 0 updates, and 4 frames")
    reward.save(tmp_path)
    told = f"warning: {tmp_path} holds a reward whose D has made no update; call learn, and save"
    assert told in capsys.readouterr().out
    observed(reward, 4, 20)
    reward.learn(40)
    assert reward.verdict().name == "healthy"
    reward.save(tmp_path)
    assert "warning" not in capsys.readouterr().out
    state = reward.state_dict()
    reward = OnlineReward(small_demonstrations(), config=CONFIG, device="cpu", prior=0.3)
    reward.load_state_dict(state)
    verdict("D has made 40 updates, and 0 frames")


def test_regression_needs_no_observed_frames(tmp_path, capsys):
    given = [(square(place, 9, seed=place), np.full(8, place / 40)) for place in range(0, 41, 8)]
    reward = OnlineReward(annotations=given, method="prl", config=CONFIG, device="cpu")
    assert reward.learn() == {}
    reward.save(tmp_path)
    assert "observed" not in reward.verdict().sentence
    assert "warning" not in capsys.readouterr().out


def test_it_learns_with_a_capacity_smaller_than_its_batch():
    small = {"capacity": CONFIG.batch - 1, "config": CONFIG, "device": "cpu", "prior": 0.3}
    reward = OnlineReward(small_demonstrations(), **small)
    observed(reward, 4, CONFIG.batch)
    assert reward.learn()


def test_a_metric_that_is_not_finite_is_an_error(monkeypatch):
    reward = OnlineReward(small_demonstrations(), config=CONFIG, device="cpu", prior=0.3)
    observed(reward, 4, 20)
    values = iter([1.0, float("inf")])
    update = lambda *_: {"loss": torch.tensor(next(values))}  # noqa: E731
    monkeypatch.setattr(reward.learner.discriminator, "update", update)
    with pytest.raises(TrainingError, match="^a metric of D is not finite; lower config.learning"):
        reward.learn(2)
    assert reward.updates == 0


def test_layouts_of_frames_are_the_same_reward():
    reward = OnlineReward(demonstrations(10), method="gail", config=CONFIG, device="cpu")
    images = square(30, 3)
    expected = reward(images)
    assert torch.equal(reward(torch.from_numpy(images)), expected)
    assert torch.equal(reward(images.transpose(0, 3, 1, 2)), expected)
    assert torch.equal(reward((images / 255.0).astype(np.float32)), expected)
    small = images[:, ::4, ::4]  # 16 pixels wide; 48 could be a number of channels as well
    wide = small.repeat(3, axis=1).repeat(3, axis=2)
    assert torch.equal(reward(wide.transpose(0, 3, 1, 2)), reward(wide))
    larger = images.repeat(2, axis=1).repeat(2, axis=2)
    torch.testing.assert_close(reward(larger), expected, atol=0.02, rtol=0)


def test_a_gated_reward_is_fitted_once_and_pays_annotated_rewards():
    annotated = [
        (square(place, 9, seed=place), np.full(8, place / 40)) for place in range(0, 41, 2)
    ]
    reward = OnlineReward(annotations=annotated, config=CONFIG, device="cpu", prior=0.5)
    assert reward.method == "nn-purl"
    observed(reward, 20, 20)
    reward.learn(4)
    learned = reward.learner.learned
    assert float(learned.predicted(frames_of(square(40, 4), learned)).mean()) > 0.6
    assert float(learned.predicted(frames_of(square(0, 4), learned)).mean()) < 0.4


def test_another_default_dtype_of_the_program_does_not_matter(tmp_path):
    rated = [(square(4, 3, seed=seed), np.ones(2)) for seed in range(4)]
    view = replace(CONFIG.network.view, hue=0.1)
    config = replace(CONFIG, network=replace(CONFIG.network, view=view))
    torch.set_default_dtype(torch.float64)
    try:
        reward = OnlineReward(annotations=rated, config=config, device="cpu", prior=0.5)
        observed(reward, 20, 8)
        assert reward.learn(1)
        assert reward(square(4, 3)).dtype == torch.float32
        reward.save(tmp_path)
    finally:
        torch.set_default_dtype(torch.float32)
    frames = frames_of(square(4, 3), reward.learner.learned)
    torch.testing.assert_close(load_reward(tmp_path)(frames), reward(frames))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_reward_model_is_fitted_by_a_first_call_without_gradients(mode):
    annotated = [(square(4, 3, seed=seed), np.ones(2)) for seed in range(4)]
    reward = OnlineReward(annotations=annotated, config=CONFIG, device="cpu", prior=0.5)
    with mode():
        assert reward(square(4, 3)).shape == (3,)
        observed(reward, 2, 20)
        assert reward.learn(1)


def test_frames_are_observed_inside_and_outside_of_inference_mode():
    reward = OnlineReward(
        small_demonstrations(), method="gail", config=CONFIG, device="cpu", horizon=9
    )
    with torch.inference_mode():
        reward.observe(torch.from_numpy(square(4, 2)), [False] * 2, [False] * 2)
        reward.restart(torch.tensor([True, False, False]))
    reward.observe(square(4, 3), [True] * 3, [True] * 3)
    assert len(reward.frames) == 5
    # Three worlds terminate at step 1 of 9, and five steps were observed.
    share = float(reward.learner.absorbing.agent_share)
    assert share == pytest.approx(24 / (24 + 5), abs=1e-3)


def test_a_saved_reward_and_a_saved_state_pay_the_same(tmp_path):
    first = OnlineReward(demonstrations(), config=CONFIG, device="cpu", prior=0.3)
    observed(first, 4, 10)
    first.learn(5)
    images = square(25, 3)
    first.save(tmp_path / "reward")
    loaded = load_reward(tmp_path / "reward", device="cpu")
    assert torch.equal(loaded(frames_of(images, loaded)), first(images))
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="a reward is saved as a folder, and .*file is a file;"):
        first.save(tmp_path / "file")
    for place in (tmp_path / "file" / "below", "/proc/reward"):
        with pytest.raises(
            InputError, match="^the folder .* of a reward cannot be made .*; choose"
        ):
            first.save(place)
    second = OnlineReward(demonstrations(), config=CONFIG, device="cpu", prior=0.3, seed=9)
    second.load_state_dict({name: value.clone() for name, value in first.state_dict().items()})
    assert torch.equal(second(images), first(images))
    for reward in (first, second):
        reward.frames.__init__(500, (3, 64, 64), torch.device("cpu"))
        observed(reward, 10, 8)
        reward.learn(3)
    assert torch.equal(second(images), first(images))


def test_a_state_with_absorbing_steps_continues_in_another_reward_and_is_not_changed():
    def made() -> OnlineReward:
        return OnlineReward(demonstrations(), config=CONFIG, device="cpu", prior=0.3, horizon=50)

    def observe(reward: OnlineReward, ended: bool) -> None:
        reward.observe(np.concatenate([square(4, 1)] * 2), [ended] * 2, [ended] * 2)

    first, second = made(), made()
    observe(first, False)
    state = {name: value.clone() for name, value in first.state_dict().items()}
    second.load_state_dict(state)
    kept = {name: value.clone() for name, value in state.items()}
    for reward in (first, second):
        observe(reward, False)
        observe(reward, True)
    ours, theirs = first.state_dict(), second.state_dict()
    for name in ("learner/absorbing/age", "learner/absorbing/counts"):
        assert torch.equal(ours[name], theirs[name])
        assert torch.equal(state[name], kept[name])


def test_eta_is_estimated_from_the_observed_frames(monkeypatch):
    monkeypatch.setattr("pureward.online.prior._FRAMES", 256)
    monkeypatch.setattr("pureward.online.online_reward._FIRST_ESTIMATE", 200)
    reward = OnlineReward(small_demonstrations(40, held_out=0.5), config=CONFIG, device="cpu")
    rng = np.random.default_rng(0)
    for t in range(48):
        places = [40 if rng.random() < 0.5 else 4 for _ in range(8)]
        frames = np.concatenate([square(p, seed=1000 * t + k) for k, p in enumerate(places)])
        reward.observe(frames, [True] * 8)
        if t >= 16 and t % 4 == 0:
            metrics = reward.learn(8)
    assert 0.3 < metrics["prior"] < 0.7, metrics


def test_a_terminal_step_is_paid_for_the_absorbing_state(tmp_path):
    """Demonstrations end at step 5 of 20 and the agent never: ending is worth more than living."""
    reward = OnlineReward(demonstrations(), config=CONFIG, device="cpu", method="gail", horizon=20)
    for t in range(30):
        reward.observe(square(40, 4, seed=100 + t), [t % 20 == 19] * 4, [False] * 4)
    reward.learn(30)
    absorbed = float(reward.learner.learned.absorbing_reward())
    assert absorbed > float(reward(square(40, 16, seed=3)).mean())
    assert reward.terminal_reward(0.9) == pytest.approx(9 * absorbed)
    reward.save(tmp_path)
    frozen = load_reward(tmp_path)
    assert frozen.terminal_reward(0.9) == pytest.approx(9 * absorbed, rel=1e-5)
    lived = float(frozen(frames_of(square(40, 16, seed=3), frozen)).mean())
    assert lived + frozen.terminal_reward(0.9) > lived / (1 - 0.9) > lived  # else it would live on
    plain = OnlineReward(demonstrations(), config=CONFIG, device="cpu", method="gail")
    assert plain.terminal_reward(0.9) == 0.0


def test_an_estimate_waits_if_frames_of_too_few_episodes_are_sampled(monkeypatch):
    """Of the fifth episode there is one frame, which a sample may lack."""
    monkeypatch.setattr("pureward.online.prior._FRAMES", 16)
    reward = OnlineReward(
        small_demonstrations(30), config=CONFIG, device="cpu", prior="bbe", capacity=21
    )
    for t in range(21):
        reward.observe(square(4), [(t + 1) % 5 == 0])
    found = [set(reward.learn(1)) & {"prior", "prior/value"} for _ in range(8)]
    assert found[0] == {"prior"}, "the first sample has none"
    assert {"prior", "prior/value"} in found


def test_an_estimate_without_a_frame_of_a_short_episode_is_refused_at_the_start():
    """Of five held-out episodes one has a single frame; a sample of 2,048 of 8,001 lacks it."""
    long = [Episode(frames=torch.zeros(2001, 3, 32, 32).byte(), rewards=torch.zeros(2000))] * 4
    short = Episode(frames=torch.zeros(2, 3, 32, 32).byte(), rewards=torch.zeros(1))
    held_out = [replace(each, split="held-out") for each in (short, *long)]
    sentence = "5 held-out episodes, and the positives have 4 in a sample of 2,048 frames"
    with pytest.raises(InputError, match=sentence):
        OnlineReward(
            small_demonstrations(5, 0.0) + held_out, config=CONFIG, device="cpu", prior="bbe"
        )


def test_frames_of_the_memory_are_unlabeled_too():
    reward = OnlineReward(
        demonstrations(), config=replace(CONFIG, memory=50), device="cpu", prior=0.3, capacity=16
    )
    observed(reward, 4, 40)
    memory = reward.learner.adversary.memory
    assert int(memory.tensors()["offered"]) == 40
    assert len(reward.frames) == 16


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": "truth"}, "learned"),
        ({"method": "nn-purl"}, "takes no demonstrations"),
        ({"demonstrations": None}, "needs demonstrations"),
        ({"demonstrations": []}, "at least one episode"),
        ({"demonstrations": [np.zeros((3, 64, 64, 7), np.uint8)]}, "channels"),
        ({"demonstrations": [np.zeros((3, 64, 64, 3), np.int64)]}, "uint8"),
        ({"prior": "bbe", "demonstrations": demonstrations(2)}, "held-out"),
        (
            {"prior": "bbe", "demonstrations": demonstrations(2)},
            r"raise --held-out \(in Python held_",
        ),
        (
            {"demonstrations": demonstrations(1)[0]},
            r"demonstrations must be a list .* \(6, 64, 64, 3",
        ),
        (
            {"demonstrations": (square(4, 3), np.ones(2))},
            "demonstrations must be a list with the im",
        ),
        ({"prior": 1.5}, "1.5"),
        ({"horizon": 0}, "horizon must be a whole number above 0, got 0"),
        ({"horizon": "20"}, "horizon must be a whole number above 0, got '20'"),
        ({"capacity": 0}, "capacity must be"),
        ({"config": {"batch": 8}}, "config must be a RewardConfig, got dict"),
        ({"stack": 2000}, "stack must be a whole number from 1 to 341, got 2000"),
    ],
)
def test_bad_input_is_one_sentence(changes, words):
    given = {"demonstrations": demonstrations(), "config": CONFIG, "device": "cpu"} | changes
    with pytest.raises(InputError, match=words):
        OnlineReward(given.pop("demonstrations"), **given)


def test_frames_and_flags_must_fit():
    reward = OnlineReward(demonstrations(), config=CONFIG, device="cpu", prior=0.3, horizon=9)
    rule = "frames must have 3 channels like those of the reward, one RGB image, got 6; stack"
    for show in (reward, lambda images: reward.observe(images, [True] * 2)):
        with pytest.raises(InputError, match=f"^{rule}"):
            show(np.zeros((2, 64, 64, 6), np.uint8))
    with pytest.raises(InputError, match="one flag per frame"):
        reward.observe(square(4, 3), [True] * 2)
    with pytest.raises(InputError, match="terminated"):
        reward.observe(square(4, 3), [True] * 3)
    with pytest.raises(InputError, match=r"got one of shape \(64, 64, 3\); pass image\["):
        reward(square(4, 3)[0])
    for nothing in (None, [None, None]):
        with pytest.raises(InputError, match="got None; make the environment with render_mode="):
            reward(nothing)
    assert torch.equal(reward(list(square(4, 3))), reward(square(4, 3)))
    with pytest.raises(InputError, match="discount"):
        reward.terminal_reward(1.0)
    with pytest.raises(InputError, match=r"discount must lie in \[0, 1\), got 'a'"):
        reward.terminal_reward("a")
    with pytest.raises(InputError, match=r"updates must be a whole number, got 1\.5"):
        reward.learn(1.5)


@pytest.mark.parametrize("flags", [None, "yes", ["a"] * 3, {}, [[True], [True, False]]])
def test_flags_that_are_none_are_told_in_a_sentence(flags):
    reward = OnlineReward(demonstrations(), config=CONFIG, device="cpu", prior=0.3)
    with pytest.raises(InputError, match="^ended must be True or False for each world, got "):
        reward.observe(square(4, 3), flags)
    with pytest.raises(InputError, match="^worlds must be True or False for each world, got "):
        reward.restart(flags)


def test_worlds_that_were_only_reset_are_left_out():
    reward = OnlineReward(demonstrations(), config=CONFIG, device="cpu", prior=0.3, horizon=9)
    first, second = square(4, 2, seed=1), square(30, 2, seed=2)
    reward.observe(first, [True, False], [True, False])
    reward.observe(second, [False, False], [False, False], stepped=[False, True])
    reward.observe(second, [False, False], [False, False], stepped=[False, False])
    reward.observe(second, [False, False], [False, False])
    assert reward.frames.observed == len(reward.frames) == 5
    assert torch.equal(reward.frames._frames[2], frames_of(second, reward.learner.learned)[1])
    episodes = reward.frames.episodes(torch.arange(5)).tolist()
    assert episodes[1] == episodes[2] == episodes[4]
    assert len(set(episodes)) == 3
    absorbing = reward.learner.absorbing
    assert absorbing._age.tolist() == [1, 3]
    # Terminated at step 1 of 9: eight absorbing steps beside five others.
    assert float(absorbing.agent_share) == pytest.approx(8 / 13, rel=1e-3)


@pytest.mark.parametrize("horizon", [None, 9])
def test_another_number_of_worlds_begins_new_episodes(horizon):
    given = {"config": CONFIG, "device": "cpu", "prior": 0.3, "horizon": horizon}
    reward = OnlineReward(demonstrations(), **given)
    for worlds in (4, 5, 5):
        reward.observe(square(4, worlds), [False] * worlds, [False] * worlds)
    first, second, third = reward.frames.episodes(torch.arange(14)).split([4, 5, 5])
    assert len({*first.tolist(), *second.tolist()}) == 9
    assert torch.equal(second, third)
    if horizon:
        assert reward.learner.absorbing._age.tolist() == [2] * 5


def test_worlds_that_were_reset_before_an_end_begin_other_episodes():
    reward = OnlineReward(demonstrations(), config=CONFIG, device="cpu", prior=0.3, horizon=9)
    reward.restart([True, True])  # before anything was observed
    frames, none = square(4, 2, seed=1), [False, False]
    reward.observe(frames, none, none)
    reward.restart([True, False])
    reward.observe(frames, none, none)
    first, second, third, fourth = reward.frames.episodes(torch.arange(4)).tolist()
    assert second == fourth
    assert len({first, second, third}) == 3
    assert reward.learner.absorbing._age.tolist() == [1, 2]


def test_a_state_with_a_negative_number_of_steps_is_refused():
    reward = OnlineReward(demonstrations(), config=CONFIG, device="cpu", prior=0.3)
    state = {name: value.clone() for name, value in reward.state_dict().items()}
    (name, *_) = (n for n, v in state.items() if "trained." in n and v.dim() == 0)
    state[name].fill_(-1)
    with pytest.raises(InputError, match="optimizer steps must be at least 0, got -1"):
        reward.load_state_dict(state)


@pytest.mark.parametrize("saved", ["sd.pt", None, {"updates": 3}])
def test_what_is_no_state_is_refused(saved):
    reward = OnlineReward(demonstrations(), config=CONFIG, device="cpu", prior=0.3)
    with pytest.raises(InputError, match="^a state must be the tensors that state_dict returned, "):
        reward.load_state_dict(saved)


def test_a_state_of_other_settings_is_refused_and_nothing_changes():
    reward = OnlineReward(demonstrations(), config=CONFIG, device="cpu", prior=0.3)
    before = reward(square(4, 3))
    wide = replace(CONFIG, network=replace(CONFIG.network, stage_channels=(6, 12)))
    others = [{"config": wide}, {"config": CONFIG, "horizon": 9}]
    made = [OnlineReward(demonstrations(), prior=0.3, device="cpu", **other) for other in others]
    for saved in (*(reward.state_dict() for reward in made), {}):
        with pytest.raises(InputError, match="same data and settings, and .* differs; build"):
            reward.load_state_dict(saved)
    assert torch.equal(reward(square(4, 3)), before)


class Tempered(ResidualCNN):
    """A network with a weight that is one number, which may be negative."""

    fused = False

    def __init__(self, config):
        super().__init__(config)
        self.temperature = torch.nn.Parameter(torch.tensor(-1.0))

    def embed(self, frames):
        return super().embed(frames) * self.temperature


def test_only_step_counts_of_a_state_must_not_be_negative(monkeypatch):
    monkeypatch.setitem(NETWORKS, "tempered", Tempered)
    config = replace(CONFIG, network=replace(CONFIG.network, kind="tempered"))
    reward = OnlineReward(small_demonstrations(), config=config, device="cpu", prior=0.3)
    observed(reward, 4, 5)
    reward.learn(2)
    state = {name: value.clone() for name, value in reward.state_dict().items()}
    reward.load_state_dict(state)
    trained = {name: value for name, value in state.items() if "trained" in name}
    counts = [name for name, value in trained.items() if value.shape == () and value == 2.0]
    assert len(counts) == len(trained) / 4  # weights, step counts and two moments
    for name in (counts[0], counts[-1]):
        with pytest.raises(InputError, match="optimizer steps must be at least 0, got -1; restore"):
            reward.load_state_dict(state | {name: torch.tensor(-1.0)})
