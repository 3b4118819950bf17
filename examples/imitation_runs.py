# SPDX-License-Identifier: Apache-2.0
"""Trains the rows of an example with `pureward.train` and films the policies; two examples use it.

A finished run is not repeated, an interrupted one continues from its checkpoint.
"""

from dataclasses import dataclass
from pathlib import Path

from curves import Curves

import pureward
from pureward.runs.directory import RunDirectory
from pureward.runs.log import read_metrics
from pureward.runs.policy import load_policy
from pureward.training.evaluate import film


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to run."""

    methods: tuple[str, ...] = ("nn-pugail", "gail")
    """Methods to train."""
    seeds: int
    """Runs of each method."""
    env_steps: int
    """Environment steps of a run; also of an expert that is trained."""
    demonstrations: int
    """Episodes to learn from; a quarter as many more are held out, at least 5."""
    out: Path
    """Folder for demonstrations, runs, curves.json, curves.png and film.mp4."""

    @property
    def held_out(self) -> int:
        """Episodes that D does not learn from."""
        return max(5, self.demonstrations // 4)


def train_rows(
    task: str, args: Args, *, about: str, evaluations: int, panels: dict[str, str]
) -> None:
    """Train every method with every seed on OUT/demonstrations, draw the figure and a film.

    Args:
        task: the environment's name.
        args: what to run, and where.
        about: what the figure is of, for curves.json.
        evaluations: of each run.
        panels: measurement → label of the figure's axis.
    """
    curves = Curves(args.out / "curves.json", about=about)
    for seed in range(args.seeds):
        for method in args.methods:
            if not curves.has(method, seed):
                _train(curves, task, args, method, seed, evaluations)
    curves.draw(args.out / "curves.png", panels)
    policy = load_policy(args.out / f"{args.methods[0]}-0")
    with policy.config.make_env(9, cameras=True) as env:
        film(env, policy.act, args.out / "film.mp4", seed=1)


def _train(curves: Curves, task: str, args: Args, method: str, seed: int, evaluations: int) -> None:
    """Train or continue a run, and add its evaluations to the curves."""
    folder = args.out / f"{method}-{seed}"
    data = {} if method == "truth" else {"demonstrations": str(args.out / "demonstrations")}
    config = pureward.preset(
        task,
        method=method,
        seed=seed,
        out=str(folder),
        device="cpu",
        env_steps=args.env_steps,
        evaluate_every=max(1, args.env_steps // evaluations),
        **data,
    )
    result = pureward.train(config, resume=(folder / "config.json").exists())
    if result.state != "finished":
        raise SystemExit(f"{folder} was interrupted; the same command continues it")
    rows = read_metrics(RunDirectory(folder).metrics, "eval")
    points = [{name: row[name] for name in ("step", "return", "success")} for row in rows]
    curves.add(method, seed, points=points, seconds=round(rows[-1]["seconds"]))
