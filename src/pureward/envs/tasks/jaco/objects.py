# SPDX-License-Identifier: Apache-2.0
"""The objects in the tray: coloured blocks and a cyan banana."""

import math
from itertools import pairwise

import mujoco
import numpy as np

from pureward.envs.tasks.jaco.contacts import OBJECT, UNDRAWN, VISUAL, solid

BLOCK = 0.05  # metres, the edge of a block
#: Edges in metres of the blocks that the task does not use, by the name of the variant.
DISTRACTORS = {"cube": (BLOCK, BLOCK, BLOCK), "cuboid": (0.04, 0.04, 0.08)}

BANANA_RADIUS = 0.017  # metres, at its thickest
_BANANA_BEND = 0.085  # metres, the radius of its arc
_BANANA_ANGLE = math.radians(48.0)  # from its middle to either end
_BANANA_PARTS = 3

_MASS = 0.1  # kilograms, of each object
# Metres that objects sink into the floor by their weight. They start there, so that the first
# step has the same contacts in single and in double precision.
_SINK_DEPTH = 4e-6

_COLOURS = {
    "red": (0.85, 0.1, 0.1, 1.0),
    "blue": (0.1, 0.2, 0.85, 1.0),
    "green": (0.1, 0.65, 0.15, 1.0),
    "banana": (0.0, 0.85, 0.9, 1.0),
}
OBJECTS = tuple(_COLOURS)

#: Metres: half the diagonal of a block, half the length of the banana. At the start of an episode
#: circles of these radii do not overlap.
OBJECT_RADII = {"red": 0.038, "blue": 0.038, "green": 0.038, "banana": 0.08}


def add_objects(scene: mujoco.MjSpec, own: tuple[str, ...], distractors: str) -> None:
    """Add every object as a free body on the floor, in the order of `OBJECTS`.

    Args:
        scene: the model to extend.
        own: names of the objects that the task uses; they keep their shape.
        distractors: the shape of the other blocks, a name in `DISTRACTORS`.
    """
    for name in OBJECTS:
        edges = DISTRACTORS["cube" if name in own else distractors]
        height = BANANA_RADIUS if name == "banana" else edges[2] / 2
        body = scene.worldbody.add_body(name=name, pos=[0.0, 0.0, height - _SINK_DEPTH])
        body.add_freejoint(name=name)
        if name == "banana":
            _add_banana(scene, body)
        else:
            body.add_geom(
                name=name,
                type=mujoco.mjtGeom.mjGEOM_BOX,
                size=[edge / 2 for edge in edges],
                mass=_MASS,
                rgba=_COLOURS[name],
                **solid(OBJECT),
            )


def _add_banana(scene: mujoco.MjSpec, body: mujoco.MjsBody) -> None:
    """Capsules along an arc, drawn as one tapered mesh; the origin is the middle of the arc."""
    knots = _arc(np.linspace(-1.0, 1.0, _BANANA_PARTS + 1) * 0.86)
    for part, (start, end) in enumerate(pairwise(knots)):
        body.add_geom(
            name=f"banana_{part}",
            type=mujoco.mjtGeom.mjGEOM_CAPSULE,
            size=[BANANA_RADIUS, 0.0, 0.0],
            fromto=[*start, *end],
            mass=_MASS / _BANANA_PARTS,
            group=UNDRAWN,
            **solid(OBJECT),
        )
    vertices, faces = _banana_mesh()
    scene.add_mesh(name="banana", uservert=vertices.ravel(), userface=faces.ravel())
    body.add_geom(
        name="banana",
        type=mujoco.mjtGeom.mjGEOM_MESH,
        meshname="banana",
        mass=0.0,
        rgba=_COLOURS["banana"],
        **VISUAL,
    )


def _arc(place: np.ndarray) -> np.ndarray:
    """Points (n, 3) of the banana's axis at positions in [−1, 1] along it."""
    angle = place * _BANANA_ANGLE
    zero = np.zeros_like(angle)
    return _BANANA_BEND * np.stack([np.sin(angle), 1.0 - np.cos(angle), zero], axis=-1)


def _banana_mesh(rings: int = 13, sides: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and triangles of a tube along the arc that tapers towards its ends."""
    place = np.sin(np.linspace(-0.5, 0.5, rings) * math.pi)  # rings are denser towards the ends
    angle = place * _BANANA_ANGLE
    radius = BANANA_RADIUS * np.sqrt(np.clip(1.0 - 0.94 * place**4, 0.0, 1.0))
    turn = np.arange(sides) * 2.0 * math.pi / sides
    outward = np.stack([-np.sin(angle), np.cos(angle), np.zeros(rings)], axis=-1)
    across = np.cos(turn)[None, :, None] * outward[:, None, :]
    up = np.sin(turn)[None, :, None] * np.array([0.0, 0.0, 1.0])
    tube = _arc(place)[:, None] + radius[:, None, None] * (across + up)
    vertices = np.concatenate([tube.reshape(-1, 3), _arc(np.array([-1.0, 1.0]))])
    faces = []
    for ring in range(rings - 1):
        for side in range(sides):
            here, there = ring * sides + side, ring * sides + (side + 1) % sides
            faces += [(here, here + sides, there), (there, here + sides, there + sides)]
    first, last = len(vertices) - 2, len(vertices) - 1
    for side in range(sides):
        following = (side + 1) % sides
        end = (rings - 1) * sides
        faces += [(first, side, following), (last, end + following, end + side)]
    return vertices, np.array(faces)
