# SPDX-License-Identifier: Apache-2.0
"""What the library needs of Gymnasium itself; imports neither torch nor a simulator."""

from copy import deepcopy
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
    arrived = deepcopy(obs) if ended.any() else obs
    for row in ended.nonzero()[0].tolist():
        _put(arrived, row, info["final_obs"][row])
    return arrived


def _put(batch: Any, row: int, value: Any) -> None:
    """Replace the observation in one row of batched observations."""
    if isinstance(batch, dict | tuple):
        for key in batch if isinstance(batch, dict) else range(len(batch)):
            _put(batch[key], row, value[key])
    else:
        batch[row] = value
