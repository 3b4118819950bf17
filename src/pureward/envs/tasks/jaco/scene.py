# SPDX-License-Identifier: Apache-2.0
"""The scene as one model: table, tray, arm, objects, cameras, light."""

import math

import mujoco
import numpy as np

from pureward.envs.sim.engine import Limits
from pureward.envs.tasks.jaco.arm import add_arm
from pureward.envs.tasks.jaco.contacts import TABLE, VISUAL, WALL, solid
from pureward.envs.tasks.jaco.objects import add_objects

TRAY = (0.15, 0.18)  # metres, half the tray's floor along x and y
CAMERAS = ("front_left", "front_right")

#: A world typically has 20 contacts; the maximum measured is 28, with 112 constraints. Most worlds
#: need two Newton iterations, one in a hundred more than ten.
LIMITS = Limits(contacts=40, constraints=192, iterations=12, line_search=8)

_BASE = -0.42  # metres along x; the middle of the tray is the origin
_WALL_HEIGHT = 0.045
_WALL_LEAN = math.radians(30.0)  # outwards from the vertical
_WALL_THICKNESS = 0.016  # metres; more than anything moves in a step
_TRAY_COLOUR, _WALL_COLOUR = (0.93, 0.9, 0.82, 1.0), (0.75, 0.68, 0.55, 1.0)

_CAMERA = (0.42, 0.38, 0.46)  # metres; the other one is its mirror image
_LOOKED_AT = (-0.06, 0.0, 0.09)


def build_scene(own: tuple[str, ...], distractors: str) -> mujoco.MjModel:
    """Compile the scene.

    Args:
        own: names of the objects that the task uses; they keep their shape.
        distractors: the shape of the other blocks, "cube" or "cuboid".
    """
    scene = mujoco.MjSpec()
    scene.modelname = "jaco"
    _set_options(scene)
    add_arm(scene, (_BASE, 0.0, 0.0))  # first: it changes all geoms, bodies and joints that exist
    add_objects(scene, own, distractors)
    _add_table(scene)
    for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        _add_wall(scene, x, y)
    _add_cameras(scene)
    return scene.compile()


def _set_options(scene: mujoco.MjSpec) -> None:
    option = scene.option
    option.timestep = 0.01
    option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST  # the servos are stiff
    option.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
    option.jacobian = mujoco.mjtJacobian.mjJAC_DENSE  # Warp's default is sparse above 32
    # Without native CCD, boxes have their own collider, which finds all corners of a stack. The
    # scene has no friction loss and no equality constraints.
    unused = mujoco.mjtDisableBit
    for flag in (unused.mjDSBL_NATIVECCD, unused.mjDSBL_FRICTIONLOSS, unused.mjDSBL_EQUALITY):
        option.disableflags |= flag.value
    scene.compiler.degree = False
    # Merges hand and wrist, and fingertip and finger: a shorter chain is faster.
    scene.compiler.fusestatic = True


def _add_table(scene: mujoco.MjSpec) -> None:
    """The table is a plane; the tray's floor is only drawn, so that it has no edges."""
    world = scene.worldbody
    plane, box = mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_BOX
    world.add_geom(
        name="table", type=plane, size=[1.0, 1.0, 0.1], rgba=[0.42, 0.47, 0.5, 1.0], **solid(TABLE)
    )
    world.add_geom(name="tray", type=box, size=[*TRAY, 0.0005], rgba=_TRAY_COLOUR, **VISUAL)


def _add_wall(scene: mujoco.MjSpec, x: int, y: int) -> None:
    """The side of the tray in direction (x, y), leaning outwards from the edge of its floor."""
    away, along = (TRAY[0], TRAY[1]) if x else (TRAY[1], TRAY[0])
    up, half = _WALL_HEIGHT / math.cos(_WALL_LEAN) / 2, along + _WALL_HEIGHT / 2
    # Rotated about that edge from lying flat.
    turn = (math.pi / 2 - _WALL_LEAN) / 2
    edge = scene.worldbody.add_frame(
        pos=[x * away, y * away, 0.0],
        quat=[math.cos(turn), y * math.sin(turn), -x * math.sin(turn), 0.0],
    )
    wall = scene.worldbody.add_geom(
        type=mujoco.mjtGeom.mjGEOM_BOX,
        pos=[x * up, y * up, -_WALL_THICKNESS / 2],
        size=[up if x else half, half if x else up, _WALL_THICKNESS / 2],
        rgba=_WALL_COLOUR,
        **solid(WALL),
    )
    wall.set_frame(edge)


def _add_cameras(scene: mujoco.MjSpec) -> None:
    """Two cameras in front of the tray, a light and the sky."""
    for name, side in zip(CAMERAS, (1.0, -1.0), strict=True):
        position = np.array([_CAMERA[0], side * _CAMERA[1], _CAMERA[2]])
        ahead = np.array(_LOOKED_AT) - position
        right = np.cross(ahead, [0.0, 0.0, 1.0])
        camera = scene.worldbody.add_camera(name=name, pos=position, fovy=48.0)
        camera.alt.type = mujoco.mjtOrientation.mjORIENTATION_XYAXES
        camera.alt.xyaxes = [*right, *np.cross(right, ahead)]
    scene.worldbody.add_light(
        pos=[0.6, 0.3, 1.6], dir=[-0.4, -0.2, -1.0], diffuse=[0.6, 0.6, 0.6], castshadow=True
    )
    scene.add_texture(
        name="sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.75, 0.82, 0.9],
        rgb2=[0.55, 0.62, 0.7],
        width=32,
        height=192,
    )
    scene.visual.headlight.ambient = [0.35, 0.35, 0.35]
    scene.visual.headlight.diffuse = [0.3, 0.3, 0.3]
