# SPDX-License-Identifier: Apache-2.0
"""Lift: the Jaco arm is to pick up the cyan banana."""

from functools import partial

from torch import Tensor

from pureward.envs.sim.engine import State
from pureward.envs.tasks.jaco.layout import BANANA, from_pinch, place
from pureward.envs.tasks.jaco.objects import BANANA_RADIUS, DISTRACTORS
from pureward.envs.tasks.jaco.observation import OBSERVED, observe
from pureward.envs.tasks.jaco.placement import random_tray
from pureward.envs.tasks.jaco.scene import CAMERAS, LIMITS, build_scene
from pureward.envs.tasks.scripted import SHUT, Move, Scripted, pick
from pureward.envs.tasks.shaping import gaussian, linear
from pureward.envs.tasks.task import Task

HEIGHT = 0.10  # metres above its place on the tray's floor
_GOAL = 0.12  # metres at which the reward is full, so that success is not on its edge
_NEAR = 0.30  # metres from the hand at which the reward for reaching is nearly gone


def height(state: State) -> Tensor:
    """How far the banana has been lifted."""
    return place(state, BANANA)[:, 2] - BANANA_RADIUS


def reward(state: State) -> Tensor:
    """A quarter for the hand at the banana, times three more for its height there."""
    reached = gaussian(from_pinch(state, BANANA), margin=_NEAR)
    lifted = linear(_GOAL - height(state), margin=_GOAL)
    return reached * (1.0 + 3.0 * lifted) / 4


def success(state: State) -> Tensor:
    """The banana is up."""
    return height(state) >= HEIGHT


LIFT = Task(
    name="lift",
    summary="pick up the cyan banana with a Jaco arm",
    build=partial(build_scene, ("banana",), "cube"),
    variants={shape: partial(build_scene, ("banana",), shape) for shape in DISTRACTORS},
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
    script=partial(Scripted, BANANA, (*pick(BANANA), Move(above=0.24, grip=SHUT, patience=400))),
)
