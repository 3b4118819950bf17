# SPDX-License-Identifier: Apache-2.0
"""Priors over a run."""

import numpy as np
import pytest

from pureward.errors import InputError
from pureward.rewards.priors.prior import (
    Evidence,
    FixedPrior,
    LinearPrior,
    ReturnPrior,
    parse_prior,
)


def test_fixed():
    assert parse_prior("0.25") == FixedPrior(value=0.25)
    assert parse_prior("0.25")(Evidence(progress=0.9)) == 0.25


def test_a_number_is_a_fixed_prior():
    for number in (0.25, np.float32(0.25), np.float64(0.25)):
        assert parse_prior(number) == FixedPrior(value=0.25)
    for wrong in (1, 0.0, float("nan"), True):
        with pytest.raises(InputError, match=r"must lie inside \(0, 1\)"):
            parse_prior(wrong)
    for neither in (None, [0.5]):
        with pytest.raises(InputError, match="a prior is written"):
            parse_prior(neither)  # type: ignore[arg-type]


def test_linear_by_hand():
    prior = parse_prior("linear:0.1:0.7")
    assert prior == LinearPrior(start=0.1, end=0.7)
    values = [prior(Evidence(progress=p)) for p in (0.0, 0.5, 1.0, 1.5)]
    assert values == pytest.approx([0.1, 0.4, 0.7, 0.7])


def test_return_by_hand():
    prior = parse_prior("return:0.1:0.9:100:900")
    assert prior == ReturnPrior(start=0.1, end=0.9, low_return=100, high_return=900)
    values = [prior(Evidence(probe_return=r)) for r in (None, 0.0, 300.0, 900.0, 2000.0)]
    assert values == pytest.approx([0.1, 0.1, 0.3, 0.9, 0.9])


@pytest.mark.parametrize(
    "text", ["", "half", "linear:0.1", "linear:0.1:0.2:0.3", "return:1:2", "0.5:0.5", "linear:a:b"]
)
def test_unreadable(text):
    with pytest.raises(InputError, match="a prior is written"):
        parse_prior(text)


@pytest.mark.parametrize("text", ["0.25", "linear:0.1:0.7", "return:0.1:0.9:100:900"])
def test_what_is_not_estimated_asks_for_no_scores(text):
    assert not parse_prior(text).needs_scores


@pytest.mark.parametrize(
    "text",
    [
        *("0", "1", "-0.2", "nan", "linear:0:0.5", "linear:0.5:1"),
        *("return:0:0.5:1:2", "return:0.5:1:1:2"),
    ],
)
def test_out_of_range(text):
    with pytest.raises(InputError, match=r"must lie inside \(0, 1\)"):
        parse_prior(text)


def test_empty_range_of_returns():
    with pytest.raises(InputError, match="low_return must be below high_return"):
        parse_prior("return:0.1:0.9:5:5")
