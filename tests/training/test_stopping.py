# SPDX-License-Identifier: Apache-2.0
"""Signals end a run after its present step."""

import signal
from collections.abc import Iterator

import pytest

from pureward.training.stopping import StopSignal


class AtOnceError(Exception):
    """What the handler beneath does in place of an end."""


@pytest.fixture(autouse=True)
def _handlers_that_raise() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    def raise_at_once(*_: object) -> None:
        raise AtOnceError

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.signal(number, raise_at_once) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_child_that_hears_of_the_end_twice_still_writes_its_checkpoint() -> None:
    with StopSignal() as stop:
        assert not stop.asked
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert stop.asked


def test_a_terminal_that_is_closed_ends_a_run_unless_nohup_keeps_it() -> None:
    with StopSignal() as stop:
        signal.raise_signal(signal.SIGHUP)
        assert stop.asked
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with StopSignal() as stop:
        signal.raise_signal(signal.SIGHUP)
        assert not stop.asked


def test_a_second_ctrl_c_stops_at_once() -> None:
    with StopSignal() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.asked
        with pytest.raises(AtOnceError):
            signal.raise_signal(signal.SIGINT)


def test_afterwards_signals_are_as_before() -> None:
    with StopSignal():
        pass
    with pytest.raises(AtOnceError):
        signal.raise_signal(signal.SIGTERM)
