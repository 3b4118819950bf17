"""A run on a Gymnasium environment has everything that a run has."""

import json
import re
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium.vector import SyncVectorEnv

import pureward
from point_env import PointEnv
from pureward.cli import main
from pureward.data.dataset import read_dataset
from pureward.data.writing import write_episodes
from pureward.envs import make
from pureward.errors import InputError
from pureward.runs import checkpoint
from pureward.runs.collect import rollout
from pureward.runs.directory import RunDirectory
from pureward.runs.log import read_metrics
from pureward.runs.policy import load_policy
from pureward.training.guide import Guide
from pureward.training.run import Run
from pureward.training.supervision import load_supervision
from ticks import HORIZON, Ticks
from tiny import SMALL_REWARD, tiny

NAME = "point_env:PointEnv"


@pytest.fixture(scope="module", autouse=True)
def _short_evaluations():
    """Evaluations last for the horizon, also if every episode has ended."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pureward.envs.gymnasium_env.DEFAULT_HORIZON", 20)
        yield


@pytest.fixture(scope="module")
def demonstrations(tmp_path_factory):
    """Episodes of a policy that goes to the middle."""
    folder = tmp_path_factory.mktemp("point")
    with make(NAME, 8, "cpu", cameras=True) as env:
        env.horizon = 10
        episodes = rollout(env, lambda state: -3.0 * state)
    assert {len(episode) for episode in episodes} != {10}, "episodes end when the point is there"
    split = [replace(e, split="held-out" if i % 2 else "train") for i, e in enumerate(episodes)]
    write_episodes(folder, split, task=NAME)
    return folder


def test_a_reward_is_learned_and_the_run_resumed_evaluated_probed_and_shown(
    demonstrations, tmp_path, capsys
):
    out = tmp_path / "run"
    config = tiny(
        out, task=NAME, method="nn-pugail", prior="0.3", demonstrations=str(demonstrations),
        env_steps=80, save_replay=False, evaluate_every=40, probe_every=40, reward=SMALL_REWARD,
    )  # fmt: skip
    assert pureward.train(config).state == "finished"
    assert pureward.train(replace(config, env_steps=120), resume=True).env_steps == 120
    main(["evaluate", str(out), "--episodes", "2", "--device", "cpu"])
    main(["probe", str(out), "--episodes", "2", "--device", "cpu"])
    words = ["--out", str(tmp_path / "show"), "--worlds", "2", "--steps", "3", "--device", "cpu"]
    main(["show", str(out), *words])
    assert (tmp_path / "show/point_env-PointEnv.mp4").exists()
    assert json.loads((out / "status.json").read_text())["state"] == "finished"
    assert (out / "probe/evidence.png").exists()
    printed = capsys.readouterr().out
    assert "2 episodes" in printed
    assert f"over 3 steps, policy {out}" in printed
    pureward.probe(str(out), str(tmp_path / "probe"), episodes=1, device="cpu")
    assert (tmp_path / "probe/evidence.png").exists()
    counts = {"episodes": 1, "held_out": 0, "failures": 0}
    pureward.collect(NAME, str(out), str(tmp_path / "own"), device="cpu", **counts)
    assert len(read_dataset(tmp_path / "own")) == 1
    last = out / "snapshots/step-000000000120.safetensors"
    assert load_policy(str(out), str(last)).env_steps == 120


def test_a_resumed_run_does_not_join_episodes(tmp_path):
    """The environment cannot continue its episodes, so those in the replay are cut off."""
    config = tiny(tmp_path / "run", task=NAME, env_steps=44, warmup_steps=20, evaluate_every=0)
    pureward.train(config)
    directory = RunDirectory(tmp_path / "run")
    saved = checkpoint.read_newest(directory.checkpoints)
    with ExitStack() as stack:
        run = Run(replace(config, env_steps=60), directory, saved, stack)
        stack.enter_context(run.log)
        newest = run.learner.replay.newest_steps()
        before = run.learner.replay.episodes(newest)
        run.step()
        after = run.learner.replay.episodes(run.learner.replay.newest_steps())
        assert (after != before).all()


def test_a_resumed_run_does_not_begin_in_its_first_states_again(tmp_path):
    config = tiny(tmp_path / "run", task=NAME, env_steps=44, warmup_steps=20, evaluate_every=0)
    pureward.train(config)
    directory = RunDirectory(tmp_path / "run")
    begun = []
    for saved in (None, checkpoint.read_newest(directory.checkpoints)):
        with ExitStack() as stack:
            run = Run(replace(config, env_steps=60), directory, saved, stack)
            stack.enter_context(run.log)
            begun.append(torch.cat([run.obs.state, run.env.reset().state]))
    assert not torch.isin(*begun).any()


def test_a_resumed_run_counts_the_absorbing_steps_of_new_episodes(demonstrations, tmp_path):
    """Of an episode that was cut off nothing may be counted to the next one."""
    config = tiny(
        tmp_path / "run", task=NAME, method="gail", demonstrations=str(demonstrations),
        env_steps=44, warmup_steps=20, evaluate_every=0, reward=SMALL_REWARD,
    )  # fmt: skip
    pureward.train(config)
    directory = RunDirectory(tmp_path / "run")
    saved = checkpoint.read_newest(directory.checkpoints)
    assert saved.tensors["learner/reward/absorbing/age"].any()
    with ExitStack() as stack:
        run = Run(replace(config, env_steps=60), directory, saved, stack)
        stack.enter_context(run.log)
        assert not run.learner.reward.tensors()["absorbing/age"].any()
        run.step()
        assert run.learner.reward.tensors()["absorbing/age"].max() <= 1


def test_recordings_that_state_no_ends_terminate_before_the_time_limit(
    demonstrations, tmp_path, capsys
):
    """As in `OnlineReward`; otherwise D would take each end of the agent's for a failure."""
    learned = []
    for name, steps in (("stated", 0), ("short", 7), ("whole", 20)):
        data = tmp_path / name if steps else demonstrations
        if steps:
            data.mkdir()
            for number in range(2):
                frames = np.random.default_rng(number).integers(256, size=(steps + 1, 64, 64, 3))
                np.save(data / f"{number}.npy", frames.astype(np.uint8))
        config = tiny(
            tmp_path / "run", task=NAME, method="gail", demonstrations=str(data),
            reward=SMALL_REWARD,
        )  # fmt: skip
        with make(NAME, 2, "cpu", cameras=True) as env:
            learned.append(len(load_supervision(config, env).ends))
    assert learned == [4, 1, 0]
    told = "short does not state how its episodes end: 2 of 2 are shorter than the time limit of 20"
    printed = capsys.readouterr().out
    assert told in printed
    assert printed.count("does not state") == 1


@pytest.mark.parametrize("actors", [1, 0])
def test_images_in_the_policys_state_are_told_once(actors, tmp_path, capfd):
    config = tiny(tmp_path / "run", task="point_env:Watched", actors=actors, env_steps=80)
    assert pureward.train(config).state == "finished"
    said = capfd.readouterr().out  # that of the actor, too
    assert said.count("warning: the policy's state has 193 numbers, 192 of them of what") == 1


def vector_of_points(num_envs, render_mode=None):
    return SyncVectorEnv([lambda: PointEnv(render_mode)] * num_envs)  # resets in the next step


@pytest.mark.parametrize("given", [PointEnv("rgb_array"), vector_of_points])
def test_a_run_on_an_object_or_a_vector_environment(given, demonstrations, tmp_path):
    name, out = pureward.preset(given).task, tmp_path / "run"
    write_episodes(tmp_path / "data", read_dataset(demonstrations).episodes, task=name)
    config = tiny(
        out, task=name, method="gail", demonstrations=str(tmp_path / "data"), env_steps=80,
        save_replay=False, evaluate_every=0, reward=SMALL_REWARD,
    )  # fmt: skip
    assert pureward.train(config).state == "finished"
    assert pureward.evaluate(out, episodes=2, device="cpu")["episodes"] == 2
    assert pureward.load_reward(out).spec.absorbing


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("point_env:Nothing", "an environment is a task, gym:ID or MODULE:FUNCTION"),
        ("point_env:np", "TypeError: a module is not callable"),
    ],
)
def test_an_environment_that_is_not_there_is_told(name, told, tmp_path):
    with pytest.raises(InputError, match=told):
        pureward.train(tiny(tmp_path / "run", task=name))
    assert not (tmp_path / "run").exists()
    with pytest.raises(InputError, match="has no distractors"):
        tiny(tmp_path, task=NAME, distractors="cube")


class Scripted(Ticks):
    """Keeps `elapsed` in a new tensor each step, and has a script: (1, 1)."""

    last_move = 0

    def step(self, action):
        self.elapsed = self.elapsed.clone()
        return super().step(action)

    def script(self):
        return self

    def __call__(self, state=None):
        return torch.ones(self.worlds, 2)

    def tensors(self):
        return {}


def test_an_environment_may_have_a_script_that_guides(tmp_path, monkeypatch):
    monkeypatch.setitem(pureward.ENVIRONMENTS, "scripted", Scripted)
    monkeypatch.setitem(pureward.ENVIRONMENTS, "ticks", Ticks)
    config = tiny(tmp_path, task="scripted", guided=1.0, evaluate_every=0)
    assert pureward.train(config).state == "finished"
    with pytest.raises(InputError, match="ticks has no script"):
        pureward.train(replace(config, task="ticks", out=str(tmp_path / "ticks")))
    with Scripted(worlds=8, device="cpu", seed=0, cameras=False, stagger=False) as env:
        env.reset()
        guide = Guide(env, share=1.0, generator=torch.Generator().manual_seed(0))
        for _ in range(HORIZON // 2):  # the script has handed over by then
            env.step(zeros := torch.zeros(8, 2))
        late = env.elapsed >= HORIZON // 2
        assert late.any()
        assert not guide(zeros, zeros)[late].any()


def train_small(name, data, out, *words):
    """Train a small run on the command line; steps of all worlds: 120, checkpoints every 20."""
    small = {
        "prior": 0.3, "worlds": 2, "env-steps": 120, "warmup-steps": 20, "evaluate-every": 0,
        "evaluate-episodes": 1, "log-every": 20, "checkpoint-every": 20, "probe-every": 0,
        "updates-per-step": 1, "batch": 8, "replay.capacity": 400, "device": "cpu",
        "reward.batch": 4, "reward.memory": 0, "reward.refreshed": 2,
        "reward.network.stage-channels": "2 2", "reward.network.stage-blocks": 0,
        "agent.actor-layers": 16, "agent.critic-layers": 16,
    }  # fmt: skip
    options = [word for key, value in small.items() for word in (f"--{key}", *str(value).split())]
    main(["train", name, "--demonstrations", str(data), "--out", str(out), *options, *words])


def one_sentence(capsys):
    """The last line on stderr; before it there may be a progress bar."""
    printed = capsys.readouterr().err
    assert "Traceback" not in printed
    assert "Error:" not in printed.rpartition("pureward: ")[0]
    return printed.rpartition("\n")[0].rpartition("\n")[2]


@pytest.mark.parametrize(
    ("kind", "words", "told"),
    [
        (
            "Growing",
            [],
            r"changed the size of its frames from .*96, 96, 3.* to .*80, 96, 3",
        ),
        ("Lost", [], "returned a state with NaN or infinity; check its physics"),
        ("Priceless", [], "returned a reward of NaN or infinity; check it"),
        ("Hot", [], r"could not step \(RuntimeError: the motor is too hot\); try it alone"),
        ("Hot", ["--processes"], r"could not step \(RuntimeError: the motor is too hot\); try"),
        ("Mortal", ["--processes"], r"could not step \(\w+: the process of a world ended\); try"),
    ],
)
def test_what_goes_wrong_during_a_run_is_told_and_its_files_stay_whole(
    kind, words, told, demonstrations, tmp_path, capsys
):
    """Nothing goes wrong in the first 30 of 60 steps of a world, half of the run."""
    data, out = tmp_path / "data", tmp_path / "run"
    write_episodes(data, read_dataset(demonstrations).episodes, task=f"spoilt_env:{kind}")
    with pytest.raises(SystemExit) as stop:
        train_small(f"spoilt_env:{kind}", data, out, *words)
    assert stop.value.code == 1
    assert re.fullmatch(f"pureward: spoilt_env:{kind} {told}.*", one_sentence(capsys))
    status = json.loads((out / "status.json").read_text())
    assert status["state"] == "failed"
    assert re.search(told, status["error"])
    saved = checkpoint.read_newest(out / "checkpoints")
    assert saved is not None
    assert saved.facts["control_steps"] == 30
    assert pureward.load_reward(out).spec.reward == "imitation"
    assert load_policy(out).config.task == f"spoilt_env:{kind}"
    assert {row["step"] for row in read_metrics(out / "metrics.jsonl")} == {20, 40, 60}


@pytest.mark.parametrize(
    ("kind", "code", "told"),
    [
        ("Blind", 2, "spoilt_env:Blind rendered nothing; it must render with render_mode='rgb_"),
        ("Deaf", 1, "spoilt_env:Deaf could not be made .*; it must take render_mode="),
        ("Stepwise", 2, r"actions must be continuous .* Discrete\(3\); .*OnlineReward and its h"),
    ],
)
def test_an_environment_that_cannot_be_trained_is_told_and_begins_no_run(
    kind, code, told, demonstrations, tmp_path, capsys
):
    data, out = tmp_path / "data", tmp_path / "run"
    write_episodes(data, read_dataset(demonstrations).episodes, task=f"spoilt_env:{kind}")
    with pytest.raises(SystemExit) as stop:
        train_small(f"spoilt_env:{kind}", data, out)
    assert stop.value.code == code
    assert re.fullmatch(f"pureward: {told}.*", one_sentence(capsys))
    assert {path.name for path in out.iterdir()} == {"lock", "status.json"}


def test_demonstrations_of_another_size_are_told(demonstrations, tmp_path, capsys):
    """Two cameras in the data, one in the environment."""
    episodes = read_dataset(demonstrations).episodes
    two = [replace(e, frames=torch.cat([e.frames[:], e.frames[:]], dim=1)) for e in episodes]
    write_episodes(tmp_path / "data", two, task=NAME)
    with pytest.raises(SystemExit) as stop:
        train_small(NAME, tmp_path / "data", tmp_path / "run")
    assert stop.value.code == 2
    told = r"pureward: .*frames must .*\(3, 64, 64\).* got \(6, 64, 64\); .*"
    assert re.fullmatch(told, one_sentence(capsys))
    assert not (tmp_path / "run/config.json").exists()
