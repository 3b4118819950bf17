# SPDX-License-Identifier: Apache-2.0
"""Reach: move a point in the plane onto a disc. Small enough for a laptop."""

import mujoco
import torch
from torch import Tensor

from pureward.envs.sim.engine import Limits, State
from pureward.envs.tasks.suite import gaussian, random_joints, read_spec
from pureward.envs.tasks.task import Task

TARGET_RADIUS = 0.05  # metres
ARENA = 0.29  # metres from the centre to the wall

_POINT_RADIUS = 0.025
_STRENGTH = 3.0  # relative to the suite's motors; shortens the episodes


def build() -> mujoco.MjModel:
    """Compile the suite's point mass, with a point and a target that are visible at 64×64."""
    spec = read_spec("suite/point_mass.xml")
    point, target = spec.geom("pointmass"), spec.geom("target")
    point.size[0] = _POINT_RADIUS
    # A flat disc, so that the point stays visible on top of it.
    target.type = mujoco.mjtGeom.mjGEOM_CYLINDER
    target.size[:2] = TARGET_RADIUS, 0.001
    target.pos[2] = 0.001
    target.material = ""
    target.rgba = 0.2, 0.8, 0.3, 1.0
    for motor in spec.actuators:
        motor.gear[0] *= _STRENGTH
    # The camera does not see the sky, and the suite's 800×4800 pixels would triple the time of
    # making an environment.
    sky = spec.texture("skybox")
    sky.width, sky.height = 8, 8
    return spec.compile()


def distance(state: State) -> Tensor:
    """Return the metres from the point to the target's centre, the origin."""
    return torch.linalg.vector_norm(state.qpos, dim=1)


def observe(state: State) -> Tensor:
    """Return position (2) and velocity (2), in units of the arena's half-width."""
    return torch.cat([state.qpos, state.qvel], dim=1) / ARENA


def reward(state: State) -> Tensor:
    """Return 1 at the target's centre, falling smoothly to 0.1 at the wall."""
    return gaussian(distance(state), margin=ARENA)


def success(state: State) -> Tensor:
    """Return whether the point is on the target."""
    return distance(state) <= TARGET_RADIUS


REACH = Task(
    name="reach",
    summary="drive a point onto the green disc (small, for CPUs)",
    build=build,
    substeps=2,
    horizon=100,
    cameras=("fixed",),
    limits=Limits(contacts=1, constraints=4),
    reset=random_joints,
    observe=observe,
    reward=reward,
    success=success,
)
