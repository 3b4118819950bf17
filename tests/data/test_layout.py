"""Bytes of a replay: as allocated, and refused if they do not fit."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pureward.data.replay import layout as layouts
from pureward.data.replay.layout import HOST, Layout, claimable_bytes
from pureward.data.replay.replay import Replay, ReplayConfig
from pureward.errors import InputError

WALKER = Layout(
    rows=62_500, worlds=16, horizon=1000, state_size=24, action_size=6, frame_shape=(3, 64, 64)
)


def test_bytes_are_those_allocated():
    replay = Replay(
        ReplayConfig(capacity=640),
        worlds=8,
        horizon=30,
        state_size=5,
        action_size=2,
        frame_shape=(3, 8, 8),
    )
    allocated = sum(table.nbytes for table in replay._tables.in_use(640).values())
    assert replay.layout.bytes == allocated


def test_a_million_walker_steps_are_mostly_frames():
    assert WALKER.steps == 1_000_000
    numbers = replace(WALKER, frame_shape=None).bytes
    assert 12.28e9 < WALKER.bytes - numbers < 12.31e9, "states and frames are stored once"
    assert numbers < 0.14e9


@settings(derandomize=True, deadline=None)
@given(st.integers(0, 13 * 10**9))
def test_the_largest_capacity_fits_and_one_row_more_does_not(free):
    steps = WALKER.largest(free)
    if steps:
        assert replace(WALKER, rows=steps // 16).bytes <= free
    if steps < WALKER.steps:
        assert replace(WALKER, rows=steps // 16 + 1).bytes > free


def test_a_ring_that_does_not_fit_is_refused_with_a_capacity_that_does():
    steps = WALKER.largest(5 * 10**9)
    with pytest.raises(InputError, match=rf"needs 12.43 GB .* capacity={steps} fits, or .*'host'"):
        WALKER.check_fits(5 * 10**9, "cuda:0")
    WALKER.check_fits(WALKER.bytes, "cuda:0")
    with pytest.raises(InputError) as refusal:
        WALKER.check_fits(5 * 10**9, HOST)
    assert "storage" not in str(refusal.value), "the frames are there already"


def test_a_ring_beyond_all_integers_of_the_machine_is_refused_like_others():
    steps = WALKER.largest(5 * 10**9)
    with pytest.raises(InputError, match=f"capacity={steps} fits"):
        replace(WALKER, rows=10**19).check_fits(5 * 10**9, "cuda:0")


def test_no_capacity_is_named_if_none_fits():
    with pytest.raises(InputError, match="1.00 kB to spare; use fewer worlds, or .*'host'"):
        WALKER.check_fits(1000, "cuda:0")


def test_a_replay_checks_the_free_memory(monkeypatch):
    monkeypatch.setattr("pureward.data.replay.replay.claimable_bytes", lambda device: 10_000)
    sizes = {"worlds": 2, "horizon": 100, "state_size": 4, "action_size": 1}
    with pytest.raises(InputError, match="1,000,000 steps .* host memory has 10.00 kB"):
        Replay(ReplayConfig(), **sizes)
    Replay(ReplayConfig(capacity=100), **sizes)


def test_the_line_for_the_log_has_steps_and_bytes():
    sizes = {"worlds": 2, "horizon": 100, "state_size": 4, "action_size": 1}
    assert Replay(ReplayConfig(capacity=2000), **sizes).describe() == (
        "replay of 2,000 steps (1,000 rows × 2 worlds) on cpu: 64.82 kB, no frames"
    )


def test_free_memory_is_read_from_the_machine_and_its_container(tmp_path: Path):
    (tmp_path / "meminfo").write_text("MemTotal: 99 kB\nMemAvailable:    12 kB\n")
    assert layouts._machine_free(tmp_path / "meminfo") == 12 * 1024
    assert layouts._machine_free(tmp_path / "none") is None
    assert layouts._group_free(tmp_path) is None
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("40\n")
    assert layouts._group_free(tmp_path) is None
    (tmp_path / "memory.max").write_text("100\n")
    assert layouts._group_free(tmp_path) == 60
    (tmp_path / "memory.stat").write_text("anon 9\nfile 31\ninactive_file 30\nactive_file 1\n")
    assert layouts._group_free(tmp_path) == 90, "page cache can be reclaimed"
    known = claimable_bytes(torch.device("cpu"))
    assert known is None or known > 0
