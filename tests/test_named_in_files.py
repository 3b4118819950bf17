"""What a file names is data: while files are read no module is imported and no environment made."""

import json
import sys
from pathlib import Path

import pytest
import torch

import pureward
from pureward.cli import main
from pureward.data.draw import draw
from pureward.data.episodes import Episode
from pureward.data.writing import write_episodes
from pureward.distributed.sweep import read_sweep
from pureward.errors import InputError
from pureward.rewards.learned import RewardSpec
from pureward.rewards.network import seeded_network
from pureward.rewards.saved import CONFIG_FILE
from pureward.runs.config_file import to_json
from pureward.runs.directory import RunDirectory
from pureward.studio.source import Source
from tiny import SMALL_REWARD, tiny

PAYLOAD = "import pathlib; pathlib.Path({marker!r}).touch()\ndef make(**_): pass\n"
NAMES = ["payload_of_a_file:make", "gym:payload_of_a_file:Any-v0"]


@pytest.fixture(autouse=True)
def marker(tmp_path, monkeypatch):
    """The payload can be imported, and makes a file; no test may cause that."""
    path = tmp_path / "marker"
    (tmp_path / "payload_of_a_file.py").write_text(PAYLOAD.format(marker=str(path)))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield path
    imported = sys.modules.pop("payload_of_a_file", None)
    assert not path.exists(), "the payload ran"
    assert imported is None


@pytest.fixture
def states():
    """Episodes without frames: they must be drawn."""
    simulator = {"qpos": torch.zeros(4, 2), "qvel": torch.zeros(4, 2)}
    episode = Episode(rewards=torch.ones(3), actions=torch.zeros(3, 2), simulator=simulator)
    return [episode] * 4


@pytest.fixture
def run(tmp_path):
    """A run directory of which only the settings were written, for a task that a test chooses."""

    def written(**settings) -> Path:
        RunDirectory(tmp_path / "run").path.mkdir()
        config = to_json(tiny(tmp_path / "run")) | settings
        (tmp_path / "run" / "config.json").write_text(json.dumps(config))
        (tmp_path / "run" / "status.json").write_text('{"state": "finished"}')
        return tmp_path / "run"

    return written


@pytest.fixture
def reward(tmp_path):
    """The folder of a saved reward."""
    spec = RewardSpec(reward="imitation", network=SMALL_REWARD.network)
    network = seeded_network(spec.network, 0, torch.device("cpu"))
    pureward.save_reward(pureward.LearnedReward(spec, discriminator=network), tmp_path / "reward")
    return tmp_path / "reward"


@pytest.mark.parametrize("name", [*NAMES, None])
def test_frames_are_drawn_of_our_tasks_only(name, states, reward, tmp_path, capsys):
    write_episodes(tmp_path / "bad", states, task=name)
    says = f"must hold frames, or states of a task .* got no frames and the task {name!r}"
    for reads in (
        pureward.check,
        lambda bad: pureward.fit(bad, demonstrations=bad, out=tmp_path / "fit"),
        lambda bad: Source(bad).strip(0, 0),
        lambda bad: draw(states, name),
    ):
        with pytest.raises(InputError, match=says):
            reads(tmp_path / "bad")
    for command in (["import", "bad", "--out", "copy"], ["score", "reward", "bad", "--out", "csv"]):
        with pytest.raises(SystemExit):
            main(command)
        assert "must hold frames, or states of a task" in capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_a_run_is_read_without_its_environment(name, run, tmp_path, capsys):
    from pureward.diagnostics.history import read_history
    from pureward.studio.evidence import Runs

    path = run(task=name)
    with pytest.raises(InputError, match="has no policy snapshot yet"):
        pureward.load_policy(path)
    assert read_history(path).task == name
    assert len(Runs([path]).describe()) == 1
    with pytest.raises(SystemExit):
        main(["train", "reach", "--resume", "--out", str(path)])
    assert f"is for {name}; name the same task" in capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_settings_in_toml_are_read_without_their_environment(name, tmp_path, capsys):
    (tmp_path / "mine.toml").write_text(f'task = "{name}"\ndemonstrations = "data"\n')
    with pytest.raises(SystemExit):
        main(["train", "reach", "--config", "mine.toml", "--out", "run"])
    assert f"mine.toml is for {name}; name the same task" in capsys.readouterr().err
    with (tmp_path / "mine.toml").open("a") as file:
        file.write("[vary]\nseed = [0, 1]\n")
    assert len(read_sweep(tmp_path / "mine.toml").runs) == 2


@pytest.mark.parametrize(
    "settings",
    [
        {"algorithm": NAMES[0]},
        {"method": NAMES[0]},
        {"prior": NAMES[0]},
        {"executor": NAMES[0], "actors": 1},
        {"reward": {"risk": NAMES[0]}},
        {"reward": {"network": {"kind": NAMES[0]}}},
    ],
)
def test_other_names_of_a_run_are_those_of_registries(settings, run):
    with pytest.raises(InputError):
        pureward.load_policy(run(**settings))


def test_a_saved_reward_names_a_registered_network(reward):
    path = reward / CONFIG_FILE
    path.write_text(path.read_text().replace('"residual"', f'"{NAMES[0]}"'))
    with pytest.raises(InputError, match="unknown network"):
        pureward.load_reward(reward)


@pytest.mark.parametrize(
    "command",
    [
        "config {}",
        "show {} --out run",
        "expert {} --out run",
        "train {} --demonstrations nowhere --out run",
        "collect {} --policy nowhere --out run",
        "sweep mine.toml --out run",
    ],
)
@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("nowhere:make", "an environment is a task, gym:ID or MODULE:FUNCTION"),
        ("gym:Nowhere-v0", "gym:ID must be registered with Gymnasium"),
        ("gym:Pendulum-v99", "gym:ID must be registered with Gymnasium"),
        ("gym:nowhere:Pendulum-v1", "gym:ID must be registered with Gymnasium"),
        ("gym:", "gym:ID must be registered with Gymnasium"),
    ],
)
def test_a_misspelt_name_of_a_user_is_told_before_anything_else(
    command, name, rule, tmp_path, capsys
):
    (tmp_path / "mine.toml").write_text(f'task = "{name}"\n[vary]\nseed = [0]\n')
    with pytest.raises(SystemExit) as end:
        main(command.format(name).split())
    said = capsys.readouterr()
    assert end.value.code == 2
    assert said.out == ""
    assert said.err.startswith(f"pureward: {rule}, got {name!r}")
    assert not (tmp_path / "run").exists()
