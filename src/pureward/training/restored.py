# SPDX-License-Identifier: Apache-2.0
"""Checks of a checkpoint before it is restored.

Each tensor must have the name, shape and type that the run would write now, and be finite. Integers
must lie within `_limits`.
"""

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from pureward.data.replay import tables
from pureward.envs import BatchEnv
from pureward.errors import InputError
from pureward.runs.checkpoint import Checkpoint
from pureward.runs.directory import step_of
from pureward.training.learner import Learner

_REPLAY = "learner/replay/"
# Facts that earlier checkpoints do not have, and the least values of all.
_LATER = {"probed_at": -1, "successes": 0, "counted_steps": 0}
_LEAST = {"control_steps": 0, "metrics_bytes": 0, "evaluated_at": -1, **_LATER}


def check_tensors(
    saved: Checkpoint, fresh: Mapping[str, Tensor], learner: Learner, env: BatchEnv
) -> None:
    """Raise InputError for tensors that this run could not have written.

    Args:
        saved: the checkpoint.
        fresh: what the run would write now.
        learner: whose replay and script bound indices and counters.
        env: whose horizon bounds the elapsed steps.
    """
    for name, own in fresh.items():
        # The number of rows in the replay is checked by the replay.
        start = 1 if name.startswith(_REPLAY) and own.dim() else 0
        wanted, found = tuple(own.shape), saved.shapes.get(name)
        if found is None or len(found) != len(wanted) or found[start:] != wanted[start:]:
            raise InputError(
                f"checkpoint {saved.path} does not fit the run's settings ({name} must have shape "
                f"{wanted}, got {found}); restore the config.json it was written with, or delete "
                "it to resume from an older one"
            )
    count = f"{_REPLAY}rows"
    _check_values(saved, {name: own for name, own in fresh.items() if name == count}, {})
    rows = int(saved.tensors[count]) if count in fresh else 0
    _check_values(saved, fresh, _limits(learner, env, rows))


def _check_values(
    saved: Checkpoint, fresh: Mapping[str, Tensor], allowed: Mapping[str, tuple[int, int]]
) -> None:
    for name, own in fresh.items():
        wrong = tables.damage(saved.tensors[name], own, *allowed.get(name, ()))
        if wrong:
            raise InputError(
                f"checkpoint {saved.path} is damaged ({name} {wrong}); "
                "delete it to resume from an older one"
            )


def _limits(learner: Learner, env: BatchEnv, rows: int) -> dict[str, tuple[int, int]]:
    """Lowest and highest value of integers, by tensor; others must only be at least 0."""
    layout = learner.replay.layout
    steps = min(rows, layout.rows) * layout.worlds
    replay = tables.limits(layout, rows)
    script = learner.guide.limits() if learner.guide else {}
    return {
        **{f"{_REPLAY}{name}": span for name, span in replay.items()},
        **{f"learner/guide/{name}": span for name, span in script.items()},
        "learner/remembered/labels.filled": (steps, steps),
        "learner/remembered/labels.next": (0, max(0, steps - 1)),
        "learner/agent_meter/first_bad": (0, 0),  # a run that diverged writes no checkpoint
        "learner/reward_meter/first_bad": (0, 0),
        "env/elapsed": (0, env.horizon - 1),
        "success/steps": (rows, rows),
        "success/ever": (0, rows * layout.worlds),
    }


def read_facts(saved: Checkpoint, worlds: int) -> dict[str, Any]:
    """Return the facts of a checkpoint; ValueError, TypeError or KeyError if they are invalid."""
    facts = {**_LATER, **saved.facts}
    for name, least in _LEAST.items():
        if type(facts[name]) is not int or facts[name] < least:
            raise ValueError(f"its facts.json must count {name} from {least}, got {facts[name]!r}")
    steps = facts["control_steps"] * worlds
    counted = facts["successes"] <= facts["counted_steps"] * worlds <= steps
    if not (counted and steps == facts["step"] == step_of(saved.path)):
        raise ValueError("its facts.json contradicts itself")
    if not all(map(math.isfinite, (facts["seconds"], *dict(facts["evaluation"]).values()))):
        raise ValueError("its facts.json holds NaN or infinity")
    return facts
