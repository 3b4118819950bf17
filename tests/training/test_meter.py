# SPDX-License-Identifier: Apache-2.0
"""Sums of metrics, and what they refuse."""

import pytest
import torch

from pureward.errors import InputError
from pureward.training.meter import Meter


def test_means_are_since_the_last_call():
    meter = Meter(torch.device("cpu"))
    for loss in (1.0, 3.0):
        meter.add({"loss": torch.tensor(loss), "step": torch.tensor(2)})
    assert meter.read() == {"loss": 2.0, "step": 2.0}
    assert meter.read() == {}


def test_too_many_metrics_are_refused():
    meter = Meter(torch.device("cpu"))
    with pytest.raises(InputError, match="at most 32 metrics, got 33; leave some out"):
        meter.add({str(number): torch.tensor(1.0) for number in range(33)})
