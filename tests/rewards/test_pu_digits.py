# SPDX-License-Identifier: Apache-2.0
"""On real digits nnPU ends above uPU and PN: 0–4 among unlabeled, told from 5–9."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from pureward.rewards.risks.pu import RiskFunction, nnpu, pn, upu

LABELLED, UNLABELED, TESTS = 300, 300, 200  # positives; of each class; of each class
PRIOR = 0.5


@dataclass(frozen=True, kw_only=True)
class Split:
    """Rows of images: labelled positives, unlabeled, and a test set."""

    positive: Tensor
    unlabeled: Tensor
    test: Tensor


def digits() -> tuple[Tensor, Tensor]:
    """Images scaled to [0, 1], and whether each shows 0–4."""
    images, labels = load_digits(return_X_y=True)
    return torch.from_numpy(np.asarray(images, dtype=np.float32)) / 16, torch.tensor(labels) <= 4


def resample(is_positive: Tensor, seed: int) -> Split:
    rng = torch.Generator().manual_seed(seed)
    p, n = (
        rows[torch.randperm(len(rows), generator=rng)]
        for rows in (is_positive.nonzero()[:, 0], (~is_positive).nonzero()[:, 0])
    )
    known = TESTS + UNLABELED
    return Split(
        positive=p[known : known + LABELLED],
        unlabeled=torch.cat([p[TESTS:known], n[TESTS:known]]),
        test=torch.cat([p[:TESTS], n[:TESTS]]),
    )


def accuracy(images: Tensor, is_positive: Tensor, risk: RiskFunction, seed: int) -> float:
    """Train a small MLP for 100 epochs; its accuracy on the tests."""
    split, steps = resample(is_positive, seed), 8
    torch.manual_seed(seed)
    network = nn.Sequential(
        nn.Linear(64, 300), nn.ReLU(), nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 1)
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-4)
    rng = torch.Generator().manual_seed(seed)
    count = LABELLED // steps
    for _ in range(100):
        order = torch.randperm(len(split.unlabeled), generator=rng)
        for rows in order.chunk(steps):
            chosen = torch.randint(LABELLED, (count,), generator=rng)
            shown = torch.cat([split.positive[chosen], split.unlabeled[rows]])
            logits = network(images[shown]).squeeze(1)
            optimizer.zero_grad()
            risk(logits[:count], logits[count:], prior=PRIOR).objective.backward()
            optimizer.step()
    with torch.no_grad():
        guess = network(images[split.test]).squeeze(1) > 0
    return float((guess == is_positive[split.test]).float().mean())


def test_resampled_sets_do_not_overlap_and_have_the_stated_prior():
    _, is_positive = digits()
    split = resample(is_positive, 0)
    assert is_positive[split.positive].all()
    assert is_positive[split.unlabeled].float().mean() == PRIOR
    every = torch.cat([split.positive, split.unlabeled, split.test])
    assert len(every) == LABELLED + 2 * UNLABELED + 2 * TESTS == len(every.unique())


@pytest.mark.slow
def test_nnpu_ends_above_upu_and_pn():
    images, is_positive = digits()
    final = {
        risk: sum(accuracy(images, is_positive, risk, seed) for seed in range(3))
        for risk in (nnpu, upu, pn)
    }
    assert final[nnpu] > final[upu]
    assert final[nnpu] > final[pn]
