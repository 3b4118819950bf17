# SPDX-License-Identifier: Apache-2.0
"""The prior-free risk by hand, its mixed frames, and what its minimum is."""

from math import log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pureward.errors import InputError
from pureward.rewards.priors.mean_over_top import mean_over_top
from pureward.rewards.priors.resample import Sample
from pureward.rewards.risks.variational import mixed_frames, mixing_shares, vpu


def logits_of(*chances: float, grad: bool = False) -> torch.Tensor:
    values = torch.logit(torch.tensor(chances, dtype=torch.float64))
    return values.requires_grad_(grad)


def test_by_hand():
    """Φ_p = ½, ¼; Φ_u = ½, ¼, ¾ of mean ½; one pair, μ = ½: target ½·½ + ½ = ¾, Φ_μ = ½."""
    result = vpu(
        logits_of(0.5, 0.25),
        logits_of(0.5, 0.25, 0.75),
        mixed_logits=logits_of(0.5),
        mixed_shares=torch.tensor([0.5], dtype=torch.float64),
        mixup_weight=2.0,
    )
    positive, negative = (log(2) + log(4)) / 2, log(0.5)
    total = positive + negative + 2 * (log(0.75) - log(0.5)) ** 2
    got = [float(member) for member in result]
    assert got == pytest.approx([total, total, positive, negative, 0])


share = st.floats(0.01, 0.99)
batch = st.lists(share, min_size=1, max_size=6)


@given(batch, batch, st.floats(0.1, 0.99))
@settings(max_examples=40, deadline=None)
def test_without_mixed_frames_only_ratios_count(p, u, factor):
    """log E_u[Φ] − E_p[log Φ] is the same for c·Φ: the mixed frames must fix the top."""

    def risk(scale: float) -> float:
        result = vpu(
            logits_of(*(scale * x for x in p)),
            logits_of(*(scale * x for x in u)),
            mixed_logits=logits_of(0.5),
            mixed_shares=torch.tensor([0.5], dtype=torch.float64),
            mixup_weight=0.0,
        )
        return float(result.value)

    assert risk(factor) == pytest.approx(risk(1.0), abs=1e-6)


def test_the_minimum_is_the_chance_of_success():
    """Two kinds of frames: 3/4 of P and 3/8 of U are sure successes, the rest 1 in 5.

    p_p/p_u is 2 and 2/5, so Φ must be 1 : 1/5, and η̂ = E_u[Φ] = 3/8 + 5/8·1/5 = 1/2.
    """
    f = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    p, u = torch.tensor([0, 0, 0, 1]), torch.tensor([0, 0, 0, 1, 1, 1, 1, 1])
    optimizer = torch.optim.Adam([f], lr=0.2)
    none = torch.zeros(1, dtype=torch.float64)
    for _ in range(200):
        optimizer.zero_grad()
        # Of the mixtures only those with μ = 0, sure successes: they must come out as 1.
        result = vpu(f[p], f[u], mixed_logits=f[:1], mixed_shares=none, mixup_weight=3.0)
        result.objective.backward()
        optimizer.step()
    chance = f.detach().sigmoid()
    assert float(chance[1] / chance[0]) == pytest.approx(0.2, abs=0.01)
    assert float(chance[0]) > 0.97
    assert float(chance[u].mean()) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("mu", [0.0, 1.0, 1e-30])
def test_extremes_stay_finite(mu):
    u = torch.tensor([-80.0, 80.0], requires_grad=True)
    mixed = torch.tensor([-80.0, 80.0], requires_grad=True)
    shares = torch.full((2,), mu)
    result = vpu(torch.zeros(2), u, mixed_logits=mixed, mixed_shares=shares)
    for gradient in torch.autograd.grad(result.objective, (u, mixed)):
        assert gradient.isfinite().all()
    assert result.value.isfinite()


def test_prior_and_slack_have_no_effect():
    batches = {"mixed_logits": torch.zeros(2), "mixed_shares": torch.full((2,), 0.5)}
    p, u = torch.randn(4), torch.randn(4)
    assert vpu(p, u, **batches) == vpu(p, u, prior=0.9, slack=0.3, loss="sigmoid", **batches)


# Mixed frames.


def test_mixed_frames_lie_between_their_pair():
    rng = torch.Generator().manual_seed(0)
    p = torch.randint(0, 256, (5, 3, 4, 4), dtype=torch.uint8, generator=rng)
    u = torch.randint(0, 256, (3, 3, 4, 4), dtype=torch.uint8, generator=rng)
    mixed = mixed_frames(p, u, rng)
    assert mixed.frames.shape == (3, 3, 4, 4)
    assert mixed.frames.dtype == torch.uint8
    part = mixed.shares.view(-1, 1, 1, 1)
    expected = part * u.float() + (1 - part) * p[:3].float()
    assert (mixed.frames.float() - expected).abs().max() <= 0.501
    again = mixed_frames(p, u, torch.Generator().manual_seed(1))
    assert not torch.equal(again.shares, mixed.shares)


def test_shares_are_beta_distributed():
    """Beta(0.3, 0.3) has mean 1/2 and variance 1/(4·1.6); the quantiles are scipy's."""
    drawn = mixing_shares(200_000, torch.device("cpu"), torch.Generator().manual_seed(0))
    assert float(drawn.min()) >= 0
    assert float(drawn.max()) <= 1
    assert float(drawn.mean()) == pytest.approx(0.5, abs=0.003)
    assert float(drawn.var()) == pytest.approx(0.15625, abs=0.001)
    quarter, two_fifths = (float(drawn.quantile(q)) for q in (0.25, 0.4))
    assert (quarter, two_fifths) == pytest.approx((0.06762, 0.28288), abs=0.004)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"mixed_logits": None}, "vpu needs mixed_logits and mixed_shares"),
        ({"mixed_logits": torch.zeros(0)}, "mixed_logits must hold at least one"),
        ({"mixup_weight": -1.0}, "mixup_weight must be finite and at least 0, got -1.0"),
        ({"mixup_weight": float("nan")}, "mixup_weight must be finite"),
        ({"mixup_weight": "0"}, "mixup_weight must be finite and at least 0, got '0'"),
        ({"mixed_shares": [0.5, 0.5]}, "mixed_shares must be a tensor, got list"),
        ({"mixed_shares": torch.zeros(3)}, r"mixed_shares must be .* got shape \(3,\) for 2"),
        ({"even": "no"}, "even must be True or False, got 'no'"),
    ],
)
def test_bad_input_is_refused(change, sentence):
    good = {"mixed_logits": torch.zeros(2), "mixed_shares": torch.zeros(2)}
    with pytest.raises(InputError, match=sentence):
        vpu(torch.zeros(2), torch.zeros(2), **(good | change))


@pytest.mark.parametrize(("low", "share"), [(19, 1 / 2), (18, 1 / 3)])
def test_the_share_is_the_mean_over_the_top_by_hand(low, share):
    """Φ is ¼ on the unlabeled; of 20 positives so many have ½ and the others ¾.

    The 0.95 quantile is the 19th: ½ where 19 are low, ¾ where 18 are.
    """
    alike = torch.full((1, 20), 1 / 20, dtype=torch.float64)
    scores = logits_of(*[0.75] * (20 - low), *[0.5] * low)
    unlabeled = logits_of(*[0.25] * 20)
    positive, agent = (Sample(logits, alike, torch.tensor(1)) for logits in (scores, unlabeled))
    assert mean_over_top(positive, agent).tolist() == pytest.approx([share])
    assert mean_over_top(positive, Sample(scores + 9.0, alike, torch.tensor(1))).tolist() == [1.0]
