# SPDX-License-Identifier: Apache-2.0
"""Batched cameras on CPU and CUDA, uint8 frames: MuJoCo Warp's ray caster or our rasterizer."""

import math

import mujoco_warp as mjw
import torch
import warp as wp
from torch import Tensor

from pureward.envs.sim import Engine
from pureward.envs.sim.mujoco_cpu import CpuEngine
from pureward.envs.sim.mujoco_warp import WarpEngine
from pureward.envs.sim.raster import Rasterizer
from pureward.envs.sim.warp_runtime import Captured, Workspace, quiet_start
from pureward.errors import InputError

# All that the renderer reads of a world.
_POSES = ("geom_xpos", "geom_xmat", "cam_xpos", "cam_xmat", "light_xpos", "light_xdir")

# Warp packs a pixel as 0xAARRGGBB; in memory (little-endian) that is B, G, R, A.
_RED_GREEN_BLUE = (2, 1, 0)

_TILE = (4, 8)  # rows and columns


class Cameras:
    """Renders every world of an engine from the named cameras of its model.

    The ray caster draws on both devices until the rasterizer has been measured on a GPU.
    """

    def __init__(
        self,
        engine: Engine,
        names: tuple[str, ...],
        *,
        size: int = 64,
        shadows: bool = False,
        _rasterize: bool = False,
    ):
        known = [engine.model.camera(i).name for i in range(engine.model.ncam)]
        for name in names:
            if name not in known:
                raise InputError(f"unknown camera {name!r}; the model has {known}")
        quiet_start()
        self.frames = torch.zeros(
            engine.worlds, 3 * len(names), size, size, dtype=torch.uint8, device=engine.device
        )
        if _rasterize and shadows:
            raise InputError(
                "the rasterizer draws no shadows; leave them out or use the ray caster"
            )
        with wp.ScopedDevice(wp.device_from_torch(engine.device)):
            if isinstance(engine, WarpEngine):
                self._model, self._data = engine.warp_model, engine.warp_data
                self._copies: list[tuple[Tensor, Tensor]] = []
            else:
                self._model, self._data, self._copies = _mirror(engine)
            if _rasterize:
                cameras = [known.index(name) for name in names]
                self._rasterizer = Rasterizer(engine.model, cameras, size)
                self._bytes = wp.from_torch(self.frames.view(-1))
            else:
                self._rasterizer = None
                self._prepare_rays(engine, names, size, shadows)
        self._draw = Captured(engine.device, Workspace(engine.device))

    def _prepare_rays(
        self, engine: Engine, names: tuple[str, ...], size: int, shadows: bool
    ) -> None:
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

    def render(self) -> Tensor:
        """Return frames of the current state: uint8 (worlds, 3·cameras, size, size).

        Each call overwrites the same buffer; clone what you keep.
        """
        for mirror, source in self._copies:
            mirror.copy_(source)
        self._draw(self._draw_all)
        return self.frames

    def _draw_all(self) -> None:
        with wp.ScopedDevice(self._data.qpos.device):
            if self._rasterizer is not None:
                self._rasterizer.draw(self._data, self._bytes)
                return
            mjw.refit_bvh(self._model, self._data, self._context)
            mjw.render(self._model, self._data, self._context)
        torch.index_select(self._cast, 2, self._ray_of_pixel, out=self._pixels)
        worlds, cameras, area = self._pixels.shape
        frames = self.frames.view(worlds, cameras, 3, area)
        colours = self._pixels.view(torch.uint8).view(worlds, cameras, area, 4)
        for to, at in enumerate(_RED_GREEN_BLUE):
            frames[:, :, to].copy_(colours[..., at])


def tile_order(size: int, device: torch.device) -> Tensor:
    """Return the pixels of a square image tile by tile, (size²,), each as row · size + column.

    A warp of threads casts 32 successive rays. It diverges less if they form a tile, because they
    then hit fewer objects than half a row does.
    """
    rows, columns = (math.gcd(size, side) for side in _TILE)
    raster = torch.arange(size * size, device=device)
    tiles = raster.view(size // rows, rows, size // columns, columns)
    return tiles.transpose(1, 2).reshape(-1)


def _mirror(engine: CpuEngine) -> tuple[mjw.Model, mjw.Data, list[tuple[Tensor, Tensor]]]:
    """A Warp model, its data, and (target, source) pairs that copy the C engine's poses to it."""
    data = mjw.make_data(engine.model, nworld=engine.worlds, nconmax=1, njmax=1)
    mirrors = {name: wp.to_torch(getattr(data, name)) for name in _POSES}
    copies = [(to, engine.field(name).view(to.shape)) for name, to in mirrors.items()]
    return mjw.put_model(engine.model), data, copies
