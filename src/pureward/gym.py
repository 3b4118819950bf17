# SPDX-License-Identifier: Apache-2.0
"""What the library needs of Gymnasium itself; imports neither torch nor a simulator."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from pureward.errors import InputError

#: The keys of `pureward.TASKS`, which cannot be imported here; a test compares both.
TASK_NAMES = ("walker", "reach", "lift", "stack")


def register() -> None:
    """Register every task as pureward/NAME-v0 with `gymnasium.make` and `make_vec`."""
    for name in TASK_NAMES:
        if f"pureward/{name}-v0" not in gymnasium.registry:
            gymnasium.register(
                id=f"pureward/{name}-v0",
                entry_point="pureward.envs.vector:make_single",
                vector_entry_point="pureward.envs.vector:make_vec",
                kwargs={"task": name},
            )


def autoreset_mode(envs: VectorEnv, renders: bool) -> AutoresetMode:
    """Return how a vector environment resets ended episodes.

    Args:
        envs: the vector environment.
        renders: whether frames are rendered, which must be possible before the reset.
    """
    mode = envs.metadata.get("autoreset_mode")
    try:
        mode = AutoresetMode(mode)
    except ValueError:
        raise InputError(
            f"a vector environment must state metadata['autoreset_mode'], got {mode!r}; set it "
            "to a gymnasium.vector.AutoresetMode"
        ) from None
    if renders and mode == AutoresetMode.SAME_STEP:
        raise InputError(
            "frames='render' needs the autoreset mode NEXT_STEP or DISABLED, got SAME_STEP, "
            "which resets before the last frame can be rendered; change the mode, or take "
            "frames from the observation"
        )
    return mode


def arrivals(obs: Any, info: dict[str, Any], ended: np.ndarray) -> Any:
    """Return the observations of arrival states of a step in the mode SAME_STEP.

    Args:
        obs: batched observations, already of the next episode where one ended.
        info: of the step; `final_obs` has the last observations of ended episodes.
        ended: which episodes ended, bool (worlds,).
    """
    rows = ended.nonzero()[0].tolist()
    return _with_rows(obs, {row: info["final_obs"][row] for row in rows}) if rows else obs


def _with_rows(batch: Any, rows: dict[int, Any]) -> Any:
    """A copy of batched observations with other observations in some rows."""
    if isinstance(batch, dict | tuple):
        parts = {
            key: _with_rows(part, {row: value[key] for row, value in rows.items()})
            for key, part in (batch.items() if isinstance(batch, dict) else enumerate(batch))
        }
        return parts if isinstance(batch, dict) else tuple(parts.values())
    copy = batch.copy()
    for row, value in rows.items():
        copy[row] = value
    return copy
