"""Policies on disk: what is no policy of the run, or not for this world, is refused."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from pureward.agent.d4pg import D4PG
from pureward.errors import InputError
from pureward.run.config_file import write_config
from pureward.run.directory import RunDirectory
from pureward.run.policy import load_policy, snapshots, write_snapshot
from tiny import SMALL, tiny


@pytest.fixture
def run(tmp_path) -> Path:
    """A run that has kept one policy."""
    directory = RunDirectory(tmp_path)
    write_config(directory, tiny(tmp_path))
    write_snapshot(directory.snapshots, 640, D4PG(SMALL, state_size=4, action_size=2))
    return tmp_path


def test_states_of_another_task_are_refused(run):
    policy = load_policy(run)
    assert policy.act(torch.zeros(3, 4)).shape == (3, 2)
    with pytest.raises(InputError, match="acts on states of 4 numbers, got 24; it was trained on"):
        policy.act(torch.zeros(3, 24))


def test_a_policy_of_an_unknown_step_is_refused(run):
    (kept,) = snapshots(run)
    renamed = kept.rename(kept.with_name("good.safetensors"))
    with pytest.raises(InputError, match=r"called step-N.safetensors.*got good.safetensors"):
        load_policy(run, renamed)


def test_a_copy_beside_the_snapshots_is_none_of_them(run):
    (kept,) = snapshots(run)
    shutil.copy(kept, kept.with_name("step-000000000640 (1).safetensors"))
    assert snapshots(run) == [kept]
    assert load_policy(run).env_steps == 640


@pytest.mark.parametrize(
    "sizes", [None, {"state_size": "4"}, {"state_size": "4", "action_size": "x"}]
)
def test_weights_without_their_sizes_are_refused(run, sizes):
    (kept,) = snapshots(run)
    save_file({"actor.weight": torch.zeros(2)}, kept, metadata=sizes)
    with pytest.raises(InputError, match="step-000000000640.safetensors cannot be read"):
        load_policy(run)
