"""A fit that is killed at any moment continues to the same weights as one that is not."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import pureward

_FIT = """
import sys, torch
sys.path[:0] = {paths!r}
from dataclasses import replace
import pureward
from pictures import demonstrations, logs
from pureward.offline import folder
from test_fit import TINY
torch.set_num_threads(1)
folder._ESTIMATE_EVERY, folder._AT_ONCE = 5, 5
done = pureward.fit(
    logs(), demonstrations=demonstrations(), out=sys.argv[1], updates=200, config=TINY, device="cpu"
)
print(done.state)
"""


def start(out: Path) -> subprocess.Popen:
    here = Path(__file__).parent
    code = _FIT.format(paths=[str(here), str(here.parent)])
    return subprocess.Popen(
        [sys.executable, "-c", code, str(out)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_stopped_process_loses_nothing(tmp_path, number):
    assert b"finished" in start(tmp_path / "whole").communicate()[0]
    stopped = 0
    for pause in (0.3, 1.0, 2.0, None):
        process = start(tmp_path / "part")
        folder = tmp_path / "part/checkpoints"
        before = set(folder.glob("step-*"))
        while process.poll() is None and pause is not None:
            if set(folder.glob("step-*")) - before:  # it has begun
                time.sleep(pause)
                process.send_signal(number)
                break
            time.sleep(0.05)
        process.communicate()
        stopped += process.returncode != 0
    assert number != signal.SIGKILL or stopped > 0
    ours, theirs = (
        pureward.load_reward(tmp_path / name).discriminator for name in ("part", "whole")
    )
    assert ours is not None
    assert theirs is not None
    other = theirs.state_dict()
    assert all(torch.equal(tensor, other[name]) for name, tensor in ours.state_dict().items())
