# SPDX-License-Identifier: Apache-2.0
"""The table of methods says what the paper says."""

import pytest

from pureward.errors import InputError
from pureward.reward.augment import AugmentConfig
from pureward.reward.methods import METHODS, method_named
from pureward.reward.network import NetworkConfig
from pureward.reward.risk import nnpu, pn, upu


def test_the_ten_methods():
    assert {name: (m.reward, m.risk, m.positives) for name, m in METHODS.items()} == {
        "truth": ("truth", None, None),
        "gail-noreg": ("imitation", pn, "demonstrations"),
        "gail": ("imitation", pn, "demonstrations"),
        "pugail": ("imitation", upu, "demonstrations"),
        "nn-pugail": ("imitation", nnpu, "demonstrations"),
        "prl": ("regression", None, "annotations"),
        "prl-ensemble": ("regression", None, "annotations"),
        "pnrl": ("gated", pn, "annotations"),
        "purl": ("gated", upu, "annotations"),
        "nn-purl": ("gated", nnpu, "annotations"),
    }


def test_pn_methods_weigh_both_sides_alike_and_pu_methods_leave_the_prior_open():
    priors = {name: m.prior for name, m in METHODS.items() if m.has_discriminator}
    assert {n for n, p in priors.items() if p == 0.5} == {"gail-noreg", "gail", "pnrl"}
    assert {n for n, p in priors.items() if p is None} == {"pugail", "nn-pugail", "purl", "nn-purl"}


def test_only_noreg_is_unregularised():
    assert [name for name, m in METHODS.items() if not m.regularised] == ["gail-noreg"]
    assert METHODS["gail-noreg"].augmentation(AugmentConfig()) == AugmentConfig.off()
    assert METHODS["gail-noreg"].network(NetworkConfig()).dropout == 0
    assert METHODS["gail"].augmentation(AugmentConfig()) == AugmentConfig()
    assert METHODS["gail"].network(NetworkConfig()).dropout == 0.5


def test_needs():
    for name, method in METHODS.items():
        assert method.needs_demonstrations == ("gail" in name)
        assert method.needs_annotations == (name[-2:] == "rl" or name == "prl-ensemble")
        assert method.has_reward_model == method.needs_annotations
        assert method.summary
    assert METHODS["prl-ensemble"].members > 1


def test_unknown_name_lists_the_choices():
    with pytest.raises(InputError, match="unknown method 'bail'; choose from truth, gail-noreg"):
        method_named("bail")
    assert method_named("nn-purl") is METHODS["nn-purl"]
