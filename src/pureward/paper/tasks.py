# SPDX-License-Identifier: Apache-2.0
"""How each task is studied: its expert, how many episodes of it, and what runs change."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from pureward.runs.config import RunConfig

Change = Callable[[RunConfig], RunConfig]


def _as_it_is(config: RunConfig) -> RunConfig:
    return config


@dataclass(frozen=True, kw_only=True)
class Study:
    """What a task needs besides its presets."""

    expert: Change = _as_it_is
    """What the expert's run changes."""
    learned: Change = _as_it_is
    """What every run on a learned reward changes, the same for all methods."""
    episodes: int = 50
    """Demonstrations, and annotated episodes, to train on (Table 2)."""
    held_out: int = 10
    """More of each for the probes."""
    failures: int = 10
    """Episodes that never succeed, for the probes."""


def _walker_expert(config: RunConfig) -> RunConfig:
    """An expert is good at 900; many policies are kept on the short way there."""
    return replace(config, stop_at_return=900.0, snapshot_every=100_000, evaluate_every=400_000)


def _lift_expert(config: RunConfig) -> RunConfig:
    """Half of the way to 350, of 400, is learned in two million steps, and all stages count."""
    return replace(config, stop_at_return=350.0, snapshot_every=100_000, evaluate_every=1_000_000)


def _stack_expert(config: RunConfig) -> RunConfig:
    return replace(config, stop_at_return=340.0, snapshot_every=400_000)


def _reach_expert(config: RunConfig) -> RunConfig:
    return replace(config, snapshot_every=1_000)


STUDIES: dict[str, Study] = {
    "walker": Study(expert=_walker_expert),
    "lift": Study(expert=_lift_expert),
    "stack": Study(expert=_stack_expert, episodes=200),
    "reach": Study(expert=_reach_expert, episodes=20, held_out=6, failures=6),
}
