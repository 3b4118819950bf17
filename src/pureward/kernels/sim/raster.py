# SPDX-License-Identifier: Apache-2.0
"""A batch renderer for small images: one image per thread block, its depth buffer on the chip.

`raster.cpp` draws what MuJoCo Warp's ray caster draws, in one kernel. It finds primitives by
intersecting the rays of the pixels that they may cover, and meshes by testing the pixels around
each triangle. docs/concepts/rendering.md explains it.
"""

from functools import cache
from pathlib import Path

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp
from torch import Tensor

from pureward.kernels.sim.raster_scene import read_scene, rectangle

_THREADS = 256  # of a block, that is of an image


@wp.struct
class _Tables:
    """What all worlds share; `raster_scene.Scene` describes the tables."""

    cameras: wp.array[int]
    rectangles: wp.array[float]
    kinds: wp.array[int]
    looks: wp.array[float]
    owners: wp.array[int]
    planes: wp.array[float]
    corners: wp.array[float]
    normals: wp.array[float]
    lights: wp.array[float]
    light_ids: wp.array[int]
    ambient: wp.array[float]
    texels: wp.array[int]


class Rasterizer:
    """Draws all worlds of a model from some of its cameras, on the current Warp device."""

    def __init__(self, model: mujoco.MjModel, cameras: list[int], size: int):
        scene = read_scene(model, size)
        self._kernel = _kernel(f"constexpr int THREADS = {_THREADS};\n{scene.constants}")
        self._cameras = len(cameras)
        # One thread of the CPU draws a whole image.
        self._threads = _THREADS if wp.get_device().is_cuda else 1
        triangles = scene.triangles
        tables = {
            "cameras": np.array(cameras),
            "rectangles": np.stack([rectangle(model, camera, size) for camera in cameras]),
            "kinds": scene.kinds,
            "looks": scene.looks,
            # One row per number: neighbouring threads read neighbouring triangles.
            "owners": triangles.owners,
            "planes": triangles.planes.T,
            "corners": triangles.corners.reshape(-1, 9).T,
            "normals": triangles.normals.reshape(-1, 9).T,
            "lights": scene.lights,
            "light_ids": scene.light_ids,
            "ambient": scene.ambient,
            "texels": scene.texels,
        }
        self._tables = _Tables()
        for name, table in tables.items():
            dtype = float if table.dtype.kind == "f" else int
            setattr(self._tables, name, wp.array(table.ravel(), dtype=dtype))
        wp.synchronize_device()  # other streams draw

    def draw(self, data: mjw.Data, frames: Tensor) -> None:
        """Draw the worlds of `data` into frames (worlds, 3·cameras, size, size), uint8."""
        poses = [data.geom_xpos, data.geom_xmat, data.cam_xpos, data.cam_xmat]
        wp.launch(
            self._kernel,
            dim=data.nworld * self._cameras * self._threads,
            inputs=[self._tables, *poses, data.light_xpos, data.light_xdir],
            outputs=[wp.from_torch(frames.view(-1))],
            block_dim=_THREADS,
        )


@cache
def _kernel(constants: str) -> wp.Kernel:
    source = Path(__file__).with_name("raster.cpp").read_text()

    @wp.func_native(constants + source)
    def draw_image(
        index: int,
        tables: _Tables,  # pyright: ignore[reportGeneralTypeIssues]
        geom_xpos: wp.array2d[wp.vec3],
        geom_xmat: wp.array2d[wp.mat33],
        cam_xpos: wp.array2d[wp.vec3],
        cam_xmat: wp.array2d[wp.mat33],
        light_xpos: wp.array2d[wp.vec3],
        light_xdir: wp.array2d[wp.vec3],
        frames: wp.array[wp.uint8],
    ): ...

    @wp.kernel(
        module="unique",
        enable_backward=False,
        grid_stride=False,
        module_options={"fast_math": True},
    )
    def rasterize(
        tables: _Tables,  # pyright: ignore[reportGeneralTypeIssues]
        geom_xpos: wp.array2d[wp.vec3],
        geom_xmat: wp.array2d[wp.mat33],
        cam_xpos: wp.array2d[wp.vec3],
        cam_xmat: wp.array2d[wp.mat33],
        light_xpos: wp.array2d[wp.vec3],
        light_xdir: wp.array2d[wp.vec3],
        frames: wp.array[wp.uint8],
    ):
        draw_image(
            wp.tid(),
            tables,
            geom_xpos,
            geom_xmat,
            cam_xpos,
            cam_xmat,
            light_xpos,
            light_xdir,
            frames,
        )

    return rasterize  # pyright: ignore[reportReturnType]
