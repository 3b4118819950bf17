# SPDX-License-Identifier: Apache-2.0
"""Trains the rows of an example with `pureward.train` and films the policies; two examples use it.

A finished run is not repeated, an interrupted one continues from its checkpoint.
"""

from pathlib import Path
from typing import Any

from curves import Curves

import pureward
from pureward.runs.directory import RunDirectory
from pureward.runs.log import read_metrics
from pureward.runs.policy import load_policy
from pureward.training.evaluate import film


def train_rows(
    curves: Curves,
    task: str,
    *,
    methods: tuple[str, ...],
    seeds: int,
    out: Path,
    demonstrations: Path,
    **changes: Any,
) -> None:
    """Train every method with every seed, and add the evaluations to the curves."""
    for seed in range(seeds):
        for method in methods:
            if curves.has(method, seed):
                continue
            data = {} if method == "truth" else {"demonstrations": str(demonstrations)}
            folder = out / f"{method}-{seed}"
            config = pureward.preset(
                task, method=method, seed=seed, out=str(folder), device="cpu", **data, **changes
            )
            result = pureward.train(config, resume=(folder / "config.json").exists())
            if result.state != "finished":
                raise SystemExit(f"{folder} was interrupted; the same command continues it")
            rows = read_metrics(RunDirectory(folder).metrics, "eval")
            points = [{name: row[name] for name in ("step", "return", "success")} for row in rows]
            curves.add(method, seed, points=points, seconds=round(rows[-1]["seconds"]))


def film_policy(run: Path, path: Path, *, worlds: int = 9, seed: int = 1) -> None:
    """Film a run's policy in several worlds."""
    policy = load_policy(run)
    with policy.config.make_env(worlds, cameras=True) as env:
        film(env, policy.act, path, seed=seed)
