"""Collecting demonstrations, stages of training and failures, and the dataset's card."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from PIL import Image

import pureward
from point_env import PointEnv
from pureward.data.dataset import read_dataset
from pureward.data.draw import draw
from pureward.data.episodes import FAILURE, HELD_OUT, TRAIN
from pureward.envs.divergence import DivergenceMonitor
from pureward.envs.makers import name_of
from pureward.errors import InputError, SimulationError
from pureward.runs.collect import _with_failures, collect, rollout
from pureward.runs.policy import load_policy, snapshots
from pureward.training.evaluate import evaluate
from pureward.training.supervision import load_supervision
from tiny import tiny


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "reach"
    pureward.train(tiny(path, env_steps=240))
    return path


@pytest.fixture(scope="module")
def demonstrations(run, tmp_path_factory):
    out = tmp_path_factory.mktemp("data") / "demos"
    return collect("reach", run, out, episodes=4, held_out=2, failures=3, device="cpu")


def test_demonstrations_are_episodes_of_the_last_policy(run, demonstrations):
    dataset = read_dataset(demonstrations.path)
    last = snapshots(run)[-1].stem
    kinds = [(name, len(dataset.split(name))) for name in (TRAIN, HELD_OUT, FAILURE)]
    assert kinds == [(TRAIN, 4), (HELD_OUT, 2), (FAILURE, 3)]
    assert {e.policy for e in dataset.split(TRAIN) + dataset.split(HELD_OUT)} == {last}
    starts = torch.stack([e.state[0] for e in dataset.split(TRAIN) + dataset.split(HELD_OUT)])
    assert len(starts.unique(dim=0)) == 6  # no episode is in both splits


def diverge(monkeypatch, *worlds):
    """Let the nth world diverge in step n of the first environment; None: no world."""
    find, left, first = DivergenceMonitor.find, list(worlds), []

    def damaged(self, engine, observed):
        first.append(self)
        if self is first[0] and left and (world := left.pop(0)) is not None:
            engine.state.qpos[world] = float("nan")
        return find(self, engine, observed)

    monkeypatch.setattr(DivergenceMonitor, "find", damaged)


def test_an_episode_whose_simulation_diverges_is_played_again(
    run, demonstrations, tmp_path, monkeypatch
):
    diverge(monkeypatch, 1, 4)
    collect("reach", run, tmp_path / "demos", episodes=4, held_out=2, failures=3, device="cpu")
    found, whole = read_dataset(tmp_path / "demos"), read_dataset(demonstrations.path)
    assert [e.split for e in found] == [e.split for e in whole]
    assert [len(e) for e in found] == [len(e) for e in whole]
    same = [torch.equal(a.state, b.state) for a, b in zip(found, whole, strict=True)]
    assert same[:6] == [True, False, True, True, False, True]


def test_a_world_that_diverges_in_its_last_step_plays_again(run, monkeypatch):
    env = pureward.make("reach", 3, "cpu")
    diverge(monkeypatch, *[None] * (env.horizon - 1), 1)
    found = rollout(env, load_policy(run).act)
    assert env.diverged == 1
    assert [len(e) for e in found] == [env.horizon] * 3
    assert found[1].state[-1].any(), "the state after a divergence is 0"


def test_a_simulation_that_diverges_in_all_episodes_is_one_error(run, tmp_path, monkeypatch):
    diverge(monkeypatch, 0, 1)
    out = tmp_path / "demos"
    with pytest.raises(SimulationError, match="diverged in all 2 episodes"):
        collect("reach", run, out, episodes=2, held_out=0, failures=0, device="cpu")
    assert not out.exists()


def test_the_policy_is_greedy_and_rewards_are_of_the_task(run):
    policy = load_policy(run)
    env = pureward.make("reach", 3, "cpu")
    env.seed(5)
    episodes = rollout(env, policy.act)
    evaluation = evaluate(env, policy.act, seed=5)
    assert torch.allclose(torch.stack([e.rewards.sum() for e in episodes]), evaluation.returns)
    for episode in episodes:
        # Not bit-identical: the order of summation depends on the number of rows.
        torch.testing.assert_close(policy.act(episode.state[:-1]).detach(), episode.actions)


def test_failures_never_succeed_and_come_from_several_policies(demonstrations):
    failures = read_dataset(demonstrations.path).split(FAILURE)
    assert not any(episode.success.any() for episode in failures)
    assert len({episode.policy for episode in failures}) > 1


def test_policies_take_turns_in_the_failures(demonstrations):
    one = read_dataset(demonstrations.path).split(FAILURE)[0]
    solved = replace(one, success=torch.ones_like(one.success))
    candidates = [replace(one, policy=name) for name in "aaab"] + [replace(solved, policy="c")]
    assert [e.policy for e in _with_failures(candidates, 3)] == ["b", "a", "a"]
    assert len(_with_failures(candidates, 10)) == 4


def test_stages_span_all_of_training(run, tmp_path):
    out = tmp_path / "stages"
    collect("reach", run, out, episodes=6, held_out=2, failures=0, stages=True, device="cpu")
    dataset = read_dataset(out)
    saved = [path.stem for path in snapshots(run)]
    assert len(saved) >= 3
    trained = [episode.policy for episode in dataset.split(TRAIN)]
    assert sorted(set(trained)) == saved
    assert trained == sorted(trained)
    counts = [trained.count(policy) for policy in saved]
    assert max(counts) - min(counts) <= 1
    assert [e.policy for e in dataset.split(HELD_OUT)] == [saved[0], saved[-1]]
    assert dataset.split(FAILURE) == []


@pytest.mark.parametrize("stages", [False, True])
def test_nothing_is_held_out_by_request(run, tmp_path, stages):
    out = tmp_path / "set"
    counts = {"episodes": 1, "held_out": 0, "failures": 0}
    made = collect("reach", run, out, **counts, stages=stages, device="cpu")
    assert {name: split["episodes"] for name, split in made.splits.items()} == {TRAIN: 1}
    assert len(read_dataset(out).episodes) == 1


def test_a_seed_determines_the_episodes_and_stored_frames_equal_drawn_ones(run, tmp_path):
    settings = {"episodes": 2, "held_out": 0, "failures": 0, "device": "cpu", "seed": 3}
    collect("reach", run, tmp_path / "states", **settings)
    collect("reach", run, tmp_path / "frames", **settings, frames=True)
    drawn = draw(read_dataset(tmp_path / "states").episodes, "reach")
    stored = read_dataset(tmp_path / "frames", frame_shape=(3, 64, 64)).episodes
    for one, other in zip(drawn, stored, strict=True):
        assert torch.equal(one.frames, other.frames)
        assert torch.equal(one.rewards, other.rewards)


def test_initial_states_differ_from_those_of_training_with_the_same_seed(run, tmp_path):
    out = tmp_path / "set"
    collect("reach", run, out, episodes=4, held_out=0, failures=0, seed=0, device="cpu")
    collected = torch.stack([episode.state[0] for episode in read_dataset(out).episodes])
    trained = pureward.make("reach", 4, "cpu", seed=0).reset().state
    assert not torch.isclose(collected[:, None], trained[None]).all(dim=2).any()


def test_the_card_describes_the_dataset(demonstrations):
    card = json.loads((demonstrations.path / "card.json").read_text())
    train = read_dataset(demonstrations.path).split(TRAIN)
    split = card["splits"]["train"]
    assert card["task"] == "reach"
    assert card["frames"] == "drawn on load from stored states"
    assert card["renderer"] == "rasterizer"
    assert card["splits"] == demonstrations.splits
    assert (split["episodes"], split["steps"]) == (4, 400)
    assert split["return_max"] == pytest.approx(max(float(e.rewards.sum()) for e in train))
    assert split["with_success"] == sum(bool(e.success.any()) for e in train)
    assert split["success_share"] == torch.stack([e.success for e in train]).double().mean()
    assert sum(split["policies"].values()) == 4
    with Image.open(demonstrations.path / "sheet.png") as sheet:
        assert sheet.height > 8 * 128  # three, two and three episodes, a row each


@pytest.mark.parametrize("frames", [False, True])
def test_a_dataset_larger_than_the_free_disk_is_refused(run, tmp_path, monkeypatch, frames):
    free = 1_000_000 if frames else 10_000  # enough for states, not for frames
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    with pytest.raises(InputError, match=r"needs up to .* while it is written, and .* free"):
        collect("reach", run, tmp_path / "new" / "data", episodes=2, frames=frames, device="cpu")
    assert list((tmp_path / "new").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_refused_first(run, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr("pureward.runs.collect.rollout", lambda *_: pytest.fail("played"))
    monkeypatch.setattr("pureward.runs.collect.load_policy", lambda *_: pytest.fail("read"))
    with pytest.raises(pureward.InputError, match="must be a folder that can be written, .*file"):
        collect("reach", run, tmp_path / "file" / "data", episodes=2, device="cpu")


@pytest.mark.parametrize(
    ("kind", "batches", "failed"),
    [
        ("Silent", [7], 0),  # nothing is known to fail
        ("Half", [7, 8], 3),
        ("Easy", [7, 8], 0),
    ],
)
def test_a_gymnasium_environment_plays_few_episodes_to_find_failures(
    kind, batches, failed, tmp_path, monkeypatch
):
    """Random actions and three policies: one episode of each; if they succeed, two more of each."""
    played = []
    name = f"point_env:{kind}"
    pureward.train(tiny(tmp_path / "run", task=name, env_steps=240, evaluate_every=0))
    monkeypatch.setattr(
        "pureward.runs.collect.rollout",
        lambda env, act: played.append(env.worlds) or rollout(env, act),
    )
    counts = {"episodes": 2, "held_out": 1, "failures": 3}
    made = collect(name, tmp_path / "run", tmp_path / "data", **counts, device="cpu")
    assert len(snapshots(tmp_path / "run")) == 3
    assert played == batches
    assert made.splits.get(FAILURE, {"episodes": 0})["episodes"] == failed
    told = [episode.success is not None for episode in read_dataset(tmp_path / "data").episodes]
    assert set(told) == {kind != "Silent"}


class TwoCameras(PointEnv):
    """Its observation has two images."""

    def __init__(self):
        super().__init__("rgb_array")
        image = spaces.Box(0, 255, (96, 96, 3), np.uint8)
        self.observation_space = spaces.Dict(place=self.observation_space, left=image, right=image)

    def reset(self, *, seed=None, options=None):
        place, info = super().reset(seed=seed)
        return self._seen(place), info

    def step(self, action):
        place, *others = super().step(action)
        return self._seen(place), *others

    def _seen(self, place):
        return {"place": place, "left": self.render(), "right": 255 - self.render()}


@pytest.mark.parametrize(("stored", "asked"), [("left,right", "right,left"), ("left", "right")])
def test_a_run_refuses_other_images_than_those_that_were_collected(stored, asked, tmp_path):
    run, data, name = tmp_path / "run", tmp_path / "data", name_of(TwoCameras)
    config = tiny(run, task=name, frames=stored, state="place", env_steps=40, evaluate_every=0)
    pureward.train(config)
    collect(name, run, data, episodes=1, held_out=0, failures=0, device="cpu")
    config = replace(config, method="nn-pugail", demonstrations=str(data))
    with config.make_env(1, "cpu", cameras=True) as env:
        assert load_supervision(config, env).images == tuple(stored.split(","))
        with pytest.raises(InputError, match=f"got --frames {asked} and {stored} in"):
            load_supervision(replace(config, frames=asked), env)


def test_bad_arguments_are_refused(run, demonstrations, tmp_path):
    new, link = tmp_path / "new", tmp_path / "link"
    link.symlink_to("nowhere")
    for sentence, arguments in {
        "exists already": ("reach", run, demonstrations.path),
        "link exists already": ("reach", run, link),
        "trained on 'reach', not on 'walker'": ("walker", run, new),
        "unknown task 'fly'": ("fly", run, new),
    }.items():
        with pytest.raises(pureward.InputError, match=sentence):
            collect(*arguments)
    with pytest.raises(pureward.InputError, match="episodes must be a whole number from 1, got 0"):
        collect("reach", run, new, episodes=0)
    with pytest.raises(pureward.InputError, match="failures must be a whole number from 0, got -1"):
        collect("reach", run, new, failures=-1)
    with pytest.raises(pureward.InputError, match="held_out must be a whole number .* got '3'"):
        collect("reach", run, new, held_out="3")
    with pytest.raises(pureward.InputError):
        collect("reach", tmp_path / "nowhere", new)
    assert not new.exists()
