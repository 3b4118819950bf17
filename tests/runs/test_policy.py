"""Policy snapshots: those that do not fit the run or the environment are refused."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from pureward.agents.d4pg.agent import D4PG
from pureward.errors import InputError
from pureward.files import write_json
from pureward.runs.config_file import to_json
from pureward.runs.directory import RunDirectory
from pureward.runs.policy import load_policy, snapshots, write_snapshot
from tiny import SMALL, tiny


@pytest.fixture
def run(tmp_path) -> Path:
    """A run with one policy snapshot."""
    directory = RunDirectory(tmp_path)
    write_json(directory.config, to_json(tiny(tmp_path)))
    write_snapshot(directory.snapshots, 640, D4PG(SMALL, state_size=4, action_size=2))
    return tmp_path


def test_states_of_another_task_are_refused(run):
    policy = load_policy(run)
    assert policy.act(torch.zeros(3, 4)).shape == (3, 2)
    with pytest.raises(InputError, match="of 4 numbers, got 24; choose the task and"):
        policy.act(torch.zeros(3, 24))


def test_a_policy_of_an_unknown_step_is_refused(run):
    (kept,) = snapshots(run)
    renamed = kept.rename(kept.with_name("good.safetensors"))
    with pytest.raises(InputError, match=r"called step-N.safetensors, .* got good.safetensors"):
        load_policy(run, renamed)


def test_a_copy_of_a_snapshot_is_ignored(run):
    (kept,) = snapshots(run)
    shutil.copy(kept, kept.with_name("step-000000000640 (1).safetensors"))
    assert snapshots(run) == [kept]
    assert load_policy(run).env_steps == 640


@pytest.mark.parametrize(
    "sizes", [None, {"state_size": "4"}, {"state_size": "4", "action_size": "x"}]
)
def test_weights_without_sizes_are_refused(run, sizes):
    (kept,) = snapshots(run)
    save_file({"actor.weight": torch.zeros(2)}, kept, metadata=sizes)
    with pytest.raises(InputError, match="step-000000000640.safetensors cannot be read"):
        load_policy(run)


@pytest.mark.parametrize("size", [-4, 0, 5, 10_000_000, 10**30])
def test_declared_sizes_that_contradict_the_tensors_are_refused(run, size):
    """Before memory is allocated: 10,000,000 would take gigabytes."""
    (kept,) = snapshots(run)
    save_file(load_file(kept), kept, metadata={"state_size": str(size), "action_size": "2"})
    with pytest.raises(InputError, match="does not fit the run's agent settings|must have sizes"):
        load_policy(run)


def test_settings_larger_than_the_file_are_refused_before_allocation(run):
    agent = replace(SMALL, actor_layers=(16_384,) * 500)
    write_json(run / "config.json", to_json(replace(tiny(run), agent=agent)))
    with pytest.raises(InputError, match="does not fit the run's agent settings"):
        load_policy(run)


@pytest.mark.parametrize("normalise", [False, True])
def test_a_policy_acts_as_its_agent_did(tmp_path, normalise):
    config = replace(tiny(tmp_path), agent=replace(SMALL, normalise=normalise))
    agent = D4PG(config.agent, state_size=4, action_size=2)
    agent.observe(torch.randn(100, 4) * 5 + 3)
    write_json(tmp_path / "config.json", to_json(config))
    write_snapshot(RunDirectory(tmp_path).snapshots, 1, agent)
    state = torch.randn(5, 4)
    assert torch.equal(load_policy(tmp_path).act(state), agent.act(state))


def test_a_snapshot_that_is_a_fifo_or_a_link_is_refused(run, tmp_path):
    (kept,) = snapshots(run)
    kept.unlink()
    os.mkfifo(kept)
    with pytest.raises(InputError, match="must be a regular file"):
        load_policy(run)
    kept.unlink()
    kept.symlink_to(tmp_path / "config.json")
    assert snapshots(run) == []
