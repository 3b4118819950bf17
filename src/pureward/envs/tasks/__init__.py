# SPDX-License-Identifier: Apache-2.0
"""The tasks that ship, by name."""

from pureward.envs.tasks.lift import LIFT
from pureward.envs.tasks.reach import REACH
from pureward.envs.tasks.stack import STACK
from pureward.envs.tasks.task import Task
from pureward.envs.tasks.walker import WALKER
from pureward.errors import InputError

TASKS: dict[str, Task] = {task.name: task for task in (WALKER, REACH, LIFT, STACK)}


def find_task(name: str) -> Task:
    """The task of that name, or a sentence that lists the names there are."""
    if name not in TASKS:
        raise InputError(f"unknown task {name!r}; choose from {sorted(TASKS)}")
    return TASKS[name]
