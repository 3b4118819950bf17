# SPDX-License-Identifier: Apache-2.0
"""Eqs. 3–9 and both branches of Algorithm 1 against numbers computed by hand.

The logits are 0 and ±ln 3, whose losses are exact: softplus(0) = ln 2,
softplus(ln 3) = ln 4, softplus(−ln 3) = ln 4/3; sigmoid gives 1/2, 3/4, 1/4.
"""

from math import log

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pureward.errors import InputError
from pureward.rewards.risks import pu as risk

LN2, LN3, LN4, LN43 = log(2), log(3), log(4), log(4 / 3)
RISKS = [risk.pn, risk.upu, risk.nnpu]


def logits(*values: float, grad: bool = False) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64, requires_grad=grad)


def positives(grad: bool = False) -> torch.Tensor:
    return logits(LN3, 0.0, grad=grad)  # R¹ = (ln 4/3 + ln 2)/2, R⁰ = (ln 4 + ln 2)/2


def unlabeled(grad: bool = False) -> torch.Tensor:
    return logits(0.0, -LN3, -LN3, grad=grad)  # R⁰ = (ln 2 + 2 ln 4/3)/3


def numbers(result: risk.Risk) -> list[float]:
    return [float(member) for member in result]


def test_label_risk_by_hand():
    assert float(risk.label_risk(positives(), 1)) == pytest.approx((LN43 + LN2) / 2)
    assert float(risk.label_risk(positives(), 0)) == pytest.approx((LN4 + LN2) / 2)
    assert float(risk.label_risk(positives(), 1, "sigmoid")) == pytest.approx(3 / 8)
    assert float(risk.label_risk(unlabeled(), 0, "sigmoid")) == pytest.approx(1 / 3)


def test_pn_by_hand():
    positive = 0.4 * (LN43 + LN2) / 2
    negative = 0.6 * (LN2 + 2 * LN43) / 3
    expected = [positive + negative, positive + negative, positive, negative, 0]
    assert numbers(risk.pn(positives(), unlabeled(), prior=0.4)) == pytest.approx(expected)


def test_pn_at_one_half_is_half_of_gails_objective():
    d_expert, d_agent = positives().sigmoid(), unlabeled().sigmoid()
    gail = -(d_expert.log().mean() + (1 - d_agent).log().mean())
    assert float(risk.pn(positives(), unlabeled()).value) == pytest.approx(0.5 * float(gail))


def test_upu_by_hand():
    positive = 0.5 * (LN43 + LN2) / 2
    negative = (LN2 + 2 * LN43) / 3 - 0.5 * (LN4 + LN2) / 2
    assert negative < 0
    expected = [positive + negative, positive + negative, positive, negative, 1]
    assert numbers(risk.upu(positives(), unlabeled(), prior=0.5)) == pytest.approx(expected)


def test_upu_has_a_lower_bound_where_d_is_certain():
    """−η·mean(f) is unbounded below; the gradient of a positive is zero above f = 16."""
    p = torch.tensor([20.0, 1e20, 15.0], requires_grad=True)
    result = risk.upu(p, torch.tensor([-30.0, -30.0]), prior=0.5)
    assert float(result.value) == pytest.approx(-0.5 * (16 + 16 + 15) / 3)
    (gradient,) = torch.autograd.grad(result.objective, p)
    assert gradient.tolist() == pytest.approx([0.0, 0.0, -0.5 / 3])


def test_nnpu_kept_branch_by_hand():
    positive = 0.3 * (LN43 + LN2) / 2
    negative = (LN2 + 2 * LN43) / 3 - 0.3 * (LN4 + LN2) / 2
    assert negative > 0
    expected = [positive + negative, positive + negative, positive, negative, 0]
    assert numbers(risk.nnpu(positives(), unlabeled(), prior=0.3)) == pytest.approx(expected)


def test_nnpu_violated_branch_by_hand():
    positive = 0.5 * (LN43 + LN2) / 2
    negative = (LN2 + 2 * LN43) / 3 - 0.5 * (LN4 + LN2) / 2
    result = risk.nnpu(positives(), unlabeled(), prior=0.5, slack=0.01, step_back=0.25)
    expected = [positive - 0.01, -0.25 * negative, positive, negative, 1]
    assert numbers(result) == pytest.approx(expected)


def test_nnpu_slack_keeps_a_small_violation_in_the_first_branch():
    positive = 0.5 * (LN43 + LN2) / 2
    negative = (LN2 + 2 * LN43) / 3 - 0.5 * (LN4 + LN2) / 2
    assert -0.2 < negative < 0
    result = risk.nnpu(positives(), unlabeled(), prior=0.5, slack=0.2)
    expected = [positive + negative, positive + negative, positive, negative, 0]
    assert numbers(result) == pytest.approx(expected)


@pytest.mark.parametrize("function", [risk.upu, risk.nnpu])
def test_a_negative_part_of_exactly_minus_slack_is_not_violated(function):
    """Algorithm 1 has ≥ −β. Sigmoid losses to the bit: ¼ − ½·½ = 0, and 0 − ½·½ = −¼."""
    for slack, u in ((0.0, logits(0.0, -1000.0)), (0.25, logits(-1000.0, -1000.0))):
        kept = function(logits(0.0, 0.0), u, prior=0.5, slack=slack, loss="sigmoid")
        assert float(kept.negative) == -slack
        assert not kept.violated
        assert function(logits(0.0, 1e-3), u, prior=0.5, slack=slack, loss="sigmoid").violated


def test_even_risks_by_hand():
    """η = 0.2: successes weigh ½, and failures among the unlabeled ½, not 0.8."""
    positive = 0.5 * (LN43 + LN2) / 2
    unmixed = (LN2 + 2 * LN43) / 3 - 0.2 * (LN4 + LN2) / 2
    assert unmixed > 0
    negative = 0.5 / 0.8 * unmixed
    expected = [positive + negative, positive + negative, positive, negative, 0]
    for function in (risk.upu, risk.nnpu):
        result = function(positives(), unlabeled(), prior=0.2, even=True)
        assert numbers(result) == pytest.approx(expected)


def test_the_violated_branch_of_an_even_risk_by_hand():
    """η = 0.8: the negative part is below zero and weighs 0.5/0.2."""
    negative = 2.5 * ((LN2 + 2 * LN43) / 3 - 0.8 * (LN4 + LN2) / 2)
    result = risk.nnpu(positives(), unlabeled(), prior=0.8, step_back=0.5, even=True)
    positive = 0.5 * (LN43 + LN2) / 2
    assert numbers(result) == pytest.approx([positive, -0.5 * negative, positive, negative, 1])


@pytest.mark.parametrize(("prior", "violated"), [(0.5, False), (0.8, True)])
def test_nnpu_sigmoid_loss_by_hand(prior: float, violated: bool):
    positive, negative = prior * 3 / 8, 1 / 3 - prior * 5 / 8
    result = risk.nnpu(positives(), unlabeled(), prior=prior, loss="sigmoid")
    objective = -negative if violated else positive + negative
    expected = [positive + max(0, negative), objective, positive, negative, float(violated)]
    assert numbers(result) == pytest.approx(expected)


def gradients(function, **settings) -> tuple[list[float], list[float]]:
    p, u = positives(grad=True), unlabeled(grad=True)
    function(p, u, **settings).objective.backward()
    assert p.grad is not None
    assert u.grad is not None
    return p.grad.tolist(), u.grad.tolist()


def test_gradients_by_hand():
    # σ(ln 3) = 3/4, σ(0) = 1/2, σ(−ln 3) = 1/4; ∂softplus(f) = σ(f), ∂softplus(−f) = −σ(−f).
    on_p, on_u = gradients(risk.pn, prior=0.4)
    assert on_p == pytest.approx([-0.4 * 1 / 4 / 2, -0.4 * 1 / 2 / 2])
    assert on_u == pytest.approx([0.6 * 1 / 2 / 3, 0.6 * 1 / 4 / 3, 0.6 * 1 / 4 / 3])
    for function in (risk.upu, risk.nnpu):  # the kept branch: −σ(−f) − σ(f) = −1 per positive
        on_p, on_u = gradients(function, prior=0.3)
        assert on_p == pytest.approx([-0.3 / 2, -0.3 / 2])
        assert on_u == pytest.approx([1 / 2 / 3, 1 / 4 / 3, 1 / 4 / 3])
    on_p, on_u = gradients(risk.nnpu, prior=0.5, step_back=0.5)  # violated: −γ·N alone
    assert on_p == pytest.approx([0.5 * 0.5 * 3 / 4 / 2, 0.5 * 0.5 * 1 / 2 / 2])
    assert on_u == pytest.approx([-0.5 * 1 / 2 / 3, -0.5 * 1 / 4 / 3, -0.5 * 1 / 4 / 3])


@pytest.mark.parametrize("function", RISKS)
@pytest.mark.parametrize("loss", ["logistic", "sigmoid"])
@pytest.mark.parametrize("prior", [0.2, 0.9])
@pytest.mark.parametrize("even", [False, True])
def test_gradcheck(function, loss, prior, even):
    p, u = positives(grad=True), unlabeled(grad=True)
    assert torch.autograd.gradcheck(
        lambda p, u: function(p, u, prior=prior, loss=loss, even=even).objective, (p, u)
    )


def test_only_the_objective_carries_gradient():
    result = risk.nnpu(positives(grad=True), unlabeled(grad=True), prior=0.5)
    assert [member.requires_grad for member in result] == [False, True, False, False, False]


# Known faults of public implementations, each with the check that it fails.


def per_sample_clipping(p, u, prior):
    r1, r0p, r0u = -p.sigmoid().log(), -(1 - p.sigmoid()).log(), -(1 - u.sigmoid()).log()
    return (prior * r1 + (r0u - prior * r0p).clamp(min=0)).mean()


def inverted_sign(p, u, prior):
    r1, r0p, r0u = (risk.label_risk(p, 1), risk.label_risk(p, 0), risk.label_risk(u, 0))
    return prior * r1 + (prior * r0p - r0u).clamp(min=0)


def swapped_expectations(p, u, prior):  # Eq. 11 as printed
    d_p, d_u = p.sigmoid(), u.sigmoid()
    inside = d_p.log().mean() - prior * d_u.log().mean()
    return prior * (1 - d_p).log().mean() + inside.clamp(min=0)


def positive_term_kept(p, u, prior):
    result = risk.nnpu(p, u, prior=prior)
    positive = prior * risk.label_risk(p, 1)
    return torch.where(result.violated, positive + result.objective, result.objective)


def ours(p, u, prior):
    return risk.nnpu(p, u, prior=prior).objective


def check_clipping_sees_the_batch(objective):
    """Half of U is like P, half is not: N = R⁰(U) − ½R⁰(P) ≈ 0, but not pair by pair."""
    p, u = logits(3.0, 3.0), logits(3.0, -3.0)
    r = {f: log(1 + 2.718281828459045**f) for f in (3.0, -3.0)}
    kept = 0.5 * r[-3.0] + (r[3.0] + r[-3.0]) / 2 - 0.5 * r[3.0]
    assert float(objective(p, u, 0.5)) == pytest.approx(kept)


def check_descent_separates(objective):
    """While N ≥ 0, descent raises positives and lowers the unlabeled."""
    p, u = logits(0.0, 0.5, grad=True), logits(0.0, 0.2, grad=True)
    on_p, on_u = torch.autograd.grad(objective(p, u, 0.4), (p, u))
    assert (on_p < 0).all()
    assert (on_u > 0).all()


def check_overfit_discriminator_steps_back(objective):
    """P at +5, U at −5: the violated branch lowers P by σ(5)·η in all and raises U."""
    p, u = logits(5.0, 5.0, grad=True), logits(-5.0, -5.0, grad=True)
    on_p, on_u = torch.autograd.grad(objective(p, u, 0.5), (p, u))
    sigmoid_5 = 1 / (1 + 2.718281828459045**-5)
    assert float(on_p.sum()) == pytest.approx(0.5 * sigmoid_5)
    assert float(on_u.sum()) == pytest.approx(sigmoid_5 - 1)


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        (per_sample_clipping, check_clipping_sees_the_batch),
        (inverted_sign, check_descent_separates),
        (swapped_expectations, check_descent_separates),
        (positive_term_kept, check_overfit_discriminator_steps_back),
    ],
)
def test_known_faults_are_absent_and_would_be_detected(fault, check):
    check(ours)
    with pytest.raises(AssertionError):
        check(fault)


def test_gradient_of_the_reported_value_would_leave_agent_data_without_gradient():
    p, u = logits(5.0, 5.0, grad=True), logits(-5.0, -5.0, grad=True)
    bracket = risk.label_risk(u, 0) - 0.5 * risk.label_risk(p, 0)
    eq9 = 0.5 * risk.label_risk(p, 1) + bracket.clamp(min=0.0)
    assert torch.autograd.grad(eq9, u)[0].abs().max() == 0
    assert torch.autograd.grad(risk.nnpu(p, u, prior=0.5).objective, u)[0].abs().min() > 0


# Properties.

finite = st.floats(-8, 8, allow_nan=False, width=32)
batch = st.lists(finite, min_size=1, max_size=7)
priors = st.floats(0.01, 0.99)
losses = st.sampled_from(["logistic", "sigmoid"])


@given(batch, batch, losses)
def test_prior_to_zero_leaves_the_negative_risk(p, u, loss):
    for function in RISKS:
        value = function(logits(*p), logits(*u), prior=1e-9, loss=loss).value
        assert float(value) == pytest.approx(float(risk.label_risk(logits(*u), 0, loss)), abs=1e-7)


@given(batch, batch, losses)
def test_an_even_risk_is_the_papers_at_one_half_and_gails_at_zero(p, u, loss):
    p, u = logits(*p), logits(*u)
    for function in RISKS:
        even = numbers(function(p, u, prior=0.5, loss=loss, even=True))
        assert even == pytest.approx(numbers(function(p, u, prior=0.5, loss=loss)))
        no_success = function(p, u, prior=1e-9, loss=loss, even=True).objective
        gail = risk.pn(p, u, prior=0.5, loss=loss).objective
        assert float(no_success) == pytest.approx(float(gail), abs=1e-7)


@given(batch, losses)
def test_prior_to_one_on_equal_samples_leaves_the_positive_risk(p, loss):
    # With U drawn as P, η → 1 is the truth and no failures remain.
    for function in RISKS:
        value = function(logits(*p), logits(*p), prior=1 - 1e-9, loss=loss).value
        assert float(value) == pytest.approx(float(risk.label_risk(logits(*p), 1, loss)), abs=1e-7)


@given(batch, batch, priors, losses, st.randoms(use_true_random=False))
def test_order_within_a_batch_is_irrelevant(p, u, prior, loss, random):
    for function in RISKS:
        before = numbers(function(logits(*p), logits(*u), prior=prior, loss=loss))[:4]
        shuffled_p, shuffled_u = random.sample(p, len(p)), random.sample(u, len(u))
        after = function(logits(*shuffled_p), logits(*shuffled_u), prior=prior, loss=loss)
        assert numbers(after)[0] == pytest.approx(before[0], abs=1e-9)
        assert numbers(after)[2:4] == pytest.approx(before[2:4], abs=1e-9)


@given(batch, batch, priors, st.integers(2, 4))
def test_repeating_one_side_changes_nothing(p, u, prior, times):
    for function in RISKS:
        once = numbers(function(logits(*p), logits(*u), prior=prior))[:1]
        assert numbers(function(logits(*p * times), logits(*u), prior=prior))[:1] == pytest.approx(
            once, abs=1e-9
        )
        assert numbers(function(logits(*p), logits(*u * times), prior=prior))[:1] == pytest.approx(
            once, abs=1e-9
        )


@given(batch, batch, priors, st.floats(0, 1), losses)
def test_value_never_falls_below_the_bound(p, u, prior, slack, loss):
    result = risk.nnpu(logits(*p), logits(*u), prior=prior, slack=slack, loss=loss)
    assert float(result.value) >= float(result.positive) - slack - 1e-12
    unclipped = risk.upu(logits(*p), logits(*u), prior=prior, slack=slack, loss=loss)
    assert float(result.value) >= float(unclipped.value) - 1e-12
    assert bool(result.violated) == bool(unclipped.violated)


def test_upu_is_unbiased_over_resamples():
    """The mean of small-batch uPU risks is the PN risk of the whole labelled population."""
    rng = torch.Generator().manual_seed(3)
    prior = 0.3
    successes = torch.randn(4000, generator=rng, dtype=torch.float64) + 1
    failures = torch.randn(4000, generator=rng, dtype=torch.float64) - 1
    truth = prior * risk.label_risk(successes, 1) + (1 - prior) * risk.label_risk(failures, 0)

    def draw(population, *shape):
        return population[torch.randint(len(population), shape, generator=rng)]

    resamples, size = 20_000, 8
    p = draw(successes, resamples, size)
    is_success = torch.rand(resamples, size, generator=rng) < prior
    u = torch.where(is_success, draw(successes, resamples, size), draw(failures, resamples, size))
    estimates = torch.func.vmap(lambda p, u: risk.upu(p, u, prior=prior).value)(p, u)
    error = float(estimates.std()) / resamples**0.5
    assert float(estimates.mean()) == pytest.approx(float(truth), abs=4 * error)
    clipped = torch.func.vmap(lambda p, u: risk.nnpu(p, u, prior=prior).value)(p, u)
    assert float(clipped.mean()) > float(truth) + 4 * error  # the price of non-negativity


# Where it runs.


extreme = st.lists(
    st.floats(width=32, allow_nan=False, allow_infinity=False)
    | st.sampled_from([3.4e38, -3.4e38, 1e30, -1e30, 0.0]),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize("loss", ["logistic", "sigmoid"])
@pytest.mark.parametrize("function", [*RISKS, risk.nnpnu])
@given(p=extreme, u=extreme, prior=st.floats(1e-6, 1 - 1e-6), even=st.booleans())
def test_risks_and_gradients_are_finite_at_any_finite_logits(function, loss, p, u, prior, even):
    p, u = (torch.tensor(values, requires_grad=True) for values in (p, u))
    more = {"failure_logits": u.detach()} if function is risk.nnpnu else {}
    result = function(p, u, prior=prior, even=even, loss=loss, **more)
    assert torch.stack(result[:4]).isfinite().all()
    for gradient in torch.autograd.grad(result.objective, (p, u), allow_unused=True):
        assert gradient is None or gradient.isfinite().all()


@given(p=st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=6))
def test_ordinary_logits_are_not_clamped(p):
    values = torch.tensor(p)
    assert torch.equal(risk.checked_logits("any", values), values)


def test_bfloat16_logits_inside_autocast_give_float32():
    p, u = torch.randn(64, dtype=torch.bfloat16), torch.randn(64, dtype=torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = risk.nnpu(p, u, prior=0.5)
    assert result.objective.dtype == torch.float32
    expected = risk.nnpu(p.float(), u.float(), prior=0.5)
    assert numbers(result) == pytest.approx(numbers(expected))


@pytest.mark.parametrize("function", RISKS)
def test_compiles_to_one_graph(function):
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    settings = {"prior": torch.tensor(0.5, dtype=torch.float64)}
    for u in (unlabeled(), positives()):  # both branches of nnpu through one graph
        assert numbers(compiled(positives(), u, **settings)) == pytest.approx(
            numbers(function(positives(), u, **settings))
        )


def test_vmap_over_seeds_equals_a_loop():
    p, u = torch.randn(3, 8), torch.randn(3, 5)
    together = torch.func.vmap(lambda p, u: risk.nnpu(p, u, prior=0.5))(p, u)
    for seed in range(3):
        alone = risk.nnpu(p[seed], u[seed], prior=0.5)
        assert [float(m[seed]) for m in together] == pytest.approx(numbers(alone))


# Bad input.


@pytest.mark.parametrize("function", RISKS)
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"prior": 0.0}, r"prior must lie inside \(0, 1\), got 0.0"),
        ({"prior": 1.0}, r"prior must lie inside \(0, 1\), got 1.0"),
        ({"prior": "0.5"}, r"prior must lie inside \(0, 1\), got '0.5'"),
        ({"prior": None}, r"prior must lie inside \(0, 1\), got None"),
        ({"prior": torch.tensor(2.0)}, r"prior must lie inside \(0, 1\), got tensor\(2.\)"),
        ({"prior": float("nan")}, "got nan"),
        ({"prior": torch.ones(2)}, "one number"),
        ({"slack": -0.1}, r"slack must lie in \[0, 1e\+12\], got -0.1"),
        ({"slack": float("nan")}, r"slack must lie in .* got nan"),
        ({"slack": "0"}, "slack must lie in .* got '0'; the paper uses 0"),
        ({"slack": None}, "slack must lie in .* got None"),
        ({"slack": 2**63}, "slack must lie in .* got 9223372036854775808"),
        ({"step_back": 0.0}, "step_back"),
        ({"step_back": "1"}, r"step_back must lie in \(0, 1\], got '1'"),
        ({"even": "no"}, "even must be True or False, got 'no'"),
        ({"even": None}, "even must be True or False, got None"),
        ({"loss": "hinge"}, "unknown loss 'hinge'; choose"),
        ({"positive_logits": [0.0]}, "positive_logits must be a tensor, got list"),
        ({"positive_logits": torch.zeros(0)}, "positive_logits must hold at least one"),
        ({"unlabeled_logits": torch.zeros(0)}, "unlabeled_logits must hold at least one"),
        ({"positive_logits": torch.zeros(4, 1)}, r"shape \(n,\), got \(4, 1\)"),
        ({"unlabeled_logits": torch.tensor(0.0)}, r"shape \(n,\), got \(\)"),
        ({"positive_logits": torch.zeros(4, dtype=torch.int64)}, "floating point"),
        ({"unlabeled_logits": torch.tensor([0.0, float("inf")])}, "must be finite"),
        ({"positive_logits": torch.tensor([0.0, float("nan")])}, "must be finite"),
    ],
)
def test_bad_input_is_rejected_with_a_sentence(function, change, sentence):
    good = {"positive_logits": torch.zeros(4), "unlabeled_logits": torch.zeros(4), "prior": 0.5}
    with pytest.raises(InputError, match=sentence):
        function(**(good | change))
