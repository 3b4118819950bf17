# SPDX-License-Identifier: Apache-2.0
"""Walker: the control suite's planar biped, to walk at one metre a second."""

import mujoco
import torch
from torch import Tensor

from pureward.envs.sim.engine import Limits, State
from pureward.envs.tasks.shaping import gaussian, linear
from pureward.envs.tasks.suite import random_joints, read_spec
from pureward.envs.tasks.task import Task

STAND_HEIGHT = 1.2  # metres of the torso's centre above the ground
WALK_SPEED = 1.0  # metres a second

_TORSO = 1  # body 0 is the world
_X, _Z = 0, 2


def build() -> mujoco.MjModel:
    """The suite's model, unchanged."""
    return read_spec("suite/walker.xml").compile()


def height(state: State) -> Tensor:
    """Height of the torso."""
    return state.xpos[:, _TORSO, _Z]


def upright(state: State) -> Tensor:
    """Cosine of the torso's tilt: 1 upright, −1 upside down."""
    return state.xmat[:, _TORSO, _Z, _Z]


def speed(state: State) -> Tensor:
    """Forward velocity of the centre of mass, the model's only sensor."""
    return state.sensordata[:, _X]


def observe(state: State) -> Tensor:
    """Planar orientation of the 7 bodies (14), torso height (1), joint velocities (9)."""
    orientations = state.xmat[:, _TORSO:, _X, ::2].flatten(1)  # the x and z components
    return torch.cat([orientations, height(state)[:, None], state.qvel], dim=1)


def reward(state: State) -> Tensor:
    """Stand tall and straight, times five sixths for speed."""
    standing = gaussian(STAND_HEIGHT - height(state), margin=STAND_HEIGHT / 2)
    straight = (1.0 + upright(state)) / 2
    stands = (3.0 * standing + straight) / 4
    walks = linear(WALK_SPEED - speed(state), margin=WALK_SPEED / 2, at_margin=0.5)
    return stands * (5.0 * walks + 1.0) / 6


def success(state: State) -> Tensor:
    """Standing and walking at full speed at this instant."""
    return (height(state) >= STAND_HEIGHT) & (speed(state) >= WALK_SPEED)


WALKER = Task(
    name="walker",
    summary="walk forward at 1 m/s without falling (control suite walker-walk)",
    build=build,
    substeps=10,
    horizon=1000,
    cameras=("side",),
    # The most there can be: 7 capsules touch the ground at two points each, a contact has four
    # rows, and six joints have limits. Newton's method needs 10 iterations in the worst worlds.
    limits=Limits(contacts=14, constraints=62, iterations=20, line_search=20),
    reset=random_joints,
    observe=observe,
    reward=reward,
    success=success,
)
