"""Checkpoints are atomic, the newest is found, the best is kept."""

import json
import os
import shutil

import pytest
import torch

from pureward.errors import InputError
from pureward.files import PARTIAL, clear_leftovers
from pureward.runs import checkpoint

TENSORS = {"a/weight": torch.arange(6.0).view(2, 3).T, "count": torch.tensor(7)}


def test_a_checkpoint_is_read_as_written(tmp_path):
    path = checkpoint.write(tmp_path, 40, TENSORS, {"seconds": 1.5})
    newest = checkpoint.read_newest(tmp_path)
    assert newest is not None
    assert newest.path == path
    assert newest.facts["seconds"] == 1.5
    assert newest.facts["step"] == 40
    assert newest.tensors.keys() == TENSORS.keys()
    assert all(torch.equal(newest.tensors[name], TENSORS[name]) for name in TENSORS)


def test_no_checkpoint_is_none(tmp_path):
    assert checkpoint.read_newest(tmp_path) is None


DAMAGES = {
    "not published": lambda path: path.rename(path.with_name(PARTIAL + path.name)),
    "truncated tensors": lambda path: os.truncate(path / "state.safetensors", 20),
    "no facts": lambda path: (path / "facts.json").unlink(),
    "half of the facts": lambda path: (path / "facts.json").write_text('{"format": 1, '),
    "facts of another type": lambda path: (path / "facts.json").write_text("[1, 2]"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_newest_checkpoint_is_skipped(tmp_path, damage):
    complete = checkpoint.write(tmp_path, 1, TENSORS, {})
    damage(checkpoint.write(tmp_path, 2, TENSORS, {}))
    assert checkpoint.read_newest(tmp_path).path == complete


@pytest.mark.parametrize("step", [1, 2])
def test_a_failed_write_keeps_the_previous_checkpoint(tmp_path, monkeypatch, step):
    previous = checkpoint.write(tmp_path, 1, TENSORS, {"try": 1})

    def full_disk(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_tensors", full_disk)
    with pytest.raises(OSError, match="No space left"):
        checkpoint.write(tmp_path, step, TENSORS, {"try": 2})
    assert list(tmp_path.iterdir()) == [previous]
    assert checkpoint.read_newest(tmp_path).facts["try"] == 1


def test_the_same_step_may_be_written_again(tmp_path):
    checkpoint.write(tmp_path, 3, TENSORS, {"try": 1})
    path = checkpoint.write(tmp_path, 3, TENSORS, {"try": 2})
    assert checkpoint.read_newest(tmp_path).facts["try"] == 2
    assert list(tmp_path.iterdir()) == [path]


def scored(step: int, score: float) -> dict:
    return {"evaluation": {"return": score}, "evaluated_at": step}


def test_pruning_keeps_the_newest_and_the_best(tmp_path):
    for step, score in ((1, 0.0), (2, 9.0), (3, 5.0), (4, 6.0), (5, 7.0)):
        checkpoint.write(tmp_path, step, TENSORS, scored(step, score))
    (tmp_path / f"{PARTIAL}step-6").mkdir()
    checkpoint.prune(tmp_path, keep=2)
    left = {int(path.name.split("-")[1]) for path in tmp_path.glob("step-*")}
    assert left == {2, 4, 5}
    assert checkpoint.best(tmp_path).name.endswith("2")
    assert not list(tmp_path.glob(f"{PARTIAL}*"))


def test_the_best_is_known_as_soon_as_its_checkpoint_is_published(tmp_path):
    """No later write is needed that a kill could prevent."""
    checkpoint.write(tmp_path, 1, TENSORS, scored(1, 3.0))
    best = checkpoint.write(tmp_path, 2, TENSORS, scored(2, 8.0))
    assert checkpoint.best(tmp_path) == best
    for step in (3, 4, 5):
        checkpoint.write(tmp_path, step, TENSORS, scored(2, 8.0))  # evaluated at step 2
    checkpoint.prune(tmp_path, keep=1)
    assert best.exists()


def test_a_deletion_that_was_killed_is_completed_later(tmp_path, monkeypatch):
    class KilledError(BaseException):
        """Stands for a kill during the deletion."""

    def killed(path, **options):
        (path / "state.safetensors").unlink()
        raise KilledError

    for step in (1, 2):
        checkpoint.write(tmp_path, step, TENSORS, {})
    with monkeypatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(shutil, "rmtree", killed)
        checkpoint.prune(tmp_path, keep=1)
    checkpoint.prune(tmp_path, keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000000002"]


@pytest.mark.parametrize("evaluation", [None, [], {}, {"return": "x"}, {"return": None}])
def test_a_checkpoint_without_a_score_is_not_the_best(tmp_path, evaluation):
    checkpoint.write(tmp_path, 1, TENSORS, {"evaluation": evaluation, "evaluated_at": 1})
    assert checkpoint.best(tmp_path) is None


def test_a_replaced_checkpoint_is_restored_after_a_kill(tmp_path):
    path = checkpoint.write(tmp_path, 3, TENSORS, {"try": 1})
    path.rename(tmp_path / f"{PARTIAL}old-{path.name}")
    (tmp_path / f"{PARTIAL}{path.name}").mkdir()
    clear_leftovers(tmp_path)
    assert checkpoint.read_newest(tmp_path).facts["try"] == 1


def test_a_link_in_place_of_a_partial_folder_is_not_followed(tmp_path):
    folder, outside = tmp_path / "checkpoints", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / "precious").write_text("kept")
    (folder / f"{PARTIAL}step-000000000003").symlink_to(outside)
    (folder / f"{PARTIAL}old-step-000000000003").symlink_to(outside)
    checkpoint.write(folder, 3, TENSORS, {})
    checkpoint.prune(folder, keep=1)
    assert (outside / "precious").read_text() == "kept"
    assert [path.name for path in folder.iterdir()] == ["step-000000000003"]


def test_another_format_is_refused(tmp_path):
    path = checkpoint.write(tmp_path, 1, TENSORS, {})
    facts = json.loads((path / "facts.json").read_text())
    (path / "facts.json").write_text(json.dumps({**facts, "format": 99}))
    with pytest.raises(InputError, match="has format 99, this version reads 1"):
        checkpoint.read(path)


def test_a_pickle_as_safetensors_is_refused(tmp_path):
    path = checkpoint.write(tmp_path, 1, TENSORS, {})
    torch.save({"a": TENSORS["count"]}, path / "state.safetensors")
    with pytest.raises(InputError, match="cannot be read"):
        checkpoint.read(path)


@pytest.mark.parametrize("place", [-1, -9, -20])
def test_a_flipped_bit_is_refused(tmp_path, place):
    tensors = TENSORS | {"flags": torch.tensor([True, False, True])}  # no whole number of words
    saved = checkpoint.read(checkpoint.write(tmp_path, 1, tensors, {}))
    file = saved.path / "state.safetensors"
    whole = bytearray(file.read_bytes())
    whole[place] ^= 1
    file.write_bytes(whole)
    with pytest.raises(InputError, match=r"damaged: state.safetensors .*; delete it to resume"):
        _ = saved.tensors


def test_a_checkpoint_without_a_sum_is_read(tmp_path):
    path = checkpoint.write(tmp_path, 1, TENSORS, {})
    facts = json.loads((path / "facts.json").read_text())
    assert facts.pop("sum") > 0
    (path / "facts.json").write_text(json.dumps(facts))
    assert checkpoint.read(path).tensors.keys() == TENSORS.keys()


def test_under_inverts_flattened():
    flat = checkpoint.flattened("env", TENSORS) | {"other/x": TENSORS["count"]}
    assert checkpoint.under("env", flat).keys() == TENSORS.keys()
