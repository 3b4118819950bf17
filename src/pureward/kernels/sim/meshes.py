# SPDX-License-Identifier: Apache-2.0
"""Triangles of a model's meshes for the rasterizer, coarse copies where there are any.

The arm's meshes have a thousand faces each, and most are far smaller than a pixel of a 64×64 image.
meshes.npz holds faces of coarse copies for the meshes of our tasks; tools/simplify_meshes.py
wrote it. Other meshes are drawn in full.
"""

import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import mujoco
import numpy as np

# MuJoCo uses a corner's own normal if its cosine with the face's normal is at least this. Faces of
# a coarse copy deviate more from the surface that they stand for.
_USABLE, _USABLE_IN_COPY = 0.8, 0.5


class CannotDrawError(Exception):
    """The rasterizer cannot draw something in a scene; the message names it."""


@dataclass(frozen=True, kw_only=True)
class Triangles:
    """Triangles of several geoms, each in its geom's frame."""

    owners: np.ndarray
    """(n,), the geom as a position in the list of geoms."""
    corners: np.ndarray
    """(n, 3, 3), counterclockwise seen from outside."""
    normals: np.ndarray
    """(n, 3, 3), unit normals at the corners."""

    @property
    def planes(self) -> np.ndarray:
        """Outward normal and its product with a corner, (n, 4)."""
        outward = face_normals(self.corners)
        return np.concatenate([outward, (outward * self.corners[:, 0]).sum(1, keepdims=True)], 1)


def drawn_triangles(model: mujoco.MjModel, geoms: list[int]) -> Triangles:
    """Return the triangles of mesh geoms."""
    parts = [_read(model, int(model.geom_dataid[geom])) for geom in geoms]
    # Without meshes one triangle that is never seen: tables cannot be empty.
    parts = parts or [(np.zeros((1, 3, 3)), np.zeros((1, 3, 3)))]
    counts = [len(corners) for corners, _ in parts]
    return Triangles(
        owners=np.repeat(np.arange(len(parts)), counts).astype(np.int32),
        corners=np.concatenate([corners for corners, _ in parts]).astype(np.float32),
        normals=np.concatenate([normals for _, normals in parts]).astype(np.float32),
    )


def mesh_arrays(model: mujoco.MjModel, mesh: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a mesh's vertices (v, 3) and faces (f, 3)."""
    vertex, face = model.mesh_vertadr[mesh], model.mesh_faceadr[mesh]
    vertices = model.mesh_vert[vertex : vertex + model.mesh_vertnum[mesh]]
    return vertices, model.mesh_face[face : face + model.mesh_facenum[mesh]]


def mesh_key(faces: np.ndarray) -> str:
    """Return the name of a mesh's coarse copy.

    Faces are whole numbers, the same on every machine; vertices depend on its rounding.
    """
    return f"{len(faces)}_{zlib.crc32(faces.astype('<i4').tobytes()):08x}"


def face_normals(corners: np.ndarray) -> np.ndarray:
    """Return unit normals (n, 3) of triangles (n, 3, 3)."""
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-20)


def _read(model: mujoco.MjModel, mesh: int) -> tuple[np.ndarray, np.ndarray]:
    """Corners and normals of a mesh's triangles, each (n, 3, 3)."""
    vertices, faces = mesh_arrays(model, mesh)
    if not len(faces):
        raise CannotDrawError(f"mesh {model.mesh(mesh).name!r} without faces")
    first = model.mesh_faceadr[mesh]
    indices = model.mesh_facenormal[first : first + len(faces)]
    own = model.mesh_normal[model.mesh_normaladr[mesh] + indices]
    normals = _usable(own, face_normals(vertices[faces]), _USABLE)
    copy = _copies().get(mesh_key(faces))
    if copy is None or copy.max() >= len(vertices):
        return vertices[faces], normals
    return vertices[copy], _copied_normals(faces, normals, copy, face_normals(vertices[copy]))


def _usable(corner: np.ndarray, face: np.ndarray, cosine: float) -> np.ndarray:
    face = np.broadcast_to(face[:, None], corner.shape)
    return np.where((corner * face).sum(-1, keepdims=True) >= cosine, corner, face)


def _copied_normals(
    faces: np.ndarray, normals: np.ndarray, copy: np.ndarray, outward: np.ndarray
) -> np.ndarray:
    """At each corner of the copy, the original's normal there that is nearest to the face's."""
    chosen = np.empty((len(copy), 3, 3), dtype=normals.dtype)
    for row, (face, toward) in enumerate(zip(copy, outward, strict=True)):
        for corner, vertex in enumerate(face):
            found = normals[faces == vertex]
            chosen[row, corner] = found[(found @ toward).argmax()]
    return _usable(chosen, outward, _USABLE_IN_COPY)


@cache
def _copies() -> dict[str, np.ndarray]:
    file = Path(__file__).with_name("meshes.npz")
    with np.load(file, allow_pickle=False) as data:
        return {key: data[key].astype(np.int64) for key in data.files}
