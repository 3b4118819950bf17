# SPDX-License-Identifier: Apache-2.0
"""How often the script solves lift and stack: the share of resets it ends in success from.

python benchmarks/scripted.py --resets 200
"""

import torch
import tyro

import pureward
from pureward.envs.tasks.scripted import Scripted


def main(resets: int = 200, seed: int = 14) -> None:
    for task in ("lift", "stack"):
        for distractors in ("cube", "cuboid"):
            env = pureward.make(task, resets, "cpu", seed=seed, distractors=distractors)
            script = Scripted(task, env.engine.state)
            solved = torch.stack([env.step(script()).success for _ in range(env.horizon)])
            seconds = (~solved).float().cumprod(dim=0).sum(dim=0)[solved.any(dim=0)] / 20
            print(
                f"{task:5} among {distractors + 's':7}: {solved[-1].float().mean():.1%} solved at "
                f"the end, {solved.any(dim=0).float().mean():.1%} at some time, "
                f"first after {seconds.median():.1f} s (median)"
            )


if __name__ == "__main__":
    tyro.cli(main)
