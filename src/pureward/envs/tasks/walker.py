# SPDX-License-Identifier: Apache-2.0
"""Walker: the Control Suite's walker-walk, a planar biped that has to walk at 1 m/s."""

import mujoco
import torch
from torch import Tensor

from pureward.envs.sim.engine import Limits, State
from pureward.envs.tasks.suite import gaussian, linear, random_joints, read_spec
from pureward.envs.tasks.task import Task

STAND_HEIGHT = 1.2  # metres of the torso's centre above the ground
WALK_SPEED = 1.0  # metres per second

_TORSO = 1  # body 0 is the world
_X, _Z = 0, 2


def build() -> mujoco.MjModel:
    """Compile the suite's model, unchanged."""
    return read_spec("suite/walker.xml").compile()


def height(state: State) -> Tensor:
    """Return the height of the torso in metres."""
    return state.xpos[:, _TORSO, _Z]


def upright(state: State) -> Tensor:
    """Return the cosine of the torso's tilt: 1 upright, −1 upside down."""
    return state.xmat[:, _TORSO, _Z, _Z]


def speed(state: State) -> Tensor:
    """Return the forward velocity of the centre of mass, the model's only sensor."""
    return state.sensordata[:, _X]


def observe(state: State) -> Tensor:
    """Return planar orientations of 7 bodies (14), torso height (1), joint velocities (9)."""
    orientations = state.xmat[:, _TORSO:, _X, ::2].flatten(1)  # the x and z components
    return torch.cat([orientations, height(state)[:, None], state.qvel], dim=1)


def reward(state: State) -> Tensor:
    """Return the suite's reward: stand · (5 · walk + 1) / 6, with both in [0, 1]."""
    standing = gaussian(STAND_HEIGHT - height(state), margin=STAND_HEIGHT / 2)
    straight = (1.0 + upright(state)) / 2
    stands = (3.0 * standing + straight) / 4
    walks = linear(WALK_SPEED - speed(state), margin=WALK_SPEED / 2, at_margin=0.5)
    return stands * (5.0 * walks + 1.0) / 6


def success(state: State) -> Tensor:
    """Return whether the walker stands and moves at full speed."""
    return (height(state) >= STAND_HEIGHT) & (speed(state) >= WALK_SPEED)


WALKER = Task(
    name="walker",
    summary="walk forward at 1 m/s without falling (control suite walker-walk)",
    build=build,
    substeps=10,
    horizon=1000,
    cameras=("side",),
    # The maximum: 7 capsules touch the ground at two points each, a contact has four rows, and six
    # joints have limits. Newton's method needs up to 10 iterations.
    limits=Limits(contacts=14, constraints=62, iterations=20, line_search=20),
    reset=random_joints,
    observe=observe,
    reward=reward,
    success=success,
)
