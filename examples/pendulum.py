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

from pathlib import Path

import torch
import tyro
from imitation_runs import Args, train_rows

import pureward

TASK = "gym:Pendulum-v1"
DEFAULTS = Args(seeds=3, env_steps=6_000, demonstrations=20, out=Path("runs/pendulum"))


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
        held_out=args.held_out,
        failures=0,
        device="cpu",
    )


def main(args: Args) -> None:
    """Record what is missing, train what is missing, draw the figure and the film."""
    torch.set_num_threads(1)
    demonstrations = args.out / "demonstrations"
    if not demonstrations.exists():
        demonstrate(args, demonstrations)
    train_rows(
        TASK,
        args,
        about="Gymnasium Pendulum-v1, pureward train",
        evaluations=6,
        panels={"return": "true return"},
    )


if __name__ == "__main__":
    main(tyro.cli(Args, default=DEFAULTS, description=__doc__))
