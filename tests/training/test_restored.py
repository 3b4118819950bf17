"""Damaged checkpoints are rejected before anything is restored."""

import json
import math
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import pureward
from pureward.data.replay.replay import ReplayConfig
from pureward.errors import InputError
from pureward.runs.policy import snapshots
from tiny import tiny

STEP = "step-000000000200"


def settings(out: Path, **changes) -> pureward.RunConfig:
    small = {"env_steps": 200, "checkpoint_every": 120, "evaluate_episodes": 1}
    return tiny(out, replay=ReplayConfig(capacity=80), **(small | changes))


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A run whose replay has been overwritten twice."""
    path = tmp_path_factory.mktemp("restored") / "run"
    pureward.train(settings(path))
    return path


def damaged(whole: Path, tmp_path: Path, name: str, change) -> Path:
    """A copy of the run with one tensor of its newest checkpoint changed."""
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    path = run / "checkpoints" / STEP / "state.safetensors"
    tensors = load_file(path)
    changed = change(tensors[name])
    assert changed.dtype != tensors[name].dtype or not torch.equal(changed, tensors[name])
    save_file(tensors | {name: changed.contiguous()}, path)
    facts = path.with_name("facts.json")
    content = json.loads(facts.read_text()) | {"bytes": path.stat().st_size}
    del content["sum"]  # as if it had been written so
    facts.write_text(json.dumps(content))
    return run


def every(value):
    return lambda tensor: torch.full_like(tensor, value)


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("learner/replay/ending", every(99_999), r"must lie in \[0, \d+\], has 99999"),
        ("learner/replay/begin", every(-1), r"must lie in \[0, 50\], has -1"),
        ("learner/replay/last", every(2**40), r"must lie in \[-1, 49\], has 1099511627776"),
        ("learner/replay/episode", every(-3), r"must lie in \[0, 50\], has -3"),
        ("learner/replay/rows", every(-1), r"must lie in \[0, \d+\], has -1"),
        ("learner/replay/rows", every(3), "is damaged"),
        ("learner/replay/begin", every(50), "'ending', 'begin' and 'last' contradict each other"),
        ("learner/replay/ending", lambda t: t.roll(1), "contradict each other"),
        ("learner/replay/reward", every(math.nan), "reward holds NaN or infinity"),
        ("learner/replay/ending", lambda t: t.double(), "must be torch.int64, is torch.float64"),
        ("learner/agent/actor.body.weights.0", every(math.nan), "weights.0 holds NaN or infinity"),
        ("learner/agent/actor.body.weights.0", lambda t: t[:1], "weights.0 must have shape"),
        ("env/elapsed", every(10**9), r"env/elapsed must lie in \[0, \d+\], has 1000000000"),
        ("env/qpos", every(math.inf), "env/qpos holds NaN or infinity"),
        ("success/steps", every(7), r"success/steps must lie in \[50, 50\], has 7"),
        ("learner/agent_meter/first_bad", every(3), r"first_bad must lie in \[0, 0\], has 3"),
    ],
)
def test_a_damaged_tensor_is_rejected_and_nothing_is_lost(whole, tmp_path, name, change, sentence):
    run = damaged(whole, tmp_path, name, change)
    kept, measured = snapshots(run), (run / "metrics.jsonl").read_bytes()
    with pytest.raises(InputError, match=f"{STEP} .*{sentence}.*delete it to resume from an older"):
        pureward.train(settings(run, env_steps=240), resume=True)
    assert snapshots(run) == kept
    assert (run / "metrics.jsonl").read_bytes() == measured
    shutil.rmtree(run / "checkpoints" / STEP)
    if "NaN" in sentence:  # follow the advice of the message
        assert pureward.train(settings(run), resume=True).state == "finished"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"control_steps": 50', '"control_steps": -50'),
        ('"counted_steps": 50', '"counted_steps": 51'),
        ('"successes": ', '"successes": 201, "other": '),
        ('"seconds": ', '"seconds": Infinity, "other": '),
        ('"return": ', '"return": "x", "other": '),
        (f'"step": {200}', '"step": 400'),
    ],
)
def test_invalid_facts_are_rejected(whole, tmp_path, old, new):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    facts = run / "checkpoints" / STEP / "facts.json"
    assert old in facts.read_text()
    facts.write_text(facts.read_text().replace(old, new))
    with pytest.raises(InputError, match=f"{STEP} .*facts.json|{STEP} .*real number"):
        pureward.train(settings(run, env_steps=240), resume=True)
