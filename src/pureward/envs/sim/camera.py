# SPDX-License-Identifier: Apache-2.0
"""Batched cameras on CPU and CUDA, uint8 frames."""

from contextlib import suppress

import mujoco_warp as mjw
import torch
import warp as wp
from torch import Tensor

from pureward.envs.sim import Engine
from pureward.envs.sim.mujoco_cpu import CpuEngine
from pureward.envs.sim.mujoco_warp import WarpEngine
from pureward.envs.sim.ray_caster import RayCaster
from pureward.errors import InputError
from pureward.kernels.sim.meshes import CannotDrawError
from pureward.kernels.sim.raster import Rasterizer
from pureward.kernels.sim.warp_runtime import Captured, Workspace, quiet_start

# All that a renderer reads of a world.
_POSES = ("geom_xpos", "geom_xmat", "cam_xpos", "cam_xmat", "light_xpos", "light_xdir")


class Cameras:
    """Renders every world of an engine from the named cameras of its model.

    The rasterizer draws. The ray caster, which is slower, draws scenes that the rasterizer cannot,
    shadows, and the reference images of tests (`reference`).
    """

    def __init__(
        self,
        engine: Engine,
        names: tuple[str, ...],
        *,
        size: int = 64,
        shadows: bool = False,
        reference: bool = False,
    ):
        if not names:
            raise InputError(
                "frames need a camera, and the task names none; add some to its cameras"
            )
        known = [engine.model.camera(i).name for i in range(engine.model.ncam)]
        for name in names:
            if name not in known:
                raise InputError(f"unknown camera {name!r}; the model has {known}")
        quiet_start()
        self.frames = torch.zeros(
            engine.worlds, 3 * len(names), size, size, dtype=torch.uint8, device=engine.device
        )
        with wp.ScopedDevice(wp.device_from_torch(engine.device)):
            if isinstance(engine, WarpEngine):
                self._data = engine.warp_data
                self._copies: list[tuple[Tensor, Tensor]] = []
            else:
                self._data, self._copies = _mirror(engine)
            cameras = [known.index(name) for name in names]
            rasterizer = None
            if not (shadows or reference):
                with suppress(CannotDrawError):
                    rasterizer = Rasterizer(engine.model, cameras, size)
            self._renderer = rasterizer or RayCaster(
                engine, warp_model(engine), names, size=size, shadows=shadows
            )
        self.renderer = "ray caster" if rasterizer is None else "rasterizer"
        self._draw = Captured(engine.device, Workspace(engine.device))

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
            self._renderer.draw(self._data, self.frames)


def warp_model(engine: Engine) -> mjw.Model:
    """Return an engine's Warp model; for the C engine it is made."""
    return engine.warp_model if isinstance(engine, WarpEngine) else mjw.put_model(engine.model)


def _mirror(engine: CpuEngine) -> tuple[mjw.Data, list[tuple[Tensor, Tensor]]]:
    """Data of a Warp model, and (target, source) pairs that copy the C engine's poses to it."""
    data = mjw.make_data(engine.model, nworld=engine.worlds, nconmax=1, njmax=1)
    mirrors = {name: wp.to_torch(getattr(data, name)) for name in _POSES}
    copies = [(to, engine.field(name).view(to.shape)) for name, to in mirrors.items()]
    return data, copies
