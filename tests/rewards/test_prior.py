# SPDX-License-Identifier: Apache-2.0
"""Priors over a run."""

import numpy as np
import pytest

from pureward.errors import InputError
from pureward.rewards.priors import PRIORS, FixedPrior, PriorData, parse_prior


def test_fixed():
    assert parse_prior("0.25") == FixedPrior(value=0.25)
    assert parse_prior("0.25")(PriorData()) == 0.25


def test_a_number_is_a_fixed_prior():
    for number in (0.25, np.float32(0.25), np.float64(0.25)):
        assert parse_prior(number) == FixedPrior(value=0.25)
    for wrong in (1, 0.0, float("nan"), True):
        with pytest.raises(InputError, match=r"must lie inside \(0, 1\)"):
            parse_prior(wrong)
    for neither in (None, [0.5]):
        with pytest.raises(InputError, match="a prior is a number such as"):
            parse_prior(neither)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "half", "bbe:0.1:0.2:0.3", "0.5:0.5", "bbe:a:b"])
def test_unreadable(text):
    with pytest.raises(InputError, match="a prior is a number such as"):
        parse_prior(text)


def test_a_fixed_prior_wants_no_data():
    assert not parse_prior("0.25").wants


@pytest.mark.parametrize("text", ["0", "1", "-0.2", "nan"])
def test_out_of_range(text):
    with pytest.raises(InputError, match=r"must lie inside \(0, 1\)"):
        parse_prior(text)


def test_a_registered_prior(monkeypatch):
    def halves(times: float) -> FixedPrior:
        return FixedPrior(value=0.5**times)

    monkeypatch.setitem(PRIORS, "halves", halves)
    assert parse_prior("halves:3") == FixedPrior(value=0.125)
    with pytest.raises(InputError, match="one of bbe, acc, halves with its numbers"):
        parse_prior("halves:3:4")
