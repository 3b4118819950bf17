# SPDX-License-Identifier: Apache-2.0
"""The scene of `lift` and `stack`: a Jaco arm, a tray, three blocks and a banana."""

from functools import partial
from typing import Any

from pureward.envs.tasks.jaco.objects import DISTRACTORS
from pureward.envs.tasks.jaco.scene import CAMERAS, LIMITS, build_scene
from pureward.envs.tasks.jaco.state import OBSERVED, observe, random_tray
from pureward.envs.tasks.task import Task


def jaco_task(own: tuple[str, ...], **fields: Any) -> Task:
    """Return a task in the scene that uses the objects `own`; the others are distractors.

    Args:
        own: names of objects.
        fields: of `Task` that the scene leaves open.
    """
    variants = {shape: partial(build_scene, own, shape) for shape in DISTRACTORS}
    return Task(
        build=variants["cube"],
        variants=variants,
        substeps=5,
        horizon=400,
        cameras=CAMERAS,
        limits=LIMITS,
        reset=random_tray,
        observe=observe,
        observed=OBSERVED,
        hold=10,
        **fields,
    )
