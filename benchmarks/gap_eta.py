# SPDX-License-Identifier: Apache-2.0
"""Which η lets a discriminator see behaviour where data and agent live in different scenes?

    python benchmarks/gap_eta.py --failing runs/paper/lift/gail-distractors-cuboid/seed-* \
        --out results/jaco/gap-eta.json

Positives are lift's demonstrations, among cubes. Unlabeled frames are an agent's among cuboids: a
known share of an expert's, the rest of policies that fail. A discriminator learns for a little
while with each risk and η, and judges episodes of both kinds that it has not seen. "area" is the
area under the ROC curve of the expert's against the failing ones', both among cuboids: what D sees
of behaviour. A policy learns from the difference of the two rewards, capped at 1 as in the preset.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import torch
import tyro
from torch import Tensor

from gap_trust import play
from pureward.data.dataset import read_dataset
from pureward.data.draw import draw
from pureward.data.episodes import HELD_OUT, TRAIN, Episode
from pureward.data.frames import FrameBank
from pureward.files import write_json
from pureward.rewards.compose import imitation_reward
from pureward.rewards.discriminator import Discriminator, DiscriminatorConfig
from pureward.rewards.network import NetworkConfig
from pureward.rewards.priors.resample import auc
from pureward.rewards.risks.pu import nnpu, pn

TASK, SCENE = "lift", "cuboid"
#: Name → risk, η, whether classes count alike.
RISKS = {
    "pn, as gail": (pn, 0.5, False),
    "even nnpu, η 0.02": (nnpu, 0.02, True),
    "even nnpu, η 0.1": (nnpu, 0.1, True),
    "even nnpu, η 0.3": (nnpu, 0.3, True),
    "nnpu, η 0.1": (nnpu, 0.1, False),
    "nnpu, η 0.3": (nnpu, 0.3, False),
    "nnpu, η 0.5": (nnpu, 0.5, False),
}


@dataclass(frozen=True, kw_only=True)
class Args:
    """Whose frames, and how long."""

    failing: tuple[Path, ...]
    """Runs whose policies fail among cuboids."""
    expert: Path = Path("results/jaco/experts/lift")
    demonstrations: Path = Path("datasets/lift/demonstrations")
    shares: tuple[float, ...] = (0.0625, 0.25)
    """Of the expert's frames among the unlabeled ones."""
    episodes: int = 8
    """Of each policy, to learn from, and as many to judge."""
    updates: int = 400
    batch: int = 32
    learning_rate: float = 3e-4
    channels: tuple[int, ...] = (16, 32, 32)
    threads: int = 1
    out: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Frames to learn from, and others to judge."""

    demonstrations: FrameBank
    expert: FrameBank
    failing: FrameBank
    judged: dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one discriminator made of it."""

    risk: str
    share: float
    area: float
    data: float
    """Reward of held-out demonstrations."""
    expert: float
    """Reward of the expert among cuboids."""
    failing: float


def gather(args: Args) -> Scene:
    """Draw and play everything once."""
    every = read_dataset(args.demonstrations).episodes
    shown, kept = ([e for e in every if e.split == s] for s in (TRAIN, HELD_OUT))
    count = args.episodes
    learn, judge = (
        {
            "expert": _among_cuboids([args.expert], count, s),
            "failing": _among_cuboids(args.failing, count, s),
        }
        for s in (1, 2)
    )
    judge["data"] = draw(kept[:count], TASK, "cpu")
    return Scene(
        demonstrations=FrameBank(draw(shown[: 2 * count], TASK, "cpu")),
        expert=FrameBank(learn["expert"]),
        failing=FrameBank(learn["failing"]),
        judged={name: _some(FrameBank(episodes)) for name, episodes in judge.items()},
    )


def measure(scene: Scene, name: str, share: float, args: Args) -> Row:
    """Train one discriminator and ask it."""
    risk, prior, even = RISKS[name]
    channels = scene.judged["data"].shape[1]
    network = NetworkConfig(frame_channels=channels, stage_channels=args.channels)
    config = DiscriminatorConfig(
        network=network, learning_rate=args.learning_rate, prior=prior, even=even
    )
    discriminator = Discriminator(config, risk=risk)
    rng = torch.Generator().manual_seed(0)
    successes = round(args.batch * share)
    for _ in range(args.updates):
        unlabeled = [
            scene.expert.sample(successes, rng),
            scene.failing.sample(args.batch - successes, rng),
        ]
        discriminator.update(scene.demonstrations.sample(args.batch, rng), torch.cat(unlabeled))
    logits = {kind: discriminator.logits(frames) for kind, frames in scene.judged.items()}
    paid = {k: float(imitation_reward(v, ceiling=1.0).mean()) for k, v in logits.items()}
    return Row(risk=name, share=share, area=float(auc(logits["expert"], logits["failing"])), **paid)


def main(args: Args) -> None:
    """Print a row for each share and risk as it is known."""
    torch.set_num_threads(args.threads)
    scene, rows = gather(args), []
    print(f"{'risk':20} {'share':>6} {'area':>6} {'data':>6} {'expert':>7} {'failing':>8}")
    for share, name in product(args.shares, RISKS):
        began = time.perf_counter()
        row = measure(scene, name, share, args)
        rows.append(row)
        told = f"{row.area:6.2f} {row.data:6.2f} {row.expert:7.2f} {row.failing:8.2f}"
        seconds = time.perf_counter() - began
        print(f"{name:20} {share:6.2f} {told}   {seconds:.0f} s", flush=True)
        if args.out:
            settings = {k: str(v) for k, v in vars(args).items() if k not in ("failing", "out")}
            write_json(args.out, {"settings": settings, "rows": [asdict(row) for row in rows]})


def _among_cuboids(runs: Sequence[Path], episodes: int, seed: int) -> list[Episode]:
    stage = {"task": TASK, "episodes": episodes, "seed": seed}
    return [episode for run in runs for episode in play(run, SCENE, **stage)]


def _some(bank: FrameBank, count: int = 1000) -> Tensor:
    """Rows spread over all episodes."""
    return bank[torch.linspace(0, len(bank) - 1, count).long()]


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
