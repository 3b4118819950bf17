"""A run on a Gymnasium environment has everything that a run has."""

import json
from dataclasses import replace

import pytest

import pureward
from pureward.cli import main
from pureward.data.writing import write_episodes
from pureward.envs import make
from pureward.errors import InputError
from pureward.runs.collect import rollout
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
        env_steps=160, save_replay=False, evaluate_every=80, probe_every=80, reward=SMALL_REWARD,
    )  # fmt: skip
    assert pureward.train(config).state == "finished"
    assert pureward.train(replace(config, env_steps=240), resume=True).env_steps == 240
    main(["evaluate", str(out), "--episodes", "2", "--device", "cpu"])
    main(["probe", str(out), "--episodes", "2", "--device", "cpu"])
    words = ["--out", str(tmp_path / "show"), "--worlds", "2", "--steps", "3", "--device", "cpu"]
    main(["show", NAME, *words, "--policy", str(out)])
    assert (tmp_path / "show/point_env-PointEnv.mp4").exists()
    assert json.loads((out / "status.json").read_text())["state"] == "finished"
    assert (out / "probe/evidence.png").exists()
    assert "2 episodes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("point_env:Nothing", "an environment is a task, gym:ID or MODULE:FUNCTION"),
        ("point_env:np", "TypeError: a module is not callable"),
    ],
)
def test_an_environment_that_is_not_there_is_told(name, told, tmp_path):
    with pytest.raises(InputError, match=told):
        tiny(tmp_path, task=name)
    with pytest.raises(InputError, match="has no distractors"):
        tiny(tmp_path, task=NAME, distractors="cube")
