# SPDX-License-Identifier: Apache-2.0
"""The risk with known failures by hand, and why the paper's printed combination is not used.

Logits and their exact losses are those of test_risk.py.
"""

from math import log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pureward.errors import InputError
from pureward.rewards.priors.estimators import Sample, adjusted_count
from pureward.rewards.risks.pu import label_risk, nnpnu, nnpu, pn

LN2, LN3, LN4, LN43 = log(2), log(3), log(4), log(4 / 3)


def logits(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def positives() -> torch.Tensor:
    return logits(LN3, 0.0)  # R¹ = (ln 4/3 + ln 2)/2, R⁰ = (ln 4 + ln 2)/2


def unlabeled() -> torch.Tensor:
    return logits(0.0, -LN3, -LN3)  # R⁰ = (ln 2 + 2 ln 4/3)/3


def failures() -> torch.Tensor:
    return logits(-LN3, LN3)  # R⁰ = (ln 4/3 + ln 4)/2


def numbers(result) -> list[float]:
    return [float(member.detach()) for member in result]


def test_kept_branch_by_hand():
    positive = 0.3 * (LN43 + LN2) / 2
    known = 0.25 * 0.7 * (LN43 + LN4) / 2
    hidden = 0.75 * ((LN2 + 2 * LN43) / 3 - 0.3 * (LN4 + LN2) / 2)
    assert hidden > 0
    total = positive + known + hidden
    result = nnpnu(
        positives(), unlabeled(), failure_logits=failures(), failure_weight=0.25, prior=0.3
    )
    assert numbers(result) == pytest.approx([total, total, positive, known + hidden, 0])


def test_an_estimated_part_of_exactly_minus_slack_is_not_violated():
    """Sigmoid losses to the bit: ½·(0 − ½·½) = −⅛."""
    settings = {"failure_logits": failures(), "failure_weight": 0.5, "prior": 0.5}
    settings |= {"slack": 0.125, "loss": "sigmoid"}
    never = logits(-1000.0, -1000.0)
    assert not nnpnu(logits(0.0, 0.0), never, **settings).violated
    assert nnpnu(logits(0.0, 1e-3), never, **settings).violated


@pytest.mark.parametrize(
    ("agent", "share"), [(0.0, 0.5), (LN3, 1.0), (2 * LN3, 1.0), (-LN3, 0.0), (-2 * LN3, 0.0)]
)
def test_adjusted_count_by_hand(agent, share):
    """D is ¾ on positives and ¼ on failures; estimates are clamped to [0, 1]."""
    whole, one = torch.ones(1, 1, dtype=torch.float64), torch.tensor(1)
    kinds = [Sample(logits(f).detach(), whole, one) for f in (LN3, agent, -LN3)]
    assert adjusted_count(*kinds).tolist() == pytest.approx([share])


def test_even_classes_by_hand():
    """η = 0.3: successes weigh ½, known and estimated failures together ½ and not 0.7."""
    positive = 0.5 * (LN43 + LN2) / 2
    known = 0.25 * 0.5 * (LN43 + LN4) / 2
    hidden = 0.75 * 0.5 / 0.7 * ((LN2 + 2 * LN43) / 3 - 0.3 * (LN4 + LN2) / 2)
    total = positive + known + hidden
    settings = {"failure_logits": failures(), "failure_weight": 0.25, "prior": 0.3, "even": True}
    result = nnpnu(positives(), unlabeled(), **settings)
    assert numbers(result) == pytest.approx([total, total, positive, known + hidden, 0])


def test_violated_branch_by_hand_bounds_only_the_unlabeled_part():
    positive = 0.5 * (LN43 + LN2) / 2
    known = 0.25 * 0.5 * (LN43 + LN4) / 2
    hidden = 0.75 * ((LN2 + 2 * LN43) / 3 - 0.5 * (LN4 + LN2) / 2)
    assert hidden < -0.01
    assert known + hidden > 0  # a bound on the whole failure part would not have noticed
    p, u, n = positives(), unlabeled(), failures()
    result = nnpnu(
        p, u, failure_logits=n, failure_weight=0.25, prior=0.5, slack=0.01, step_back=0.5
    )
    expected = [positive + known - 0.01, -0.5 * hidden, positive, known + hidden, 1]
    assert numbers(result) == pytest.approx(expected)
    by_p, by_u, by_n = torch.autograd.grad(result.objective, (p, u, n), allow_unused=True)
    assert (by_u < 0).all()  # descent raises the unlabeled
    assert (by_p > 0).all()  # and lowers the positives
    assert by_n is None or (by_n == 0).all()


batch = st.lists(st.floats(-6, 6), min_size=1, max_size=6)


@given(batch, batch, batch, st.floats(0.05, 0.95), st.sampled_from(["logistic", "sigmoid"]))
@settings(max_examples=40, deadline=None)
def test_weight_0_is_nnpu_and_weight_1_is_pn(p, u, n, prior, loss):
    p, u, n = (torch.tensor(x, dtype=torch.float64) for x in (p, u, n))
    none = nnpnu(p, u, failure_logits=n, failure_weight=0.0, prior=prior, loss=loss)
    assert numbers(none) == pytest.approx(numbers(nnpu(p, u, prior=prior, loss=loss)), abs=1e-12)
    all_of_it = nnpnu(p, u, failure_logits=n, failure_weight=1.0, prior=prior, loss=loss)
    expected = pn(p, n, prior=prior, loss=loss)
    assert float(all_of_it.value) == pytest.approx(float(expected.value), abs=1e-12)


def printed_pnu(p, u, n, prior, loss):
    """The paper's R¹(U) + R⁰(U) − η·R⁰(P) − (1−η)·R¹(N)."""
    mixed = label_risk(u, 1, loss) + label_risk(u, 0, loss)
    return mixed - prior * label_risk(p, 0, loss) - (1 - prior) * label_risk(n, 1, loss)


@given(batch, batch, batch, st.floats(0.05, 0.95))
@settings(max_examples=40, deadline=None)
def test_the_printed_combination_cancels_the_unlabeled_for_symmetric_losses(p, u, n, prior):
    """σ(f) + σ(−f) = 1: U adds a constant, and what is left is the positive-negative risk."""
    p, u, n = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (p, u, n))
    symmetric = printed_pnu(p, u, n, prior, "sigmoid")
    by_u = torch.autograd.grad(symmetric, u)[0]
    assert torch.allclose(by_u, torch.zeros_like(by_u), atol=1e-12)
    plain = prior * label_risk(p, 1, "sigmoid") + (1 - prior) * label_risk(n, 0, "sigmoid")
    assert symmetric.item() == pytest.approx(plain.item(), abs=1e-9)


def test_the_printed_combination_pulls_unlabeled_d_to_one_half_for_the_logistic_loss():
    u = logits(2.0, -1.0)
    by_u = torch.autograd.grad(printed_pnu(positives(), u, failures(), 0.4, "logistic"), u)[0]
    assert torch.allclose(by_u, torch.tanh(u / 2) / 2)  # towards 0 from either side


def test_nnpnu_depends_on_the_unlabeled_for_symmetric_losses():
    u = unlabeled()
    result = nnpnu(positives(), u, failure_logits=failures(), prior=0.3, loss="sigmoid")
    assert (torch.autograd.grad(result.objective, u)[0] != 0).all()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"failure_logits": None}, "nnpnu needs failure_logits"),
        ({"failure_logits": torch.zeros(0)}, "failure_logits must hold at least one"),
        ({"failure_logits": torch.tensor([float("nan")])}, "failure_logits must be finite"),
        ({"failure_weight": 1.5}, r"failure_weight must lie in \[0, 1\], got 1.5"),
        ({"failure_weight": "0.2"}, r"failure_weight must lie in \[0, 1\], got '0.2'"),
        ({"prior": 0.0}, "prior must lie inside"),
        ({"even": "no"}, "even must be True or False, got 'no'"),
    ],
)
def test_bad_input_is_rejected(change, sentence):
    good = {"failure_logits": torch.zeros(2), "prior": 0.5}
    with pytest.raises(InputError, match=sentence):
        nnpnu(torch.zeros(2), torch.zeros(2), **(good | change))
