# SPDX-License-Identifier: Apache-2.0
"""The Kinova Jaco arm with its three-finger hand: meshes are drawn, capsules collide."""

import math

import mujoco

from pureward.envs.tasks.jaco.contacts import HAND, LOWER_ARM, UNDRAWN, UPPER_ARM, VISUAL, solid
from pureward.envs.tasks.suite import read_spec

JOINTS = 6
FINGERS = 3

#: Joint velocities in radians per second at actions of ±1.
LARGE_JOINT_SPEED = math.radians(36.0)
SMALL_JOINT_SPEED = math.radians(48.0)
FINGER_SPEED = 1.2

#: Joint angles with the hand over the middle of the tray, pointing down, fingers open.
HOME = (2.99, 3.71, 1.35, -0.24, 0.92, 0.0, 0.4, 0.4, 0.4)

_LARGE_JOINTS = ("arm/joint_1", "arm/joint_2", "arm/joint_3")

# Torque limits in newton metres: the manufacturer's for the arm; a fingertip presses 20 to 25 N.
_LARGE_JOINT_TORQUE = 30.5
_SMALL_JOINT_TORQUE = 6.8
_FINGER_TORQUE = 1.5

# Body, radius, both ends of the axis, kind; fitted to the meshes by hand.
_CAPSULES = (
    ("arm/b_base", 0.041, (0.0, 0.0, 0.041), (0.0, 0.0, 0.275), UPPER_ARM),
    ("arm/b_2", 0.037, (0.0, 0.0, -0.02), (0.0, -0.41, -0.02), UPPER_ARM),
    ("arm/b_3", 0.033, (0.0, 0.0, -0.02), (0.0, 0.19, -0.012), LOWER_ARM),
    ("arm/b_4", 0.031, (0.0, 0.0, -0.02), (0.0, -0.02, -0.058), LOWER_ARM),
    ("arm/b_5", 0.031, (0.0, 0.0, -0.02), (0.0, -0.02, -0.058), LOWER_ARM),
    ("hand/hand", 0.042, (0.0, -0.010, -0.078), (0.0, 0.012, -0.078), HAND),
    *(
        (f"hand/b_finger_{finger}", 0.0105, (0.004, -0.0095, 0.0), (0.040, -0.0085, 0.0), HAND)
        for finger in (1, 2, 3)
    ),
    *(
        (f"hand/b_finger_tip_{finger}", 0.0075, (0.004, -0.0045, 0.0), (0.0365, -0.0052, 0.0), HAND)
        for finger in (1, 2, 3)
    ),
)


def add_arm(scene: mujoco.MjSpec, position: tuple[float, float, float]) -> None:
    """Add arm and hand from dm_control's files, with our colliders, actuators and sensors."""
    arm, hand = (read_spec(f"third_party/kinova/jaco_{part}.xml") for part in ("arm", "hand"))
    scene.attach(arm, frame=scene.worldbody.add_frame(pos=position), prefix="arm/")
    scene.attach(hand, site=scene.site("arm/wristsite"), prefix="hand/")
    _add_capsules(scene)
    _add_actuators(scene)
    _add_sensors(scene)


def _add_capsules(scene: mujoco.MjSpec) -> None:
    for geom in scene.geoms:
        for name, value in VISUAL.items():
            setattr(geom, name, value)
    for body, radius, start, end, kind in _CAPSULES:
        scene.body(body).add_geom(
            scene.default,  # the fingers' own defaults are meshes
            type=mujoco.mjtGeom.mjGEOM_CAPSULE,
            size=[radius, 0.0, 0.0],
            fromto=[*start, *end],
            mass=0.0,
            group=UNDRAWN,
            **solid(kind),
        )
    for exclusion in list(scene.excludes):
        scene.delete(exclusion)  # these pairs are parent and child, or never tested


def _add_actuators(scene: mujoco.MjSpec) -> None:
    """Velocity servos; gravity is compensated, as the real arm's gears hold its weight."""
    for body in scene.bodies[1:]:
        body.gravcomp = 1.0
    for joint in scene.joints:
        joint.frictionloss = 0.0  # saves a constraint per joint; the servo damps too
        if joint.name.startswith("hand/"):
            joint.damping[:] = 0.05
            # Two fingers oppose the thumb; with the strength of one they would push it away.
            strength = 2.0 if joint.name == "hand/finger_1" else 1.0
            gain, speed, torque = 2.0 * strength, FINGER_SPEED, _FINGER_TORQUE * strength
        elif joint.name in _LARGE_JOINTS:
            gain, speed, torque = 500.0, LARGE_JOINT_SPEED, _LARGE_JOINT_TORQUE
        else:
            gain, speed, torque = 500.0, SMALL_JOINT_SPEED, _SMALL_JOINT_TORQUE
        motor = scene.add_actuator(
            name=joint.name,
            target=joint.name,
            trntype=mujoco.mjtTrn.mjTRN_JOINT,
            ctrllimited=True,
            ctrlrange=[-speed, speed],
            forcelimited=True,
            forcerange=[-torque, torque],
        )
        motor.set_to_velocity(kv=gain)


def _add_sensors(scene: mujoco.MjSpec) -> None:
    """Force and torque under the base and at the wrist, touch at each fingertip."""
    scene.body("arm/b_base").add_site(scene.default, name="arm/base", group=UNDRAWN)
    for site in ("arm/base", "arm/wristsite"):
        for kind in (mujoco.mjtSensor.mjSENS_FORCE, mujoco.mjtSensor.mjSENS_TORQUE):
            scene.add_sensor(type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=site)
    for finger in range(1, FINGERS + 1):
        name = f"hand/fingertip_{finger}"
        scene.body(f"hand/b_finger_tip_{finger}").add_site(
            scene.default,
            name=name,
            type=mujoco.mjtGeom.mjGEOM_BOX,
            pos=[0.028, -0.004, 0.0],
            size=[0.020, 0.014, 0.014],
            group=UNDRAWN,
        )
        scene.add_sensor(
            type=mujoco.mjtSensor.mjSENS_TOUCH, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=name
        )
