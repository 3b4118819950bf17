# SPDX-License-Identifier: Apache-2.0
"""Gymnasium's Pendulum-v1 with `pureward.train`, from images.

    pip install 'pureward[all]' 'gymnasium[classic-control]'
    python examples/pendulum.py --out runs/pendulum

The pendulum hangs, and has to be swung up and held there by a torque that is too weak to lift it at
once. An expert is trained on Pendulum's own reward and demonstrates. The rows learn a reward from
the images of its episodes by `nn-pugail` and by `gail`; two stacked images show the speed. The
policy sees angle and speed. Returns are those of Pendulum's own reward: about −150 is solved,
−1,200 is hanging.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
import tyro
from curves import Curves
from imitation_runs import film_policy, train_rows

import pureward

TASK = "gym:Pendulum-v1"


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to run."""

    methods: tuple[str, ...] = ("nn-pugail", "gail")
    """Methods to train."""
    seeds: int = 3
    """Runs of each method."""
    env_steps: int = 6_000
    """Environment steps of a run; also of the expert."""
    demonstrations: int = 20
    """Episodes of the expert; a quarter as many more are held out, at least 5."""
    out: Path = Path("runs/pendulum")
    """Folder for the expert, demonstrations, runs, curves.json, curves.png and film.mp4."""


def demonstrate(args: Args, folder: Path) -> None:
    """Train an expert on Pendulum's own reward, and write the frames of its episodes."""
    expert = args.out / "expert"
    config = pureward.preset(
        TASK,
        method="truth",
        env_steps=args.env_steps,
        out=str(expert),
        device="cpu",
        # The range of discounted returns: rewards lie in [−16.3, 0].
        **{"agent.value_low": -600.0, "agent.value_high": 0.0},
    )
    pureward.train(config, resume=(expert / "config.json").exists())
    pureward.collect(
        TASK,
        expert,
        folder,
        episodes=args.demonstrations,
        held_out=max(5, args.demonstrations // 4),
        failures=0,
        device="cpu",
    )


def main(args: Args) -> None:
    """Record what is missing, train what is missing, draw the figure and the film."""
    torch.set_num_threads(1)
    demonstrations = args.out / "demonstrations"
    if not demonstrations.exists():
        demonstrate(args, demonstrations)
    curves = Curves(args.out / "curves.json", about="Gymnasium Pendulum-v1, pureward train")
    train_rows(
        curves,
        TASK,
        methods=args.methods,
        seeds=args.seeds,
        out=args.out,
        demonstrations=demonstrations,
        env_steps=args.env_steps,
        evaluate_every=max(1, args.env_steps // 6),
    )
    curves.draw(args.out / "curves.png", {"return": "true return"})
    film_policy(args.out / f"{args.methods[0]}-0", args.out / "film.mp4")


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
