# SPDX-License-Identifier: Apache-2.0
"""Lift: pick up the cyan banana with the Jaco arm."""

from functools import partial

from torch import Tensor

from pureward.envs.sim.engine import State
from pureward.envs.tasks.jaco import jaco_task
from pureward.envs.tasks.jaco.objects import BANANA_RADIUS
from pureward.envs.tasks.jaco.state import BANANA, from_pinch
from pureward.envs.tasks.scripted import SHUT, Move, Scripted, pick
from pureward.envs.tasks.suite import gaussian, linear

HEIGHT = 0.10  # metres above the banana's position on the floor
_GOAL = 0.12  # metres at which the reward is 1; above HEIGHT, so that success is not borderline
_NEAR = 0.30  # metres from the hand at which the reward for reaching is 0.1


def height(state: State) -> Tensor:
    """Return how far the banana is lifted, in metres (worlds,)."""
    return state.xpos[:, BANANA, 2] - BANANA_RADIUS


def reward(state: State) -> Tensor:
    """Return reach · (1 + 3 · lift) / 4, with reach and lift in [0, 1]."""
    reached = gaussian(from_pinch(state, BANANA), margin=_NEAR)
    lifted = linear(_GOAL - height(state), margin=_GOAL)
    return reached * (1.0 + 3.0 * lifted) / 4


def success(state: State) -> Tensor:
    """Return whether the banana is lifted."""
    return height(state) >= HEIGHT


_MOVES = (*pick(BANANA), Move(above=0.24, grip=SHUT, patience=400))

LIFT = jaco_task(
    name="lift",
    summary="pick up the cyan banana with a Jaco arm",
    own=("banana",),
    reward=reward,
    success=success,
    script=partial(Scripted, BANANA, _MOVES),
)
