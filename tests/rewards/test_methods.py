# SPDX-License-Identifier: Apache-2.0
"""The table of methods agrees with the paper."""

import pytest

from pureward.errors import InputError
from pureward.rewards.methods import METHODS, choose
from pureward.rewards.network import NetworkConfig
from pureward.rewards.priors import EstimatedPrior, FixedPrior
from pureward.rewards.risks import RISKS, upu
from pureward.rewards.view import View


def test_the_ten_methods():
    assert {name: (m.reward, m.risk, m.positives) for name, m in METHODS.items()} == {
        "truth": ("truth", "", None),
        "gail-noreg": ("imitation", "pn", "demonstrations"),
        "gail": ("imitation", "pn", "demonstrations"),
        "pugail": ("imitation", "upu", "demonstrations"),
        "nn-pugail": ("imitation", "nnpu", "demonstrations"),
        "prl": ("regression", "", "annotations"),
        "prl-ensemble": ("regression", "", "annotations"),
        "pnrl": ("gated", "pn", "annotations"),
        "purl": ("gated", "upu", "annotations"),
        "nn-purl": ("gated", "nnpu", "annotations"),
    }


def test_pn_methods_fix_the_prior_and_pu_methods_do_not():
    priors = {name: m.prior for name, m in METHODS.items() if m.has_discriminator}
    assert {n for n, p in priors.items() if p == 0.5} == {"gail-noreg", "gail", "pnrl"}
    assert {n for n, p in priors.items() if p is None} == {"pugail", "nn-pugail", "purl", "nn-purl"}


def test_only_noreg_is_unregularised():
    assert [name for name, m in METHODS.items() if not m.regularised] == ["gail-noreg"]
    assert METHODS["gail-noreg"].network(NetworkConfig()).view == View.off()
    assert METHODS["gail-noreg"].network(NetworkConfig()).dropout == 0
    assert METHODS["gail"].network(NetworkConfig()).view == View()
    assert METHODS["gail"].network(NetworkConfig()).dropout == 0.5


def test_needs():
    for name, method in METHODS.items():
        assert (method.positives == "demonstrations") == ("gail" in name)
        assert method.needs_annotations == (name[-2:] == "rl" or name == "prl-ensemble")
        assert method.has_reward_model == method.needs_annotations
        assert method.summary
    assert METHODS["prl-ensemble"].members > 1


def test_unknown_name_lists_the_choices():
    with pytest.raises(InputError, match="unknown method 'bail'; choose from truth, gail-noreg"):
        METHODS["bail"]
    assert METHODS["nn-purl"] is METHODS["nn-purl"]


# Options of a run.

PU = ["pugail", "nn-pugail", "purl", "nn-purl"]


@pytest.mark.parametrize("name", PU)
def test_every_pu_method_takes_every_prior(name):
    own = RISKS[METHODS[name].risk]
    assert choose(name) == (own, FixedPrior(value=0.5))
    assert choose(name, prior="0.3") == (own, FixedPrior(value=0.3))
    assert choose(name, prior=0.3) == (own, FixedPrior(value=0.3))
    choice = choose(name, prior="bbe")
    assert choice is not None
    assert choice.risk is own
    assert isinstance(choice.prior, EstimatedPrior)


@pytest.mark.parametrize("name", PU)
def test_a_named_risk_is_used(name):
    for prior in (None, "0.3", "bbe", "acc"):
        choice = choose(name, risk="nnpnu", prior=prior, failures=True)
        assert choice is not None
        assert choice.risk is RISKS["nnpnu"]
    plain = choose(name, risk="upu")
    assert plain is not None
    assert plain.risk.function is upu


def test_methods_have_their_own_risk_and_prior_by_default():
    assert choose("truth") is None
    assert choose("prl") is None
    assert choose("gail") == (RISKS["pn"], FixedPrior(value=0.5))


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("gail", {"prior": "bbe"}, "gail takes all agent frames as failures, so the prior bbe"),
        ("pnrl", {"prior": "0.3"}, "pnrl takes all agent frames as failures"),
        ("gail", {"prior": 0.3}, "so the prior 0.3 would have no effect"),
        ("gail", {"prior": 0.0}, "so the prior 0.0 would have no effect"),
        ("nn-pugail", {"prior": 1}, r"must lie inside \(0, 1\), got 1"),
        ("gail", {"failures": True}, "known failures would have no effect"),
        ("prl", {"prior": "bbe"}, "prl has no discriminator, so the prior bbe would have no"),
        ("truth", {"failures": True}, "truth has no discriminator"),
        ("nn-pugail", {"prior": "acc"}, "acc is estimated from known failures, got none"),
        ("gail", {"risk": "nnpu"}, "gail takes all agent frames as failures, so the risk nnpu"),
        ("nn-pugail", {"risk": "nnlu"}, "unknown risk 'nnlu'; choose from pn, upu, nnpu, nnpnu"),
        ("nn-pugail", {"failures": True}, "known failures are given, and the risk nnpu takes non"),
        ("nn-pugail", {"risk": "nnpnu"}, "failures are not given, and the risk nnpnu needs some"),
        ("nn-pugail", {"prior": "half"}, "a prior is a number such as 0.5, or one of bbe"),
        ("bail", {}, "unknown method 'bail'"),
    ],
)
def test_contradictions_are_rejected(name, options, sentence):
    with pytest.raises(InputError, match=sentence):
        choose(name, **options)
