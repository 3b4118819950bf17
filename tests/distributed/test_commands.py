"""The commands of "From a laptop to a cluster" run as they are on the page, on two local nodes.

They run in namespaces of their own, so that `ray stop` and the port do not touch another cluster.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/how-to/distributed.md"
APART = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--net"]
SWEEP = """
task = "reach"
device = "cpu"
worlds = 4
env_steps = 80
warmup_steps = 40
batch = 16
evaluate_episodes = 2

[vary]
seed = [0, 1]
"""
# What a machine without a network, and a test of minutes, add to a command.
MORE = {
    "ray start --head": "--node-ip-address 127.0.0.1 --num-cpus 2",
    "pureward expert": "--device cpu --env-steps 400 --warmup-steps 200 --evaluate-episodes 2",
}


def shown() -> list[str]:
    """The commands of the section."""
    section = PAGE.read_text().split("## From a laptop to a cluster\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.S)
    return [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()]


def test_a_laptop_becomes_a_cluster_in_five_commands():
    first, *rest = shown()
    assert first == "ray get-auth-token --generate"
    assert [line.split()[0] for line in rest if "start" in line] == ["RAY_AUTH_MODE=token"] * 2
    assert sum("pureward" in line for line in rest) == 2, "a sweep, or a run with actors"
    assert rest[-1] == "ray stop"
    assert len(rest) == 5


def apart() -> bool:
    command = [*APART, "ip", "link", "set", "lo", "up"]
    return bool(shutil.which("unshare")) and not subprocess.run(command, check=False).returncode


@pytest.mark.slow
def test_the_commands_of_the_page_run(tmp_path):
    pytest.importorskip("ray", reason="needs the extra ray")
    if not apart():
        pytest.skip("needs Linux namespaces")
    (tmp_path / "rates.toml").write_text(SWEEP)
    lines = [line.replace("HOST", "127.0.0.1") for line in shown()]
    lines = [next((f"{x} {m}" for c, m in MORE.items() if c in x), x) for x in lines]
    sweep = next(line for line in lines if "sweep" in line)
    lines.insert(-1, f"if HOME=/nowhere {sweep} 2>refused; then false; fi")
    with tempfile.TemporaryDirectory(prefix="ray") as short:  # paths of sockets must be short
        places = {"HOME": str(tmp_path), "RAY_TMPDIR": short, "OMP_NUM_THREADS": "1"}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        script = "\n".join(["set -ex", "ip link set lo up", *lines])
        done = subprocess.run(
            [*APART, "bash", "-c", script],
            cwd=tmp_path,
            env={**os.environ, **places, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=1200,
        )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("| finished | 80 of 80") == 2, done.stdout
    assert "finished after 400 env steps" in done.stdout
    said = (tmp_path / "refused").read_text().splitlines()[-1]  # after warnings of Ray
    assert said.startswith("pureward: no Ray cluster can be used at the address 'auto'")
    assert said.endswith("the same ~/.ray/auth_token on all machines")
