"""Training time."""

import torch

from pureward.training import stopwatch
from pureward.training.stopwatch import Stopwatch


def test_a_pause_is_not_counted(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(stopwatch.time, "monotonic", lambda: now[0])
    watch = Stopwatch(torch.device("cpu"))
    now[0] += 1.0
    with watch.paused():
        assert watch.read() == 1.0
        now[0] += 0.5
        assert watch.read() == 1.0
    now[0] += 2.0
    assert watch.read() == 3.0
