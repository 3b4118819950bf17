"""Work that CUDA graphs capture must not wait for the device; on a CPU its operators show that."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import pureward
from operators import Operators
from pureward.data.replay.replay import ReplayConfig
from pureward.rewards.risks import pu
from pureward.runs.collect import collect
from pureward.training.learner import Learner
from tiny import SMALL, SMALL_REWARD, tiny

pytestmark = pytest.mark.usefixtures("short_episodes")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("captured")
    pureward.train(tiny(folder / "policy", env_steps=80))
    counts = {"episodes": 2, "held_out": 2, "failures": 1}
    collect("reach", folder / "policy", folder / "set", **counts, frames=True, device="cpu")
    return folder / "set"


def captured_operators(monkeypatch, config: pureward.RunConfig) -> dict[str, Operators]:
    """Train a run; the operators of each kind of captured work.

    The first call of each kind is left out: calls before a capture fill caches.
    """
    seen: dict[str, Operators] = {}

    def observed(self, name, call, changed, *inputs, generators=()):
        if name not in seen:
            seen[name] = Operators()
            return call(*inputs)
        with seen[name]:
            return call(*inputs)

    monkeypatch.setattr(Learner, "_run", observed)
    monkeypatch.setattr(pu, "_all_pass", lambda tensor, test: True)  # it checks on a CPU only
    pureward.train(config)
    return seen


@pytest.mark.parametrize("labels", ["fresh", "cached"])
@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("gail", {"even": True}),
        ("nn-pugail", {"memory": 20, "loss": "sigmoid", "slack": 0.1}),
        ("nn-pugail", {"risk": "nnpnu"}),
        ("prl-ensemble", {}),
        ("nn-purl", {"memory": 20, "updates": 2}),
    ],
)
def test_captured_work_does_not_wait(method, changes, labels, data, tmp_path, monkeypatch):
    positives = pureward.METHODS[method].positives
    failures = str(shutil.copytree(data, tmp_path / "failures"))
    config = tiny(
        tmp_path / "run",
        method=method,
        env_steps=48,
        warmup_steps=16,
        evaluate_every=0,
        evaluate_episodes=1,
        agent=replace(SMALL, normalise=True, norm_first=True, polyak=0.01),
        replay=ReplayConfig(capacity=400, frame_stack=2),
        reward=replace(SMALL_REWARD, labels=labels, **changes),
        failures=failures if changes.get("risk") == "nnpnu" else "",
        **{str(positives): str(data)},
    )
    seen = captured_operators(monkeypatch, config)
    learns = pureward.METHODS[method].has_discriminator
    expected = {"improve"} | ({"discriminate"} if learns else set())
    if labels == "cached":
        expected |= {"arrive", "refresh"} if learns else {"arrive"}
    assert expected <= {name for name, work in seen.items() if work.names}
    assert {name: work.waiting for name, work in seen.items() if work.waiting} == {}


def test_waiting_operators_are_found():
    values = torch.arange(4.0)
    for work in (
        lambda: float(values.sum()),
        lambda: values[values > 1],
        lambda: values.add_(torch.tensor([1.0, 2.0, 3.0, 4.0])),
        lambda: (values > 1).nonzero(),
    ):
        with Operators() as seen:
            work()
        assert seen.waiting
    with Operators() as seen:
        torch.where(values > 1, values, 0.0)[torch.zeros(2, dtype=torch.int64)].sum()
    assert not seen.waiting
