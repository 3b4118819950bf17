# SPDX-License-Identifier: Apache-2.0
"""Writes coarse copies of the tasks' meshes, which the rasterizer draws in their place.

    pip install meshoptimizer==0.2.30a0
    python tools/simplify_meshes.py

A copy uses vertices of the original, so the file (src/pureward/kernels/sim/meshes.npz) holds faces
alone: three indices of vertices each, one array per mesh, by `meshes.mesh_key`.
"""

from pathlib import Path

import meshoptimizer  # pyright: ignore[reportMissingImports]
import mujoco
import numpy as np

import pureward
from pureward.kernels.sim import meshes

TOLERANCE = 0.001  # metres by which a copy's surface may deviate; a pixel spans 5 to 10 mm


def simplify(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Return the faces (n, 3) of the coarsest copy within the tolerance."""
    copy = np.zeros(faces.size, dtype=np.uint32)
    count = meshoptimizer.simplify(
        copy,
        np.ascontiguousarray(faces, dtype=np.uint32).ravel(),
        np.ascontiguousarray(vertices, dtype=np.float32),
        target_index_count=3,
        target_error=TOLERANCE,
        options=meshoptimizer.simplifier.SIMPLIFY_ERROR_ABSOLUTE,
    )
    return copy[:count].reshape(-1, 3).astype(np.uint16)


def originals() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return vertices and faces of every mesh that a task draws, by key."""
    found = {}
    for task in pureward.TASKS.values():
        model = task.build()
        drawn = (model.geom_type == mujoco.mjtGeom.mjGEOM_MESH.value) & (model.geom_group < 3)
        for mesh in sorted(set(model.geom_dataid[drawn].tolist())):
            vertices, faces = meshes.mesh_arrays(model, mesh)
            found[meshes.mesh_key(faces)] = vertices, faces
    return found


def main() -> None:
    """Write the file, and print how many faces are left."""
    full = originals()
    copies = {key: simplify(*mesh) for key, mesh in full.items()}
    for key, copy in copies.items():
        print(f"{key}: {len(full[key][1])} faces become {len(copy)}")
    np.savez_compressed(Path(meshes.__file__).with_name("meshes.npz"), **copies)  # pyright: ignore


if __name__ == "__main__":
    main()
