# SPDX-License-Identifier: Apache-2.0
"""Tasks by name."""

from pureward.envs.tasks.lift import LIFT
from pureward.envs.tasks.reach import REACH
from pureward.envs.tasks.stack import STACK
from pureward.envs.tasks.task import Task
from pureward.envs.tasks.walker import WALKER
from pureward.registry import Registry

#: Name → task. Add one with `TASKS.register("mine")(Task(name="mine", …))`.
TASKS: Registry[Task] = Registry("task")
TASKS |= {task.name: task for task in (WALKER, REACH, LIFT, STACK)}
