# SPDX-License-Identifier: Apache-2.0
"""First states: objects anywhere in the tray without overlap, the hand open above them."""

import math

import mujoco
import torch
from torch import Tensor

from pureward.envs.tasks.jaco.arm import HOME
from pureward.envs.tasks.jaco.layout import OBJECT_BODIES, first_position
from pureward.envs.tasks.jaco.objects import OBJECTS, REACH_OF
from pureward.envs.tasks.jaco.scene import TRAY
from pureward.envs.tasks.task import Reset

#: Radians by which each joint may differ from `HOME` at the start.
HOME_SPREAD = 0.1

# Layouts drawn for each world; the first without overlap is taken. Nearly every world finds one
# among so few, and whoever does not gets the layout at the end, which always fits.
_LAYOUTS = 48
_SPARE_LAYOUT = ((0.1, -0.13), (0.1, 0.13), (-0.1, 0.13), (-0.06, -0.07))


def random_tray(model: mujoco.MjModel, device: torch.device) -> Reset:
    """Makes the function that draws first states of the scene."""
    rest = torch.from_numpy(model.qpos0).to(device, torch.float32)
    home = torch.tensor(HOME, device=device)
    radius = torch.tensor([REACH_OF[name] for name in OBJECTS], device=device)
    room = torch.tensor(TRAY, device=device) - radius[:, None]
    spare = torch.tensor(_SPARE_LAYOUT, device=device)
    apart = radius[:, None] + radius[None, :]
    apart.fill_diagonal_(-1.0)
    height = torch.tensor([float(model.body(body).pos[2]) for body in OBJECT_BODIES], device=device)

    def draw_places(worlds: int, generator: torch.Generator) -> Tensor:
        shape = (worlds, _LAYOUTS, len(OBJECTS), 2)
        layouts = room * (2.0 * torch.rand(shape, generator=generator, device=device) - 1.0)
        layouts[:, -1] = spare
        between = torch.linalg.vector_norm(layouts[:, :, :, None] - layouts[:, :, None], dim=-1)
        fits = (between >= apart).all(dim=-1).all(dim=-1)
        first = fits.to(torch.uint8).argmax(dim=1)
        return layouts.gather(1, first[:, None, None, None].expand(-1, 1, *shape[2:]))[:, 0]

    def draw(worlds: int, generator: torch.Generator) -> dict[str, Tensor]:
        qpos = rest.repeat(worlds, 1)
        spread = torch.rand(worlds, len(HOME), generator=generator, device=device)
        qpos[:, : len(HOME)] = home + HOME_SPREAD * (2.0 * spread - 1.0)
        places = draw_places(worlds, generator)
        half_turn = math.pi * torch.rand(worlds, len(OBJECTS), generator=generator, device=device)
        for index, body in enumerate(OBJECT_BODIES):
            at = first_position(body)
            qpos[:, at : at + 2] = places[:, index]
            qpos[:, at + 2] = height[index]
            qpos[:, at + 3] = half_turn[:, index].cos()
            qpos[:, at + 6] = half_turn[:, index].sin()
        return {"qpos": qpos}

    return draw
