"""The examples run from start to end, at a small size, and their planner finds shortest paths."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = {
    "minigrid_ppo": "--rows nn-pugail truth --seeds 1 --steps 512 --every 256 --updates 1 "
    "--demonstrations 25 --episodes 2",
    "pendulum": "--methods gail --seeds 1 --env-steps 208 --demonstrations 2",
    "metaworld_drawer": "--methods gail --env-steps 208 --demonstrations 4",
}
NEEDS = {"minigrid_ppo": "minigrid", "pendulum": "pygame", "metaworld_drawer": "metaworld"}


def run(name: str, *arguments: str) -> str:
    pytest.importorskip(NEEDS[name], reason=f"{name} needs the extra examples")
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"SDL_VIDEODRIVER": "dummy", "OMP_NUM_THREADS": "1", "MUJOCO_GL": "egl"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_writes_curves_a_figure_and_a_film(name, tmp_path):
    run(name, *SCRIPTS[name].split(), "--out", str(tmp_path))
    runs = json.loads((tmp_path / "curves.json").read_text())["runs"]
    assert all(run["points"][-1]["step"] > 0 for run in runs)
    assert (tmp_path / "curves.png").stat().st_size > 0
    assert (tmp_path / "film.mp4").stat().st_size > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_help_of_an_example_names_its_options(name):
    printed = run(name, "--help")
    assert "--seeds" in printed
    assert "--out" in printed


@pytest.mark.filterwarnings("ignore")
def test_the_planner_turns_and_walks_the_shortest_way(monkeypatch):
    pytest.importorskip("minigrid", reason="minigrid_ppo needs the extra examples")
    monkeypatch.syspath_prepend(EXAMPLES)
    from minigrid_ppo import FORWARD, RIGHT, make_env, plan

    env = make_env()
    env.reset(seed=0)
    room = env.unwrapped
    room.agent_pos, room.agent_dir = (1, 1), 0  # the goal is at (3, 3); it looks to the right
    assert plan(env) == [FORWARD, FORWARD, RIGHT, FORWARD, FORWARD]
    room.agent_pos, room.agent_dir = (3, 2), 0
    assert plan(env) == [RIGHT, FORWARD]
