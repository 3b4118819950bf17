# SPDX-License-Identifier: Apache-2.0
"""Rewards from logs of `lift` whose truth is known: nnPU beside uPU, PN and regression.

    python benchmarks/offline.py --seeds 2 --updates 300 --out results/offline/cpu.json
    python benchmarks/offline.py --device cuda --budget 120 --out results/offline/h200.json

Demonstrations are 50 episodes of an expert. Logs are 40 episodes of other policies, a share of
which solves the task; their rewards are hidden. `nn-pugail`, `pugail` (uPU, as in ORIL) and `gail`
(PN) learn from both; `prl` regresses the demonstrations' rewards, and `nn-purl` gates that by D.
Measured on the logs: the rank correlation (Spearman) of learned and true reward over frames, and
the AUC of an episode's mean reward for its success. Frames are every eighth of an episode. They are
drawn once, from datasets/lift, and kept in --frames; after that only torch and numpy are needed.
Call again with the same --out to continue; a fit is not begun when the budget is over.

    python benchmarks/offline.py --methods nn-pugail nn-pugail:true gail --shares 0.5 --seeds 2 \\
        --updates 160 --out results/offline/prior.json  # and again with --expert

`nn-pugail:true` fixes η at its true value. With --expert, the successes among the logs are episodes
of the demonstrations' expert, which leave the demonstrations. `separation` is the AUC of D for
successful frames of held-out demonstrations against those of the logs that D does not train on: 0.5
if D finds them alike, as PU learning assumes. `separation_trained` is the same for the other logs.
"""

import argparse
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pureward.data.episodes import FAILURE, HELD_OUT, TRAIN, Episode
from pureward.data.frames import FrameBank
from pureward.files import read_object, whole_file, write_json
from pureward.offline.fitter import Fitter, held_out_logs
from pureward.online.supervision import Supervision
from pureward.rewards.priors.estimators import auc
from pureward.runs.machine import made_with
from pureward.types import find_device

STRIDE = 8
LOGS = 40
SHARES = (0.05, 0.1, 0.25, 0.5)
METHODS = ("nn-pugail", "pugail", "gail", "prl", "nn-purl")
_FIGURES = (
    "spearman",
    "auc",
    "eta",
    "true_eta",
    "separation",
    "separation_trained",
    "seconds",
)


def parse() -> argparse.Namespace:
    """The command line; tyro may be missing on the machine that this runs on."""
    lines = (__doc__ or "").splitlines()
    parser = argparse.ArgumentParser(description=lines[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=1000, help="of D, in each fit")
    parser.add_argument("--budget", type=float, default=0.0, help="seconds; 0 for no limit")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--shares", nargs="+", type=float, default=list(SHARES))
    parser.add_argument("--expert", action="store_true", help="successes are the expert's")
    parser.add_argument("--frames", type=Path, default=Path("runs/offline/lift.npz"))
    parser.add_argument("--out", type=Path, default=Path("results/offline/cpu.json"))
    return parser.parse_args()


def draw_frames(path: Path) -> None:
    """Draw every eighth frame of datasets/lift and write them with rewards and successes."""
    import pureward
    from pureward.data.draw import Painter

    painter, columns = Painter("lift"), {n: [] for n in ("frames", "rewards", "success", "kind")}
    for number, name in enumerate(("demonstrations", "annotations")):
        for episode in pureward.read_episodes(Path("datasets/lift") / name):
            assert episode.success is not None
            columns["frames"].append(painter.frames(episode, range(0, len(episode) + 1, STRIDE)))
            columns["rewards"].append(episode.rewards[STRIDE - 1 :: STRIDE])
            columns["success"].append(episode.success[STRIDE - 1 :: STRIDE])
            # Failures of the demonstrations' dataset are logs too.
            logged = number == 1 or episode.split == FAILURE
            columns["kind"].append(torch.tensor([int(logged), episode.split == HELD_OUT]))
    with whole_file(path) as partial, partial.open("wb") as file:
        arrays: dict[str, Any] = {n: torch.stack(v).numpy() for n, v in columns.items()}
        np.savez_compressed(file, **arrays)


def read_pool(path: Path) -> dict[str, list[Episode]]:
    """Demonstrations, and logs that succeed and that fail."""
    pool: dict[str, list[Episode]] = {"demonstrations": [], "solved": [], "failed": []}
    with np.load(path) as file:
        columns = [torch.from_numpy(file[n]) for n in ("frames", "rewards", "success", "kind")]
    for frames, rewards, success, (logged, held_out) in zip(*columns, strict=True):
        split = HELD_OUT if held_out and not logged else TRAIN
        episode = Episode(frames=frames, rewards=rewards, success=success, split=split)
        solved = "solved" if bool(success.any()) else "failed"
        pool[solved if logged else "demonstrations"].append(episode)
    return pool


def with_expert(pool: dict[str, list[Episode]]) -> dict[str, list[Episode]]:
    """The pool with every second training demonstration as a log that succeeds."""
    train = [episode for episode in pool["demonstrations"] if episode.split == TRAIN]
    held_out = [episode for episode in pool["demonstrations"] if episode.split == HELD_OUT]
    return pool | {"demonstrations": train[1::2] + held_out, "solved": train[::2]}


def mixture(pool: dict[str, list[Episode]], share: float, seed: int) -> list[Episode]:
    """Logs of which this share succeeds, drawn without replacement."""
    rng = np.random.default_rng(seed)
    solved = round(share * LOGS)
    counts = {"solved": solved, "failed": LOGS - solved}
    return [
        pool[kind][index]
        for kind, count in counts.items()
        for index in rng.permutation(len(pool[kind]))[:count]
    ]


def ranks(values: Tensor) -> Tensor:
    """Ranks from 0; equal values share the mean of theirs."""
    ordered = values.sort().values
    left, right = (torch.searchsorted(ordered, values, side=side) for side in ("left", "right"))
    return (left + right).double() / 2


def spearman(a: Tensor, b: Tensor) -> float:
    """Rank correlation; 0 if one side is constant."""
    pair = torch.stack([ranks(a.double()), ranks(b.double())])
    value = float(torch.corrcoef(pair)[0, 1])
    return value if value == value else 0.0


def succeeding(episodes: list[Episode]) -> Tensor:
    """Whether each arrival frame shows success, bool (frames,)."""
    return torch.cat([episode.success for episode in episodes if episode.success is not None])


def separation(fitter: Fitter, logs: list[Episode], demonstrations: list[Episode]) -> float:
    """AUC of D for successful frames of held-out demonstrations against those of the logs."""
    held_out = [episode for episode in demonstrations if episode.split == HELD_OUT]
    scores = []
    for episodes in (held_out, logs):
        frames = FrameBank(episodes).every()[succeeding(episodes)]
        scores.append(fitter.learner.learned.success_logits(frames.to(fitter.logs.device)))
    return float(auc(*scores))


def measure(fitter: Fitter, logs: list[Episode], bank: FrameBank) -> dict[str, float]:
    """Agreement of the learned reward with the truth on the logs."""
    learned = fitter.learner.learned(bank.every()).cpu()
    truth, episodes = bank.rewards.cpu(), bank.episodes.cpu()
    solved = torch.tensor([episode.succeeds for episode in logs])
    returns = torch.stack([learned[episodes == n].double().mean() for n in range(len(logs))])
    return {
        "spearman": spearman(learned, truth),
        "auc": float(auc(returns[solved], returns[~solved])),
    }


def run_one(
    pool: dict[str, list[Episode]], method: str, share: float, seed: int, args: argparse.Namespace
) -> dict[str, Any]:
    """One fit and its figures."""
    began, logs, device = time.monotonic(), mixture(pool, share, seed), find_device(args.device)
    demonstrations, (name, _, fixed) = pool["demonstrations"], method.partition(":")
    true_eta = float(succeeding(logs).float().mean() / succeeding(demonstrations).float().mean())
    data = Supervision.of(demonstrations, device=device)
    bank = FrameBank(logs, device=device)
    fitter = Fitter(data, bank, method=name, prior=true_eta if fixed else None, seed=seed)
    fitter.fit_model()
    found: dict[str, float] = {}
    while fitter.has_discriminator and fitter.updates < args.updates:
        fitter.learn(min(-(-args.updates // 4), args.updates - fitter.updates))
        found |= fitter.learner.update_prior()
    figures = measure(fitter, logs, bank)
    if "prior/value" in found:
        figures |= {"eta": found["prior/value"], "true_eta": true_eta}
    if fitter.has_discriminator:
        held_out = held_out_logs(torch.arange(len(logs))).tolist()
        for key, wanted in (("separation", True), ("separation_trained", False)):
            some = [one for one, held in zip(logs, held_out, strict=True) if held == wanted]
            if succeeding(some).any():
                figures[key] = separation(fitter, some, demonstrations)
    figures["seconds"] = time.monotonic() - began
    rounded = {name: round(value, 4) for name, value in figures.items()}
    case = {"method": method, "expert": args.expert, "share": share, "seed": seed}
    return case | {"updates": args.updates} | rounded


def summary(rows: list[dict[str, Any]], names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Means over seeds with the lowest and highest value, by method, kind and share of the logs."""
    table = []
    for key in dict.fromkeys(map(_line, rows)):
        own = [row for row in rows if _line(row) == key]
        line: dict[str, Any] = dict(zip(("method", "expert", "share"), key, strict=True))
        line["seeds"] = len(own)
        for name in names:
            values = [row[name] for row in own if name in row]
            if values:
                line[name] = round(mean(values), 3)
            if len(values) > 1:
                line[f"{name} range"] = [round(min(values), 3), round(max(values), 3)]
        table.append(line)
    return table


def commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip()


def _line(row: dict[str, Any]) -> tuple[str, bool, float]:
    return row["method"], row.get("expert", False), row["share"]


def main(args: argparse.Namespace) -> None:
    """Run what is missing within the budget, and print the table."""
    began = time.monotonic()
    if not args.frames.exists():
        draw_frames(args.frames)
    pool = read_pool(args.frames)
    if args.expert:
        pool = with_expert(pool)
    rows: list[dict[str, Any]] = read_object(args.out).get("fits", [])
    done = {(*_line(row), row["seed"], row["updates"]) for row in rows}
    cases = [(m, p, s) for s in range(args.seeds) for p in args.shares for m in args.methods]
    left = [(m, p, s) for m, p, s in cases if (m, args.expert, p, s, args.updates) not in done]
    while left and not (args.budget and time.monotonic() - began > args.budget):
        rows.append(run_one(pool, *left.pop(0), args))
        print(json.dumps(rows[-1]), flush=True)
        report = {
            "command": shlex.join(["python", *sys.argv]),
            "commit": commit(),
            "made_with": made_with(find_device(args.device)),
            "summary": summary(rows, _FIGURES),
            "fits": rows,
        }
        write_json(args.out, report)
    for line in summary(rows, _FIGURES):
        print(json.dumps(line, ensure_ascii=False))
    print(f"{len(cases) - len(left)} of {len(cases)} fits are done")


if __name__ == "__main__":
    main(parse())
