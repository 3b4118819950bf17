# SPDX-License-Identifier: Apache-2.0
"""Signals request the end of a run after its current step."""

import signal
from collections.abc import Iterator

import pytest

from pureward.training.stopping import StopSignal


class ImmediateError(Exception):
    """Raised by the handler that `StopSignal` replaces."""


@pytest.fixture(autouse=True)
def _handlers_that_raise() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    def raise_error(*_: object) -> None:
        raise ImmediateError

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.signal(number, raise_error) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_second_sigterm_is_ignored() -> None:
    with StopSignal() as stop:
        assert not stop.requested
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert stop.requested


def test_sighup_stops_a_run_unless_nohup_ignores_it() -> None:
    with StopSignal() as stop:
        signal.raise_signal(signal.SIGHUP)
        assert stop.requested
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with StopSignal() as stop:
        signal.raise_signal(signal.SIGHUP)
        assert not stop.requested


def test_a_second_ctrl_c_stops_immediately() -> None:
    with StopSignal() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.requested
        with pytest.raises(ImmediateError):
            signal.raise_signal(signal.SIGINT)


def test_handlers_are_restored() -> None:
    with StopSignal():
        pass
    with pytest.raises(ImmediateError):
        signal.raise_signal(signal.SIGTERM)
