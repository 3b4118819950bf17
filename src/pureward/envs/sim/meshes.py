# SPDX-License-Identifier: Apache-2.0
"""Triangles of a model's meshes for the rasterizer."""

from dataclasses import dataclass

import mujoco
import numpy as np

from pureward.errors import InputError

# MuJoCo's cosine beyond which a corner's own normal is not used.
_USABLE = 0.8


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


def face_normals(corners: np.ndarray) -> np.ndarray:
    """Return unit normals (n, 3) of triangles (n, 3, 3)."""
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-20)


def _read(model: mujoco.MjModel, mesh: int) -> tuple[np.ndarray, np.ndarray]:
    first, count = model.mesh_faceadr[mesh], model.mesh_facenum[mesh]
    if not count:
        raise InputError(
            f"a drawn mesh needs faces, and mesh {model.mesh(mesh).name!r} has none; give it faces "
            "or put its geom into group 3"
        )
    faces = model.mesh_face[first : first + count]
    corners = model.mesh_vert[model.mesh_vertadr[mesh] + faces]
    own = model.mesh_normal[model.mesh_normaladr[mesh] + model.mesh_facenormal[first : first + count]]
    flat = np.broadcast_to(face_normals(corners)[:, None], own.shape)
    usable = (own * flat).sum(-1, keepdims=True) >= _USABLE
    return corners, np.where(usable, own, flat)
