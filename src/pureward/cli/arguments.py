# SPDX-License-Identifier: Apache-2.0
"""What several verbs take, and how they speak."""

from pathlib import Path
from typing import Annotated

import tyro

Task = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
Run = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
Runs = Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN…")]


def announce(device: str) -> None:
    """Say why nothing seems to happen at first."""
    from pureward.envs import find_device

    if find_device(device).type == "cuda":
        print("On a new machine the simulator's kernels are compiled first: up to a minute.")


def told_evaluation(evaluation: dict[str, float]) -> str:
    """A greedy evaluation in words."""
    within = f" ± {evaluation['return_ci95']:.1f} (95%)" if evaluation["episodes"] > 1 else ""
    return (
        f"greedy return {evaluation['return']:.1f}{within}, from "
        f"{evaluation['return_min']:.1f} to {evaluation['return_max']:.1f}; solved "
        f"{evaluation['success']:.0%} of {evaluation['episodes']:.0f} episodes"
    )
