# SPDX-License-Identifier: Apache-2.0
"""Registers the tasks with Gymnasium without importing torch or a simulator."""

import gymnasium

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
