# SPDX-License-Identifier: Apache-2.0
"""What do rewards that were learned across the domain gap think of an expert on either side of it?

    python benchmarks/gap_trust.py --runs runs/paper/lift/*-distractors-cuboid/seed-*

Plays the same expert among cubes, as in the data, and among cuboids, as where the policies
learned, and lets the saved reward of every run judge both. A discriminator that looks at the task
trusts the expert in both scenes; one that looks at the distractors only among cubes.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import tyro

from pureward.data.episodes import Episode
from pureward.diagnostics.evidence import judge_episode
from pureward.envs import make
from pureward.files import write_json
from pureward.rewards.saved import load_reward
from pureward.runs.collect import rollout
from pureward.runs.config_file import read_config
from pureward.runs.directory import RunDirectory
from pureward.runs.policy import load_policy

SCENES = ("cube", "cuboid")


@dataclass(frozen=True, kw_only=True)
class Args:
    """Whose rewards judge what."""

    runs: tuple[Path, ...]
    """Run directories with a saved reward."""
    expert: Path = Path("results/jaco/experts/lift")
    task: str = "lift"
    episodes: int = 16
    seed: int = 7
    out: Path | None = None
    """A JSON file for the table."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One reward's view of the expert's episodes in one scene, means over their steps."""

    run: str
    scene: str
    true: float
    paid: float
    trust: float | None
    """D, where there is one."""
    predicted: float | None
    """r_φ before any gate, where there is one."""


def play(run: Path, scene: str, *, task: str, episodes: int, seed: int) -> list[Episode]:
    """Greedy episodes of a run's last policy, with frames, in a scene of cubes or cuboids."""
    env = make(task, episodes, "cpu", seed=seed, cameras=True, distractors=scene)
    return rollout(env, load_policy(run, device="cpu").act)


def judge(run: Path, scenes: dict[str, list[Episode]]) -> list[Row]:
    """The rows of one run, a scene each."""
    reward, rows = load_reward(run, device="cpu"), []
    stack = read_config(RunDirectory(run)).replay.frame_stack
    for scene, episodes in scenes.items():
        judged = [judge_episode(episode, reward, stack) for episode in episodes]
        told = {
            "true": [one.episode.rewards for one in judged],
            "paid": [one.learned for one in judged],
            "trust": [one.success for one in judged if one.success is not None],
            "predicted": [one.predicted for one in judged if one.predicted is not None],
        }
        means = {key: mean(steps) for key, steps in told.items()}
        rows.append(Row(run="/".join(run.parts[-2:]), scene=scene, **means))  # pyright: ignore
    return rows


def mean(steps: list[torch.Tensor]) -> float | None:
    """Over all steps of all episodes, if there are any."""
    return round(float(torch.cat(steps).mean()), 3) if steps else None


def main(args: Args) -> None:
    """Play, judge, print."""
    stage = {"task": args.task, "episodes": args.episodes, "seed": args.seed}
    scenes = {scene: play(args.expert, scene, **stage) for scene in SCENES}
    print(f"{'reward of':42} {'scene':7} {'true':>6} {'paid':>6} {'D':>6} {'r_phi':>6}")
    rows = []
    for run in args.runs:
        for row in judge(run, scenes):
            rows.append(row)
            told = (row.true, row.paid, row.trust, row.predicted)
            numbers = " ".join(f"{'–' if value is None else f'{value:.3f}':>6}" for value in told)
            print(f"{row.run:42} {row.scene:7} {numbers}", flush=True)
    if args.out:
        write_json(args.out, [asdict(row) for row in rows])


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
