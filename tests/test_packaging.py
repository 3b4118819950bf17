"""What is installed, what is imported, and what is said if a package is missing."""

import ast
import os
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest

import pureward
from pureward.errors import EXTRAS

ROOT = Path(__file__).parents[1]

# As if only torch, numpy and safetensors were installed.
ALONE = f"""
import importlib.util, sys
absent, find = {set(EXTRAS)!r}, importlib.util.find_spec
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
importlib.util.find_spec = lambda name, *rest: None if name in absent else find(name, *rest)
"""

SCORES = """
import torch, pureward
frames = torch.randint(0, 256, (8, 3, 32, 32), dtype=torch.uint8)
network = pureward.NetworkConfig(height=32, width=32, stage_channels=(4, 4), stage_blocks=1)
config = pureward.RewardConfig(network=network, batch=8)
foe, model = pureward.Discriminator(config), pureward.RewardModel(config)
foe.update(frames, frames)
model.fit(frames, torch.rand(8))
assert pureward.risk.nnpu(torch.zeros(2), torch.zeros(2), prior=0.5).value > 0
spec = dict(reward="gated", network=config.network, members=1)
from pureward.rewards.learned import RewardSpec
reward = pureward.LearnedReward(
    RewardSpec(**spec), discriminator=foe.network, members=model.networks
)
pureward.save_reward(reward, {folder!r})
assert torch.equal(pureward.load_reward({folder!r})(frames), reward(frames))
online = pureward.OnlineReward([frames], prior=0.5, config=config)
online.observe(frames, [False] * 8)
online.learn(1)
assert online(frames).shape == (8,)
"""


def python(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words, "-c", code], capture_output=True, text=True, timeout=300
    )


FILM = "tests/data/lerobot/films/videos/observation.images.front/chunk-000/file-000.mp4"
MISSING = {
    "make": "sim",
    "check": "cli",
    "fit": "plot",  # before it learns: its picture is drawn at the end
    f"read_dataset('{ROOT}/datasets/walker/demonstrations')": "data",
    f"read_episodes('{ROOT}/{FILM}')": "video",
    f"read_episodes('{ROOT}/tests/data/lerobot/films')": "lerobot",
    "probe": "sim",
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> tuple[dict[str, str], subprocess.CompletedProcess[str]]:
    """What is printed of each name in `MISSING` and of an array; the process, which also scores.

    One process: importing torch takes longer than all of it.
    """
    folder = tmp_path_factory.mktemp("alone")
    array = folder / "one.npy"
    np.save(array, np.zeros((3, 8, 8, 3), np.uint8))
    names = [*MISSING, f"read_episodes({str(array)!r})[0].frames.shape"]
    tries = [f"try: print(pureward.{name})\nexcept Exception as e: print(e)\n" for name in names]
    scores = SCORES.format(folder=str(folder / "reward"))
    done = python(ALONE + "import pureward\n" + "".join(tries) + scores)
    lines = done.stdout.splitlines()
    assert len(lines) == len(names), done.stderr
    return dict(zip([*MISSING, "array"], lines, strict=True)), done


def test_arrays_need_torch_and_numpy_alone(alone):
    told, _ = alone
    assert told["array"] == "(3, 3, 64, 64)"


def test_rewards_need_torch_numpy_and_safetensors_alone(alone):
    _, done = alone
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("name", "extra"), MISSING.items())
def test_a_missing_package_is_told_with_its_extra(name, extra, alone):
    told, _ = alone
    install = f"which is not installed; install it with pip install 'pureward[{extra}]'"
    assert told[name].endswith(install)


def test_the_command_line_without_its_extra_is_one_sentence():
    done = python(ALONE + "from pureward.__main__ import main\nmain()")
    assert done.returncode == 2
    assert done.stderr == (
        "pureward: this needs the package tyro, which is not installed; "
        "install it with pip install 'pureward[cli]'\n"
    )


def test_importing_it_is_light():
    heavy = ("torch", "mujoco", "warp", "tyro", "matplotlib", "minari")
    done = python(f"import sys, pureward\nprint([n for n in {heavy} if n in sys.modules])")
    assert done.stdout == "[]\n"


UPDATE = """
import sys, torch, pureward
frames = torch.zeros(2, 3, 64, 64, dtype=torch.uint8)
discriminator = pureward.Discriminator(pureward.RewardConfig(), prior=0.5)
discriminator.update(frames, frames)
print([name for name in ("torch._dynamo", "sympy") if name in sys.modules])
"""


def test_an_update_imports_no_compiler():
    assert python(UPDATE).stdout == "[]\n"  # each takes a second or more


def test_every_public_name_is_there():
    assert sorted(pureward.__all__) == sorted([*pureward._PUBLIC, "__version__"])
    assert all(getattr(pureward, name) is not None for name in pureward.__all__)


def test_type_checkers_find_every_public_name_where_it_is_imported_from():
    tree = ast.parse(Path(pureward.__file__).read_text())
    typed = {
        name.asname: f"{node.module}:{name.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if name.asname
    }
    assert typed == pureward._PUBLIC


def test_the_version():
    done = subprocess.run(
        [sys.executable, "-m", "pureward", "--version"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, f"pureward {pureward.__version__}\n")
    root = Path(__file__).parents[1]
    assert f"\nversion: {pureward.__version__}\n" in (root / "CITATION.cff").read_text()
    assert f"\n## {pureward.__version__} (" in (root / "CHANGELOG.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_a_built_package_installs_into_an_empty_environment(kind, tmp_path):
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-q", "-w", str(tmp_path)]
    if kind == "wheel":
        subprocess.run([*build, str(ROOT)], check=True, timeout=600)
    else:
        source = tmp_path / "source"
        make = f"from hatchling.build import build_sdist; build_sdist({str(source)!r})"
        source.mkdir()
        subprocess.run([sys.executable, "-c", make], cwd=ROOT, check=True, timeout=600)
        subprocess.run([*build, str(next(source.glob("*.tar.gz")))], check=True, timeout=600)
    made = next(tmp_path.glob("pureward-*.whl"))
    venv.create(tmp_path / "empty", with_pip=True)
    inside = str(tmp_path / "empty/bin/python")
    install = [inside, "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt"), str(made)]
    subprocess.run(install, check=True, timeout=900)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code = SCORES.format(folder=str(tmp_path / "reward"))
    subprocess.run([inside, "-c", code], check=True, timeout=300, cwd=tmp_path, env=clean)
