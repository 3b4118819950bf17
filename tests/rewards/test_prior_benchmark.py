# SPDX-License-Identifier: Apache-2.0
"""What the validation of the priors mixes is what it says, and its rivals start fairly."""

import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("sklearn")


@pytest.fixture
def parts(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import prior_course
    import prior_digits
    import prior_report
    import prior_rivals

    yield prior_course, prior_digits, prior_report, prior_rivals
    for name in [name for name in sys.modules if name.startswith("prior_")]:
        del sys.modules[name]


def test_unlabeled_digits_hold_the_share_and_none_of_the_labelled(parts):
    _, digits, _, _ = parts
    problem = digits.PROBLEMS["scikit-learn 0–4 / 5–9"]
    images, labels = digits.images_and_labels("sklearn")
    p, u = digits.drawn(problem, 0.25, 0)
    assert (len(p), len(u)) == (problem.labelled, problem.unlabeled)
    # Components of distinct images differ, so equal rows would be one image drawn twice.
    rows = {tuple(row.tolist()) for row in torch.cat([p, u]).round(decimals=3)}
    repeats = len(images) - len({tuple(row.tolist()) for row in images})
    assert len(rows) >= len(p) + len(u) - repeats
    assert (labels <= 4).sum() >= problem.labelled + 0.95 * problem.unlabeled


def test_buffers_hold_the_share_and_share_no_episode(parts):
    course, _, _, _ = parts
    number = torch.arange(400).view(-1, 1, 1, 1, 1)
    rng = torch.Generator().manual_seed(0)
    for share in (0.0, 0.3, 1.0):
        first, second = course._buffers(number[:200], number[200:], share, rng)
        for part in (first, second):
            assert float((part < 200).float().mean()) == pytest.approx(share)
        assert len(torch.cat([first, second]).unique()) == 2 * course.BUFFER


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_rivals_find_the_share_of_well_separated_scores(parts, share):
    _, digits, _, rivals = parts
    rng = torch.Generator().manual_seed(0)
    # The logit of a calibrated classifier that weighs P and U alike: −log α on successes.
    noise = 0.05 * torch.randn(3000, generator=rng)
    top = -torch.log(torch.tensor(share))
    p = top + noise[:1000]
    u = torch.where(torch.rand(2000, generator=rng) < share, top, -8.0) + noise[1000:]
    for name, rule in rivals.ON_SCORES.items():
        assert rule(p, u) == pytest.approx(share, abs=0.06), name
    value, low, high = digits.ours(p, u)
    assert value == pytest.approx(share, abs=0.04)
    assert low < share < high


def test_summaries_by_hand(parts):
    *_, report, _ = parts
    assert report.error({"0.5": [0.4, 0.5], "0.2": [0.25, 0.2]}) == pytest.approx(0.0375)
    assert report.covered([(0.5, 0.4, 0.6), (0.5, 0.6, 0.7)]) == 0.5
    course = [
        {"share": s, "smoothed": v, "value": v, "low": 0.0, "high": 1.0}
        for s, v in ((0.8, 0.7), (0.3, 0.6), (0.3, 0.38), (0.5, 0.4))
    ]
    summary = report.drift_summary([course])
    assert summary["answers_to_settle_after_the_drop"] == [2]
    assert summary["smoothed_error"] == pytest.approx((0.1 + 0.3 + 0.08 + 0.1) / 4)
    assert summary["fixed_half_error"] == pytest.approx((0.3 + 0.2 + 0.2 + 0.0) / 4)
