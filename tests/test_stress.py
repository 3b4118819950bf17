"""The stress tests see what they are meant to see: kills at writes, and what bad files do."""

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pureward.errors import InputError

WRITE = os.O_WRONLY | os.O_CREAT


@pytest.fixture(scope="module")
def parts():
    tools = str(Path(__file__).parents[1] / "benchmarks/stress")
    sys.path.insert(0, tools)
    import fuzz
    import fuzz_hdf5
    import fuzz_mutations
    import fuzz_watch
    import kill_hook
    import kill_stress

    sys.path.remove(tools)
    yield {
        "fuzz": fuzz,
        "hdf5": fuzz_hdf5,
        "mutations": fuzz_mutations,
        "watch": fuzz_watch,
        "hook": kill_hook,
        "kills": kill_stress,
    }
    for name in [name for name in sys.modules if name.startswith(("fuzz", "kill_", "stress_"))]:
        del sys.modules[name]


# Kills.


def test_every_change_of_a_run_is_counted_and_nothing_else(parts, tmp_path):
    run = tmp_path / "run"
    writes = parts["hook"].Writes(run=run)
    for event, args in (
        ("os.mkdir", (str(run), 0o777, -1)),
        ("open", (str(run / "lock"), None, os.O_RDWR | os.O_CREAT)),
        ("open", (str(run / "config.json"), "r", os.O_RDONLY)),
        ("open", (str(tmp_path / "elsewhere"), "w", WRITE)),
        ("os.rename", (run / ".partial-17-config.json", run / "config.json", -1, -1)),
        ("os.remove", ("facts.json", 7)),
        ("os.truncate", (5, 100)),
        ("os.scandir", (str(run),)),
    ):
        writes(event, args)
    told = ["os.mkdir run", "open lock", "os.rename .partial--config.json", "os.remove facts.json"]
    assert [name for name, _, _ in writes.seen] == [*told, "os.truncate descriptor"]


@pytest.mark.parametrize(("torn", "size"), [(False, 100), (True, 60)])
def test_a_torn_kill_leaves_half_of_what_was_just_written(parts, tmp_path, monkeypatch, torn, size):
    killed = []
    monkeypatch.setattr(os, "kill", lambda process, sign: killed.append((process, sign)))
    old, file = tmp_path / "old", tmp_path / "file"
    old.write_bytes(bytes(50))
    file.write_bytes(bytes(20))
    writes = parts["hook"].Writes(run=tmp_path, kill_at=2, torn=torn)
    writes("open", (str(file), "ab", WRITE))
    file.write_bytes(bytes(100))
    assert not killed
    assert writes.seen == [("open file", True, True)]
    writes("os.rename", (str(file), str(file) + "-2", -1, -1))
    assert killed == [(os.getpid(), signal.SIGKILL)]
    assert (file.stat().st_size, old.stat().st_size) == (size, 50)


def test_enough_kills_hit_every_write_once_and_then_tear_those_with_data(parts):
    events = [("", at != 3, at in (2, 4, 5)) for at in range(1, 6)]
    assert parts["kills"].planned(6, events) == [
        *((at, False) for at in (1, 2, 4, 5)),
        *((at, True) for at in (2, 5)),
    ]


def test_few_kills_are_spread_over_all_writes(parts):
    found = parts["kills"].planned(6, [("", True, at % 2 == 1) for at in range(100)])
    assert found == [(1, False), (34, False), (67, False), (100, False), (2, True), (100, True)]


def write_run(run: Path, value: float = 1.0) -> Path:
    (run / "snapshots").mkdir(parents=True)
    (run / "metrics.jsonl").write_text('{"kind": "eval", "step": 8, "return": 2.0, "seconds": 3}\n')
    tensors = {"a": torch.full((2,), value), "b": torch.zeros(1)}
    save_file(tensors, run / "snapshots/step-8.safetensors", metadata={"x": "1", "y": "2"})
    return run


def test_a_run_that_ended_otherwise_is_told_from_one_that_did_not(parts, tmp_path):
    kills = parts["kills"]
    expected = kills.contents(write_run(tmp_path / "whole"))
    kills.check_same(write_run(tmp_path / "same"), expected)
    with pytest.raises(AssertionError, match=r"differs .*\['snapshots/step-8.safetensors'\]"):
        kills.check_same(write_run(tmp_path / "other", value=1.0 + 1e-7), expected)
    (tmp_path / "same/snapshots/.partial-7-step-8.safetensors").touch()
    with pytest.raises(AssertionError, match="unfinished files"):
        kills.check_same(tmp_path / "same", expected)
    (write_run(tmp_path / "more") / "checkpoints").mkdir()
    with pytest.raises(AssertionError, match=r"\['checkpoints'\]"):
        kills.check_same(tmp_path / "more", expected)
    missing = write_run(tmp_path / "missing")
    (missing / "metrics.jsonl").write_text("")
    with pytest.raises(AssertionError, match=r"\['metrics'\]"):
        kills.check_same(missing, expected)


# Damaged files.


@pytest.fixture
def files(tmp_path):
    """A small file of every format."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "object.json").write_text('{"a": 1, "b": {"c": [1, 2.5, "x"]}, "d": "{\\"e\\": 1}"}')
    (folder / "rows.jsonl").write_text('{"kind": "eval", "step": 1}\n{"kind": "x", "step": 2}\n')
    save_file({"a": torch.arange(6.0), "b": torch.zeros(2, 3)}, folder / "t.safetensors")
    with h5py.File(folder / "data.hdf5", "w") as file:
        file["episode_0/rewards"] = np.arange(5.0)
        file["episode_0/frames"] = np.zeros((6, 3, 4, 4), np.uint8)
    return folder


def all_mutations(parts):
    found = [("object.json", one) for one in parts["mutations"].ANY]
    found += [(name, parts["mutations"].change_json) for name in ("object.json", "rows.jsonl")]
    tensors = (parts["mutations"].change_header, parts["mutations"].change_tensors)
    return [
        *found,
        *(("t.safetensors", o) for o in tensors),
        ("data.hdf5", parts["hdf5"].change_hdf5),
    ]


def damaged(files: Path, name: str, mutation, seed: int) -> tuple[str, str]:
    case = files.parent / "case"
    outside, copy = case / "outside", case / "copy"
    shutil.rmtree(case, ignore_errors=True)
    shutil.copytree(files, copy)
    outside.mkdir()
    (outside / "secret").write_bytes(bytes(1000))
    told = mutation(copy / name, outside, random.Random(f"{seed}"))
    if not (copy / name).is_file():
        return told, str(os.path.lexists(copy / name))
    with (copy / name).open("rb") as file:  # which may be of 3 GB
        return told, file.read(10_000).hex()


def test_damage_depends_on_the_seed_alone_and_differs_between_seeds(parts, files):
    for name, mutation in all_mutations(parts):
        made = [damaged(files, name, mutation, seed) for seed in range(12)]
        assert made[:3] == [damaged(files, name, mutation, seed) for seed in range(3)]
        assert len({told for told, _ in made}) > 2, mutation
        whole = (files / name).read_bytes().hex()
        assert sum(state != whole for _, state in made) >= 6, mutation


def raised(error: Exception, cause: BaseException | None = None) -> Exception:
    error.__cause__ = cause
    return error


def test_only_sentences_and_success_are_no_defects(parts):
    def judged(error=None, result=None, touched=(), taken=0):
        return parts["fuzz"]._judged(error, result, list(touched), taken)

    assert judged() == "accepted"
    assert judged(InputError("prior must lie in [0, 1]")) == "refused"
    assert judged(FileNotFoundError("gone")) == "refused"
    assert judged(KeyError("splits")).startswith("DEFECT KeyError")
    assert judged(raised(InputError("too large"), MemoryError())).startswith("DEFECT memory")
    assert judged(taken=2_000_000_000).startswith("DEFECT memory: 2.0 GB")
    assert judged(touched=["opened secret"]).startswith("DEFECT outside: opened secret")
    secret = parts["mutations"].SECRET
    stolen = torch.frombuffer(bytearray(b"x" + secret + b"y"), dtype=torch.uint8)
    assert judged(result=[torch.zeros(3), stolen]).startswith("DEFECT outside")
    assert judged(InputError(f"got {secret.decode()}")).startswith("DEFECT outside")


def test_files_that_a_c_library_opens_outside_are_seen(parts, files, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.copy(files / "data.hdf5", outside / "foreign.hdf5")
    watched = parts["watch"].Outside([outside])
    with h5py.File(files / "data.hdf5") as file:
        file["episode_0/rewards"][()]
    assert watched.end() == []
    watched = parts["watch"].Outside([outside])
    with h5py.File(outside / "foreign.hdf5"):
        pass
    assert "opened foreign.hdf5" in watched.end()
    watched = parts["watch"].Outside([outside])
    (outside / "new").touch()
    assert "changed new" in watched.end()


def test_files_that_python_opens_outside_are_seen(parts, tmp_path):
    folder, secret = tmp_path / "case", tmp_path / "secret"
    folder.mkdir()
    secret.touch()
    watcher = parts["watch"].Watcher()
    watcher.begin(folder)
    (folder / "own").write_text("mine")
    assert watcher.end() == []
    watcher.begin(folder)
    secret.read_text()
    (tmp_path / "made").mkdir()
    assert watcher.end() == [str(tmp_path / "made"), str(secret)]
    secret.read_text()
    assert watcher.end() == []  # nothing is noted outside of a case


MEASURED = """
import numpy as np
from fuzz_watch import Memory

memory = Memory(10**9)
memory.begin()
block = np.ones(40_000_000)
assert block.sum() == 40_000_000
print(memory.taken())
"""


def test_memory_is_measured():
    """In a process of its own: what other tests free meanwhile would count against the block."""
    tools = str(Path(__file__).parents[1] / "benchmarks/stress")
    found = subprocess.run(
        [sys.executable, "-c", MEASURED], cwd=tools, capture_output=True, text=True, check=True
    )
    assert int(found.stdout) > 250e6
