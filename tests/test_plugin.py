"""A package outside pureward adds one of everything, and trains with it."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pureward.registry import Registry

PLUGIN = Path(__file__).parent / "plugin"
SMALL = shlex.split("""
    --worlds 4 --env-steps 160 --warmup-steps 40 --updates-per-step 1 --batch 16
    --replay.capacity 400 --replay.frame-stack 1 --reward.batch 4 --reward.memory 0
    --reward.refreshed 3
    --log-every 40 --evaluate-every 80 --evaluate-episodes 2 --probe-every 80 --probe-frames 8
    --checkpoint-every 80 --snapshot-every 80 --device cpu
""")
TOYS = shlex.split("""
    --algorithm toy-agent --agent.rate 0.05 --method toy-method --prior toy-prior:0.3
    --reward.network.kind toy-network
""")
DEMONSTRATIONS = """
import numpy as np
import torch
from pureward import make
from pureward.runs.collect import rollout

episodes = rollout(make("toy-env", 30, "cpu", cameras=True), lambda state: -2.0 * state)
frames = np.stack([episode.frames.numpy() for episode in episodes])
np.savez("demos.npz", frames=frames, rewards=np.stack([e.rewards.numpy() for e in episodes]))
"""
PYTHON = """
import pureward
from pureward.distributed.training import train_all

settings = {"reward.network.kind": "toy-network", "agent.rate": 0.05, "reward.batch": 4}
settings |= {"replay.capacity": 400, "replay.frame_stack": 1, "reward.memory": 0}
settings |= {"reward.refreshed": 3}
config = pureward.preset(
    "toy-env", method="toy-method", demonstrations="demos.npz", out="runs/python", device="cpu",
    algorithm="toy-agent", prior="toy-prior:0.3", worlds=4, env_steps=80, warmup_steps=40,
    updates_per_step=1, batch=16, evaluate_episodes=2, **settings,
)
train_all([config], executor="toy-executor")
assert pureward.load_reward("runs/python").spec.network.kind == "toy-network"
"""


DATA = ["--demonstrations", "demos.npz", "--out", "runs/cli"]
TRAIN = ["train", "toy-env", *TOYS, *SMALL, *DATA]
ON_TWO = ["runs/cli", "--episodes", "2", "--device", "cpu"]
EXPERT = shlex.split("""
    expert toy-task --out runs/task --env-steps 80 --worlds 4 --replay.capacity 400 --batch 16
    --evaluate-episodes 2 --device cpu
""")
COMMANDS = [
    TRAIN,
    ["evaluate", *ON_TWO],
    ["probe", *ON_TWO],
    [*TRAIN, "--env-steps", "240", "--resume"],
    ["show", "toy-env", "--steps", "3", "--worlds", "2", "--device", "cpu"],
    ["tasks"],
    ["config", "toy-task"],
    EXPERT,
    [*EXPERT, "--out", "runs/actors", "--actors", "2", "--executor", "toy-executor"],
]


@pytest.fixture(scope="module")
def ran(tmp_path_factory) -> tuple[str, Path]:
    """What all commands print, and their folder; the plugin is installed as `pip` would leave it.

    They run in one process: importing torch and a simulator takes longer than a command.
    """
    site, work = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("work")
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]
    shutil.copy(PLUGIN / "pureward_toys.py", site)
    info = site / f"pureward_toys-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    points = project["entry-points"]["pureward"].items()
    lines = "\n".join(f"{name} = {module}" for name, module in points)
    (info / "entry_points.txt").write_text(f"[pureward]\n{lines}\n")
    done = subprocess.run(
        [sys.executable, "-c", DEMONSTRATIONS + PYTHON + commands(*COMMANDS)],
        cwd=work,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, work


def commands(*lines: list[str]) -> str:
    """A script that calls the command line once a line."""
    return f"from pureward.cli import main\nfor words in {list(lines)!r}:\n    main(words)"


@pytest.mark.parametrize(
    "read",
    [
        lambda registry: registry["toy"] == 1,
        lambda registry: registry.get("toy") == 1,
        lambda registry: "toy" in registry,
        lambda registry: len(registry) == 1,
        lambda registry: list(registry) == list(registry.keys()) == ["toy"],
        lambda registry: list(registry.values()) == [1],
        lambda registry: dict(registry) == dict(registry.items()) == {"toy": 1},
    ],
)
def test_a_registry_has_the_rows_of_plugins_however_it_is_read(read, monkeypatch):
    registry = Registry("toy")
    monkeypatch.setattr("pureward.registry.load_plugins", lambda: registry.setdefault("toy", 1))
    assert read(registry)
    assert registry.get("other") is None
    assert registry.get("other", 2) == 2


def test_all_of_them_train_together(ran):
    printed, work = ran
    assert json.loads((work / "runs/python/status.json").read_text())["state"] == "finished"
    assert "runs/cli at 160 env steps" in printed
    assert "finished after 240 env steps" in printed
    config = json.loads((work / "runs/cli/config.json").read_text())
    assert config["agent"] == {"rate": 0.05}
    assert config["reward"]["network"]["kind"] == "toy-network"
    assert (work / "runs/cli/probe/evidence.png").exists()
    assert (work / "show/toy-env.mp4").exists()
    assert json.loads((work / "runs/actors/status.json").read_text())["state"] == "finished"


def test_a_task_from_outside_is_listed_and_has_an_expert(ran):
    printed, _ = ran
    assert "\ntoy-task " in printed
    assert "\ntoy-env " in printed
    assert '\ntask = "toy-task"' in printed
    assert "finished after 80 env steps" in printed
