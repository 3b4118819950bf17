# SPDX-License-Identifier: Apache-2.0
"""η during training: warm start, smoothing, bounds, interval, warning, rejected input."""

import json
from dataclasses import replace

import pytest
import torch

from pureward.errors import InputError
from pureward.rewards.priors.estimated import EstimatedPrior
from pureward.rewards.priors.estimators import ESTIMATORS
from pureward.rewards.priors.prior import PriorData, parse_prior

FRAMES = 40


def scores(successes: int, failures: int, *, apart: float = 6.0, seed: int = 0):
    """Logits of whole episodes: successes around +apart/2, failures around −apart/2."""
    rng = torch.Generator().manual_seed(seed)
    centres = torch.tensor([apart / 2] * successes + [-apart / 2] * failures)
    logits = centres.repeat_interleave(FRAMES)
    logits = logits + torch.randn(len(logits), generator=rng)
    return logits, torch.arange(successes + failures).repeat_interleave(FRAMES)


def prior_data(successes: int, failures: int, *, held_out: int = 40, **rest) -> PriorData:
    p, p_episodes = scores(held_out, 0, seed=1, **rest)
    u, u_episodes = scores(successes, failures, seed=2, **rest)
    return PriorData(
        held_out_positive_logits=p,
        held_out_episodes=p_episodes,
        unlabeled_logits=u,
        unlabeled_episodes=u_episodes,
    )


def latest(prior: EstimatedPrior):
    assert prior.latest is not None
    return prior.latest


def test_estimates_are_smoothed_and_kept_without_scores():
    prior = EstimatedPrior("bbe")
    assert prior.wants == {"scores"}
    assert prior(PriorData()) == 0.1
    assert prior.latest is None
    first = prior(prior_data(20, 80))
    value = latest(prior).value
    assert value == pytest.approx(0.2, abs=0.02)
    assert first == latest(prior).smoothed == pytest.approx(0.05 + value / 2)
    second = prior(prior_data(20, 80))
    assert second == pytest.approx(first / 2 + value / 2)
    assert prior(PriorData()) == second


def test_interval_contains_the_truth_and_narrows_with_trajectories():
    widths = []
    for times in (1, 9):
        prior = EstimatedPrior("bbe")
        prior(prior_data(8 * times, 12 * times, held_out=20 * times))
        _, low, high, *_ = latest(prior)
        assert low < 0.4 < high
        widths.append(high - low)
    assert widths[1] < 0.5 * widths[0]


def test_stays_at_the_floor_until_d_separates_the_sets():
    prior = EstimatedPrior("bbe", floor=0.02)
    assert prior(prior_data(50, 50, apart=0.2)) == 0.02
    assert latest(prior).auc < 0.6
    assert prior(prior_data(20, 80)) > 0.1
    # Once begun it continues, also if the policy is as good as the demonstrations.
    before = prior.value
    assert prior(prior_data(100, 0)) == pytest.approx(before / 2 + latest(prior).value / 2)
    assert latest(prior).auc < 0.6


def test_floor_is_kept_with_a_warning():
    prior = EstimatedPrior("bbe", floor=0.15)
    for _ in range(6):
        eta = prior(prior_data(0, 100, apart=12.0))
    assert eta == 0.15
    assert latest(prior).value == 0.0
    assert latest(prior).auc > 0.99
    said = latest(prior).warning
    assert "separates the unlabeled frames from the positives (AUC" in said
    assert "agent" not in said  # a fit to logs has none
    assert "Scores cannot tell which, so η stays at 0.15 or above" in said
    prior(prior_data(30, 70, apart=12.0))
    assert latest(prior).warning == ""


def test_no_warning_with_a_few_successes():
    """Six successes in a hundred: AUC 0.97, but successes are found."""
    prior = EstimatedPrior("bbe")
    prior(prior_data(6, 94, apart=12.0))
    assert latest(prior).auc == pytest.approx(0.97, abs=0.005)
    assert latest(prior).value == pytest.approx(0.06, abs=0.005)
    assert latest(prior).warning == ""


def test_estimates_start_if_half_of_the_episodes_succeed():
    prior = EstimatedPrior("bbe")
    assert prior(prior_data(50, 50, apart=12.0)) == pytest.approx(0.3, abs=0.02)
    assert latest(prior).auc == pytest.approx(0.75, abs=0.01)


def test_acc_is_ignored_if_failures_score_like_successes():
    """Positives and failures at +3, the agent at −3: P and U differ, but say nothing about η."""
    failures, episodes = scores(20, 0, seed=3)
    seen = replace(prior_data(0, 100), failure_logits=failures, failure_episodes=episodes)
    prior = EstimatedPrior("acc")
    assert prior(seen) == 0.1
    assert latest(prior).auc > 0.99
    known, episodes = scores(0, 20, seed=3)
    seen = replace(prior_data(60, 40), failure_logits=known, failure_episodes=episodes)
    assert prior(seen) == pytest.approx((0.1 + 0.6) / 2, abs=0.02)


def test_ceiling_is_kept():
    prior = EstimatedPrior("bbe", ceiling=0.7)
    prior(prior_data(20, 80))
    for _ in range(6):
        eta = prior(prior_data(100, 0))
    assert eta == 0.7


def test_same_data_same_interval():
    a, b = EstimatedPrior("bbe", seed=3), EstimatedPrior("bbe", seed=3)
    a(prior_data(5, 15))
    b(prior_data(5, 15))
    assert latest(a) == latest(b)


def test_a_resumed_prior_continues_from_its_state():
    prior, again = EstimatedPrior("bbe"), EstimatedPrior("bbe")
    prior(prior_data(20, 80))
    again.load_state_dict(json.loads(json.dumps(prior.state_dict())))
    assert again(prior_data(60, 40)) == prior(prior_data(60, 40))


@pytest.mark.parametrize("state", [{}, {"value": "x", "begun": True}, {"value": None, "begun": 1}])
def test_invalid_states_are_rejected(state):
    with pytest.raises(InputError, match="state holds value and begun"):
        EstimatedPrior("bbe").load_state_dict(state)


def test_a_state_rounded_to_float32_is_within_the_bounds():
    prior = EstimatedPrior("bbe", floor=0.7)
    prior.load_state_dict({"value": torch.tensor(0.7).item(), "begun": True})
    assert prior.value == 0.7


def test_a_state_outside_the_bounds_is_rejected():
    with pytest.raises(InputError, match="got nan"):
        EstimatedPrior("bbe").load_state_dict({"value": float("nan"), "begun": True})
    with pytest.raises(InputError, match=r"must lie in \[0.1, 0.95\], got 0.99"):
        EstimatedPrior("bbe").load_state_dict({"value": 0.99, "begun": True})


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.parametrize("estimator", ["bbe"])
def test_one_host_sync_per_estimate(estimator):
    """A host sync before the read of the result raises."""
    known = prior_data(20, 80)
    on_device = PriorData(
        **{name: part.cuda() for name, part in vars(known).items() if torch.is_tensor(part)}
    )
    prior = EstimatedPrior(estimator)
    prior(on_device)  # compiles and allocates
    torch.cuda.set_sync_debug_mode("error")
    try:
        samples = prior._samples(on_device)
        ESTIMATORS[estimator](*samples)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    expected = EstimatedPrior(estimator)
    expected(known)
    assert latest(prior).value == pytest.approx(latest(expected).value, abs=1e-6)


# The other estimators behind the same seam.


def test_acc_by_hand():
    """Means of D are 0.9 on P, 0.3 on N and 0.5 on U: (0.5 − 0.3)/(0.9 − 0.3) = 1/3."""
    p, n, u = (torch.logit(torch.full((6,), d, dtype=torch.float64)) for d in (0.9, 0.3, 0.5))
    episodes = torch.arange(6)
    prior = EstimatedPrior("acc")
    prior(
        PriorData(
            held_out_positive_logits=p,
            held_out_episodes=episodes,
            unlabeled_logits=u,
            unlabeled_episodes=episodes,
            failure_logits=n,
            failure_episodes=episodes,
        )
    )
    assert latest(prior).value == pytest.approx(1 / 3)
    before = prior.value
    worse = PriorData(
        held_out_positive_logits=n,  # ranked below the failures: says nothing of η
        held_out_episodes=episodes,
        unlabeled_logits=u,
        unlabeled_episodes=episodes,
        failure_logits=p,
        failure_episodes=episodes,
    )
    assert prior(worse) == before


# Bad input.


@pytest.mark.parametrize(
    ("successes", "held_out", "sentence"),
    [
        (20, 4, "at least 5 held-out positive episodes, got 4"),
        (1, 20, "at least 5 unlabeled episodes, got 2"),
    ],
)
def test_too_few_trajectories_are_rejected(successes, held_out, sentence):
    with pytest.raises(InputError, match=sentence):
        EstimatedPrior("bbe")(prior_data(successes, 1, held_out=held_out))


def test_missing_scores_are_named():
    p, episodes = scores(6, 0)
    known = {"held_out_positive_logits": p, "held_out_episodes": episodes}
    with pytest.raises(InputError, match="an estimate by bbe needs unlabeled_logits and unlab"):
        EstimatedPrior("bbe")(PriorData(**known))
    both = known | {"unlabeled_logits": p, "unlabeled_episodes": episodes}
    with pytest.raises(InputError, match="an estimate by acc needs failure_logits and failure"):
        EstimatedPrior("acc")(PriorData(**both))


SCORES = {
    "held_out_positive_logits": "held-out positive logits",
    "unlabeled_logits": "unlabeled logits",
    "failure_logits": "failure logits",
}


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(
    ("estimator", "name"),
    [(e, n) for e in ESTIMATORS for n in SCORES if e == "acc" or n != "failure_logits"],
)
def test_nan_and_infinite_scores_are_rejected(estimator, name, bad):
    failures, numbers = scores(0, 10, seed=3)
    known = replace(prior_data(20, 80), failure_logits=failures, failure_episodes=numbers)
    spoiled = getattr(known, name).clone()
    spoiled[7] = bad
    prior = EstimatedPrior(estimator)
    with pytest.raises(InputError, match=f"{SCORES[name]} must be finite, got NaN or infinity"):
        prior(replace(known, **{name: spoiled}))
    assert (prior.value, prior.begun, prior.latest) == (0.1, False, None)


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        (
            "unlabeled_episodes",
            torch.Tensor.float,
            "of unlabeled logits must be whole numbers, got",
        ),
        ("held_out_positive_logits", torch.Tensor.numpy, "must be a tensor, .* got ndarray; wrap"),
        ("held_out_episodes", torch.Tensor.tolist, "held_out_episodes must be a tensor.* got list"),
        ("unlabeled_logits", torch.Tensor.tolist, "unlabeled_logits must be a tensor.* got list"),
    ],
)
def test_data_of_wrong_types_is_rejected(name, change, sentence):
    known = prior_data(20, 80)
    with pytest.raises(InputError, match=sentence):
        EstimatedPrior("bbe")(replace(known, **{name: change(getattr(known, name))}))


def test_episodes_may_be_any_whole_numbers():
    known, prior, other = prior_data(20, 80), EstimatedPrior("bbe"), EstimatedPrior("bbe")
    assert known.held_out_episodes is not None
    assert prior(known) == other(replace(known, held_out_episodes=known.held_out_episodes.int()))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"estimator": "km2"}, "unknown estimator 'km2'; choose from bbe, acc"),
        ({"floor": 0.0}, "0 < floor ≤ ceiling < 1"),
        ({"floor": 0.96}, "0 < floor ≤ ceiling < 1"),
        ({"ceiling": 1.0}, "0 < floor ≤ ceiling < 1"),
        ({"smoothing": 0.0}, "smoothing must lie in"),
        ({"resamples": 1}, "resamples be at least 2"),
    ],
)
def test_bad_settings_are_rejected(change, sentence):
    with pytest.raises(InputError, match=sentence):
        EstimatedPrior(**change)


def test_written_forms():
    for text in ("bbe", "acc"):
        prior = parse_prior(text)
        assert isinstance(prior, EstimatedPrior)
        assert (prior.estimator, prior.floor, prior.ceiling, prior.value) == (text, 0.1, 0.95, 0.1)
    bounded = parse_prior("bbe:0.3:0.8")
    assert isinstance(bounded, EstimatedPrior)
    assert (bounded.floor, bounded.ceiling, bounded.value) == (0.3, 0.8, 0.3)
    for text in ("bbe:0.1:0.5:0.9", "acc:a:b"):
        with pytest.raises(InputError, match="a prior is a number such as"):
            parse_prior(text)
    with pytest.raises(InputError, match="0 < floor ≤ ceiling"):
        parse_prior("bbe:0.8:0.3")
