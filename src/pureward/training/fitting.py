# SPDX-License-Identifier: Apache-2.0
"""The fit of a reward model, with a bar, until it ends or a stop is requested."""

from collections.abc import Callable
from typing import TypeVar

from pureward.progress import Progress
from pureward.rewards.regression import Pass, RewardModel
from pureward.training.stopping import StopSignal

T = TypeVar("T")


class _StoppedError(Exception):
    """Ends a fit from within."""


def fit_until_stopped(
    model: RewardModel,
    fit: Callable[[Callable[[Pass], None]], T],
    stop: StopSignal,
    after_pass: Callable[[Pass], None] = lambda done: None,
) -> T | None:
    """Return what `fit` returns, or None if a stop was requested.

    Args:
        model: the reward model that is fitted.
        fit: fits it, and calls its argument after each pass over the data.
        stop: ends the fit after the current pass.
        after_pass: is called after each pass too.
    """
    total = model.config.epochs * len(model.networks)
    with Progress(total=total, desc="reward model", unit="pass", leave=False) as bar:

        def passed(done: Pass) -> None:
            bar.update()
            bar.set_postfix(error=done.fitting_error, held_out=done.held_out_error)
            after_pass(done)
            if stop.requested:
                raise _StoppedError

        try:
            return fit(passed)
        except _StoppedError:
            return None
