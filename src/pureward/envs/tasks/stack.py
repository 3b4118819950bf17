# SPDX-License-Identifier: Apache-2.0
"""Stack: put the red block on the blue one with the Jaco arm and let go."""

from functools import partial

import torch
from torch import Tensor

from pureward.envs.sim.engine import State
from pureward.envs.tasks.jaco import jaco_task
from pureward.envs.tasks.jaco.objects import BLOCK
from pureward.envs.tasks.jaco.state import BLUE, FINGERTIPS, RED, fingers, from_pinch
from pureward.envs.tasks.scripted import SHUT, WIDE, Move, Scripted, pick
from pureward.envs.tasks.suite import gaussian, linear

ASIDE = 0.025  # metres, horizontal tolerance of red's centre: half a block
LEVEL = 0.006  # metres, vertical tolerance
AWAY = 0.08  # metres from the hand to the red block, at least
OPEN = 0.85  # radians of the fingers, at most: their tips are 8 cm apart

_NEAR = 0.30  # metres from the hand at which the reward for reaching is 0.1
_FAR = 0.20  # metres from its goal at which the reward for placing is 0.1
_FIRM = 3.0  # newtons on the fingertips that count as a grasp

# Rewards of the stages; they add up to one.
_REACH, _GRASP, _LIFT, _PLACE, _RELEASE = 0.15, 0.10, 0.15, 0.30, 0.30


def from_goal(state: State) -> Tensor:
    """Return the vector from the goal on top of blue to red's centre (worlds, 3)."""
    away = state.xpos[:, RED] - state.xpos[:, BLUE]
    away[:, 2] -= BLOCK
    return away


def grasp(state: State) -> Tensor:
    """Return in [0, 1) how firmly the thumb and an opposite finger press."""
    thumb, left, right = state.sensordata[:, FINGERTIPS].unbind(dim=1)
    return torch.tanh(torch.minimum(thumb, torch.maximum(left, right)) / _FIRM)


def released(state: State) -> Tensor:
    """Return in [0, 1] how open the hand is and how far from the red block."""
    open_ = linear(fingers(state).amax(dim=1) - OPEN, margin=0.4)
    away = linear(AWAY - from_pinch(state, RED), margin=AWAY)
    return (open_ + away) / 2


def reward(state: State) -> Tensor:
    """Return the sum of five stages: reach, grasp, lift, place, release.

    A block on top of the other keeps the reward of reaching and grasping, so that releasing it
    costs nothing.
    """
    distance = torch.linalg.vector_norm(from_goal(state), dim=1)
    stands = gaussian(distance, margin=0.03)
    reached = gaussian(from_pinch(state, RED), margin=_NEAR)
    held = grasp(state) * gaussian(from_pinch(state, RED), margin=0.08)
    lifted = linear(1.5 * BLOCK - state.xpos[:, RED, 2], margin=BLOCK)
    placed = lifted * gaussian(distance, margin=_FAR)
    return (
        _REACH * torch.maximum(reached, stands)
        + _GRASP * torch.maximum(held, stands)
        + _LIFT * lifted
        + _PLACE * placed
        + _RELEASE * stands * released(state)
    )


def success(state: State) -> Tensor:
    """Return whether red is on blue, and the hand is open and away."""
    aside = torch.linalg.vector_norm(from_goal(state)[:, :2], dim=1)
    level = from_goal(state)[:, 2].abs()
    open_ = fingers(state).amax(dim=1) <= OPEN
    return (aside <= ASIDE) & (level <= LEVEL) & open_ & (from_pinch(state, RED) >= AWAY)


_CARRY = BLOCK + 0.05  # metres above blue's centre while carrying
_MOVES = (
    *pick(RED),
    Move(above=0.16, grip=SHUT, near=0.03),
    Move(steer=RED, over=BLUE, above=_CARRY, grip=SHUT, near=0.006, steps=10, patience=80),
    Move(steer=RED, over=BLUE, above=BLOCK + 0.001, grip=SHUT, near=0.004, patience=40),
    Move(grip=WIDE, steps=16, patience=16),
    Move(above=0.26, grip=WIDE, patience=400),
)

STACK = jaco_task(
    name="stack",
    summary="put the red block on the blue one with a Jaco arm",
    own=("red", "blue"),
    reward=reward,
    success=success,
    script=partial(Scripted, RED, _MOVES),
)
