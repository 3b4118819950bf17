# SPDX-License-Identifier: Apache-2.0
"""The scene of `lift` and `stack`: a Jaco arm, a tray, three blocks and a banana."""

from collections.abc import Callable
from functools import partial

from torch import Tensor

from pureward.envs.sim.engine import State
from pureward.envs.tasks.jaco.objects import DISTRACTORS
from pureward.envs.tasks.jaco.scene import CAMERAS, LIMITS, build_scene
from pureward.envs.tasks.jaco.state import OBSERVED, observe, random_tray
from pureward.envs.tasks.task import Task
from pureward.types import Script


def jaco_task(
    name: str,
    summary: str,
    own: tuple[str, ...],
    reward: Callable[[State], Tensor],
    success: Callable[[State], Tensor],
    script: Callable[[State], Script],
) -> Task:
    """Return a task in the scene that uses the objects `own`; the others are distractors."""
    variants = {shape: partial(build_scene, own, shape) for shape in DISTRACTORS}
    return Task(
        name=name,
        summary=summary,
        build=variants["cube"],
        variants=variants,
        substeps=5,
        horizon=400,
        cameras=CAMERAS,
        limits=LIMITS,
        reset=random_tray,
        observe=observe,
        observed=OBSERVED,
        reward=reward,
        success=success,
        hold=10,
        script=script,
    )
