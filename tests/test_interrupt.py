"""Ctrl-C while the command line imports a module, at its start or later."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pureward

# A shell that starts tests in the background makes them and their children ignore SIGINT.
DEFAULT = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"

# As a module in C does it, which loses the KeyboardInterrupt.
SLOW = """
import os, signal, time
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
except BaseException:
    raise ImportError("initialization failed") from None
"""

# Not while it is imported.
CALLED = """
import os, signal, time
def make(**_):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
"""


@pytest.fixture
def run(tmp_path):
    """Run a program that finds modules with a given text first."""
    (tmp_path / "pureward").write_text("from pureward.__main__ import main\nmain()\n")
    (tmp_path / "sitecustomize.py").write_text(DEFAULT)

    def done(module: str, text: str, *command: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / f"{module}.py").write_text(text)
        path = os.pathsep.join([str(tmp_path), str(Path(pureward.__file__).parents[1])])
        return subprocess.run(
            [sys.executable, *command],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": path},
        )

    return done


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("gymnasium", "-m pureward --version"),
        ("gymnasium", "pureward --version"),
        ("tyro", "-m pureward --help"),
        ("torch", "-m pureward expert reach --out run"),
        ("torch", "-m pureward show reach --out shown"),
        ("mine", "-m pureward show mine:make --out shown"),
    ],
)
def test_an_interrupted_import_ends_the_command_line_with_one_line(module, command, run):
    done = run(module, SLOW, *command.split())
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "pureward: interrupted\n"


def test_a_verb_that_is_interrupted_ends_with_the_same_line(run):
    done = run("mine", CALLED, "-m", "pureward", "show", "mine:make", "--out", "shown")
    assert (done.returncode, done.stderr) == (130, "pureward: interrupted\n")


def test_a_program_that_imports_the_library_is_interrupted_as_any(run):
    done = run("gymnasium", SLOW, "-c", "import pureward", "pureward")
    assert done.returncode == 1
    assert done.stderr.endswith("ImportError: initialization failed\n")
