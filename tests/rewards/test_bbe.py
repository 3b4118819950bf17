# SPDX-License-Identifier: Apache-2.0
"""Best-bin estimate, weights by trajectory and AUC against numbers computed by hand."""

from math import log, sqrt

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pureward.errors import InputError
from pureward.rewards.priors.estimators import (
    Sample,
    auc,
    best_bin,
    consecutive_labels,
    interval,
    resample,
)


def uniform(*scores: float) -> Sample:
    """Frames with equal weights, one row."""
    logits = torch.tensor(scores, dtype=torch.float64)
    weights = torch.full((1, len(logits)), 1 / len(logits), dtype=torch.float64)
    return Sample(logits, weights, torch.tensor(1))


def with_weights(scores: list[float], *rows: list[float]) -> Sample:
    weights = torch.tensor(rows, dtype=torch.float64)
    return Sample(torch.tensor(scores, dtype=torch.float64), weights, torch.tensor(1))


def spelled_out(positive: list[float], unlabeled: list[float]) -> float:
    """The definition, threshold by threshold."""
    error = sum(sqrt(log(40) / (2 * len(scores))) for scores in (positive, unlabeled))
    bounds = []
    for c in positive + unlabeled:
        q_p, q_u = (sum(s >= c for s in kind) / len(kind) for kind in (positive, unlabeled))
        if q_p > 0:
            bounds.append(((q_u + 1.01 * error) / q_p, q_u / q_p))
    return min(1.0, min(bounds)[1])


def test_best_bin_by_hand():
    """Every threshold below 1 lets more unlabeled through; above 2 fewer positives pass."""
    positive, unlabeled = uniform(1.0, 1.0, 2.0, 2.0), uniform(2.0, 0.0, 0.0, -1.0)
    # c = 1: q_p = 1, q_u = 1/4; c = 2: q_p = 1/2, q_u = 1/4; the bound charges the second double.
    assert best_bin(positive, unlabeled).tolist() == [0.25]


def test_few_scores_do_not_select_the_smallest_ratio():
    """No unlabeled passes c = 2, three in four pass c = 0: six scores are not enough for c = 2.

    The errors are √(ln 40/4) + √(ln 40/8) = 1.64: c = 2 is charged 3.31/1, c = 0 only
    0.75 + 1.66. With 500 times as many of each the errors are 0.073 and c = 2 wins.
    """
    positive, unlabeled = [2.0, 0.0], [0.0, 0.0, 0.0, -1.0]
    assert best_bin(uniform(*positive), uniform(*unlabeled)).tolist() == [0.75]
    assert best_bin(uniform(*500 * positive), uniform(*500 * unlabeled)).tolist() == [0.0]


@pytest.mark.parametrize(("top", "estimate"), [(0.3627, 0.7254), (0.363, 1.0)])
def test_bins_are_compared_by_their_upper_bounds(top, estimate):
    """Above c = 2 are half of 100 positives and a share t of 100 unlabeled; above c = 1 all.

    The bounds are 2·(t + e) and 1 + e: the top wins where t < (1 − e)/2. With ln(4/0.1) = 3.68888
    e is 1.01·2·√(3.68888/200) = 0.274339, so at t = 0.36283.
    """
    scores, half = [2.0] * 50 + [1.0] * 50, [0.02] * 50
    positive = with_weights(scores, [0.01] * 100)
    unlabeled = with_weights(
        scores, [top * one for one in half] + [(1 - top) * one for one in half]
    )
    assert best_bin(positive, unlabeled).tolist() == pytest.approx([estimate])


def test_equal_scores_pass_together():
    """One score for all: whichever set the sort puts first, all pass or none."""
    assert best_bin(uniform(0.0, 0.0), uniform(0.0, 0.0, 0.0)).tolist() == [1.0]
    assert best_bin(uniform(0.0), uniform(-1.0, 0.0)).tolist() == [0.5]


def test_rows_of_weights_are_separate_estimates():
    positive = with_weights([1.0, 1.0], [0.5, 0.5], [0.5, 0.5])
    unlabeled = with_weights([1.0, 0.0], [0.5, 0.5], [0.1, 0.9])
    assert best_bin(positive, unlabeled).tolist() == pytest.approx([0.5, 0.1])


scores = st.lists(
    st.integers(-4, 4).map(float) | st.floats(-5, 5, width=32), min_size=1, max_size=12
)


@given(scores, scores)
@settings(max_examples=60, deadline=None)
def test_vectorised_estimate_equals_the_definition(positive, unlabeled):
    got = float(best_bin(uniform(*positive), uniform(*unlabeled)))
    assert got == pytest.approx(spelled_out(positive, unlabeled), abs=1e-9)


@given(scores, scores, st.floats(0.1, 3), st.floats(-2, 2))
@settings(max_examples=40, deadline=None)
def test_only_the_order_of_scores_counts(positive, unlabeled, factor, shift):
    moved = [[round(factor * s, 3) + shift for s in kind] for kind in (positive, unlabeled)]
    order = [sorted(set(kind_a + kind_b)) for kind_a, kind_b in ((positive, unlabeled), moved)]
    if len(order[0]) != len(order[1]):  # rounding made ties of the moved ones
        return
    a = best_bin(uniform(*positive), uniform(*unlabeled))
    b = best_bin(*(uniform(*m) for m in moved))
    assert float(a) == pytest.approx(float(b), abs=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_mixtures_of_two_gaussians_are_estimated(share):
    rng = torch.Generator().manual_seed(0)
    successes = int(share * 4000)
    unlabeled = torch.randn(4000, generator=rng) - 2
    unlabeled[:successes] += 4
    held_out = torch.randn(2000, generator=rng) + 2
    estimate = float(best_bin(uniform(*held_out.tolist()), uniform(*unlabeled.tolist())))
    assert estimate == pytest.approx(share, abs=0.03)


# Weights.


def test_labels_are_renumbered_in_sorted_order():
    assert consecutive_labels(torch.tensor([7, 3, 7, -2, 3])).tolist() == [2, 1, 2, 0, 1]
    assert consecutive_labels(torch.tensor([5])).tolist() == [0]


def test_frames_of_a_trajectory_share_their_weight():
    episodes = torch.tensor([4, 9, 4, 9, 9])
    rng = torch.Generator().manual_seed(0)
    sample = resample("unlabeled", torch.zeros(5), episodes, 3, rng)
    assert int(sample.episodes) == 2
    assert sample.weights.shape == (4, 5)
    assert sample.weights[0].tolist() == pytest.approx([0.2] * 5)
    assert torch.allclose(sample.weights.sum(1), torch.ones(4, dtype=torch.float64))
    for row in sample.weights[1:]:
        assert row[0] == row[2]
        assert row[1] == row[3] == row[4]
        assert row[0] != row[1]


@pytest.mark.parametrize(("first", "ends"), [(0.4, (0.2, 0.6)), (0.25, (0.1, 0.4))])
def test_interval_contains_the_quantiles_and_their_reflection(first, ends):
    """The middle half of 0.1, 0.2 … 0.5 is 0.2 to 0.4; about 0.4 its image is 0.4 to 0.6."""
    rows = torch.tensor([first, 0.3, 0.1, 0.5, 0.2, 0.4])
    assert [float(end) for end in interval(rows, share=0.5)] == pytest.approx(ends)


def test_interval_is_as_wide_as_the_spread_of_trajectory_means():
    """A mean over 50 trajectories of 20 equal frames: ±1.96·σ/√50, not ±1.96·σ/√1000."""
    rng = torch.Generator().manual_seed(1)
    values = torch.randn(50, generator=rng, dtype=torch.float64)
    values = 0.5 + 0.1 * (values - values.mean()) / values.std()
    frames, episodes = values.repeat_interleave(20), torch.arange(50).repeat_interleave(20)
    sample = resample("unlabeled", frames, episodes, 4000, rng)
    low, high = interval(sample.weights @ sample.logits)
    assert float(high - low) == pytest.approx(0.2 * 1.96 / 50**0.5, rel=0.1)
    assert float(low + high) == pytest.approx(1.0)  # a mirror image about the estimate


def test_interval_reaches_1_although_no_resample_does():
    """Of 0, 0.01, …, 1 shrunk below 0.9: the middle 90% is 0.045 to 0.855, mirrored about 0.9."""
    rows = torch.cat([torch.tensor([0.9]), torch.linspace(0, 0.9, 101)]).double()
    low, high = interval(rows, 0.9)
    assert (float(low), float(high)) == pytest.approx((0.045, 1.0))
    low, high = interval(1 - rows, 0.9)
    assert (float(low), float(high)) == pytest.approx((0.0, 0.955))


def test_scores_without_episodes_are_rejected():
    rng = torch.Generator()
    with pytest.raises(InputError, match=r"unlabeled logits and their episodes.*\(3,\) and \(2,\)"):
        resample("unlabeled", torch.zeros(3), torch.zeros(2, dtype=torch.int64), 2, rng)
    with pytest.raises(InputError, match="held-out positive logits and their episodes"):
        empty = torch.zeros(0)
        resample("held-out positive", empty, empty.long(), 2, rng)


# AUC.


def test_auc_by_hand():
    p, u = torch.tensor([2.0, 1.0]), torch.tensor([1.0, 0.0, 3.0])
    # 2 beats 1 and 0; 1 beats 0 and ties with 1.
    assert float(auc(p, u)) == pytest.approx((2 + 1.5) / 6)


@given(scores, scores)
@settings(max_examples=40, deadline=None)
def test_auc_of_swapped_sets_is_the_complement(positive, unlabeled):
    p, u = torch.tensor(positive), torch.tensor(unlabeled)
    assert float(auc(p, u)) + float(auc(u, p)) == pytest.approx(1)
    pairs = [(a > b) + 0.5 * (a == b) for a in positive for b in unlabeled]
    assert float(auc(p, u)) == pytest.approx(sum(pairs) / len(pairs))
