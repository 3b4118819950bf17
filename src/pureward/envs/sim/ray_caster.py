# SPDX-License-Identifier: Apache-2.0
"""MuJoCo Warp's ray caster: the reference, and the renderer of what the rasterizer cannot draw."""

import math

import mujoco_warp as mjw
import torch
import warp as wp
from torch import Tensor

from pureward.envs.sim import Engine

# Warp packs a pixel as 0xAARRGGBB; in memory (little-endian) that is B, G, R, A.
_RED_GREEN_BLUE = (2, 1, 0)

_TILE = (4, 8)  # rows and columns


class RayCaster:
    """Draws all worlds of an engine from some of its cameras, on the current Warp device."""

    def __init__(
        self,
        engine: Engine,
        model: mjw.Model,
        names: tuple[str, ...],
        *,
        size: int,
        shadows: bool,
    ) -> None:
        self._model = model
        self._context = mjw.create_render_context(
            engine.model,
            nworld=engine.worlds,
            cam_active=list(names),
            cam_res=(size, size),
            render_rgb=True,
            render_depth=False,
            render_seg=False,
            use_shadows=shadows,
            render_skybox=True,
        )
        order = tile_order(size, engine.device)
        for rays in (self._context.ray, self._context.ray_offset):
            cast = wp.to_torch(rays).view(len(names), size * size, 3)
            cast.copy_(cast[:, order])
        self._ray_of_pixel = order.argsort()
        packed = wp.to_torch(self._context.rgb_data).view(torch.int32)
        self._cast = packed.view(engine.worlds, len(names), size * size)
        self._pixels = torch.empty_like(self._cast)

    def draw(self, data: mjw.Data, frames: Tensor) -> None:
        """Draw the worlds of `data` into frames (worlds, 3·cameras, size, size), uint8."""
        mjw.refit_bvh(self._model, data, self._context)
        mjw.render(self._model, data, self._context)
        torch.index_select(self._cast, 2, self._ray_of_pixel, out=self._pixels)
        worlds, cameras, area = self._pixels.shape
        planes = frames.view(worlds, cameras, 3, area)
        colours = self._pixels.view(torch.uint8).view(worlds, cameras, area, 4)
        for to, at in enumerate(_RED_GREEN_BLUE):
            planes[:, :, to].copy_(colours[..., at])


def tile_order(size: int, device: torch.device) -> Tensor:
    """Return the pixels of a square image tile by tile, (size²,), each as row · size + column.

    A warp of threads casts 32 successive rays. It diverges less if they form a tile, because they
    then hit fewer objects than half a row does.
    """
    rows, columns = (math.gcd(size, side) for side in _TILE)
    raster = torch.arange(size * size, device=device)
    tiles = raster.view(size // rows, rows, size // columns, columns)
    return tiles.transpose(1, 2).reshape(-1)
