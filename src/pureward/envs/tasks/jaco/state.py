# SPDX-License-Identifier: Apache-2.0
"""The Jaco scene in tensors: indices, quantities of rewards, observations and first states."""

import math

import mujoco
import torch
from torch import Tensor

from pureward.envs.sim.engine import State
from pureward.envs.tasks.jaco.arm import FINGERS, HOME, JOINTS
from pureward.envs.tasks.jaco.objects import OBJECT_RADII, OBJECTS
from pureward.envs.tasks.jaco.scene import TRAY
from pureward.envs.tasks.task import Reset

# The order in which the scene is built; a test compares it with the model's names.
HAND_BODY = 7
RED, BLUE, GREEN, BANANA = OBJECT_BODIES = (11, 12, 13, 14)
GRIP_SITE, PINCH_SITE = 2, 3

ARM = slice(0, JOINTS)
HAND = slice(JOINTS, JOINTS + FINGERS)
BASE_FORCE = slice(0, 6)
WRIST_FORCE = slice(6, 12)
FINGERTIPS = slice(12, 15)

#: Names and sizes: first the paper's Table 1, in its order, then three numbers of position and
#: six of orientation (two columns of a rotation matrix) for each object.
OBSERVED = {
    "base force and torque sensors": 6,
    "arm joints position": 6,
    "arm joints velocity": 6,
    "wrist force and torque sensors": 6,
    "hand finger joints position": 3,
    "hand finger joints velocity": 3,
    "hand fingertip sensors": 3,
    "grip site position": 3,
    "pinch site position": 3,
} | {f"{name} pose from the pinch site": 9 for name in OBJECTS}

# Newtons and newton metres beyond which forces are squashed: contacts within a step of 10 ms cause
# spikes that would dominate the observation.
_FORCE_SCALE = 50.0
_MAX_DISTANCE = 2.0  # metres; a block squeezed out of the hand may fly for seconds

#: Radians by which each joint may differ from `HOME` at the start.
HOME_SPREAD = 0.1
# Layouts sampled for each world, of which the first without overlap is used. The last one is fixed
# and never overlaps.
_LAYOUTS = 48
_SPARE_LAYOUT = ((0.1, -0.13), (0.1, 0.13), (-0.1, 0.13), (-0.06, -0.07))


def from_pinch(state: State, body: int) -> Tensor:
    """Return the metres from the point between the fingertips to a body's centre (worlds,)."""
    return torch.linalg.vector_norm(state.xpos[:, body] - state.site_xpos[:, PINCH_SITE], dim=1)


def fingers(state: State) -> Tensor:
    """Return the angles of the fingers (worlds, 3): 0.15 wide open, 1.35 closed."""
    return state.qpos[:, HAND]


def observe(state: State) -> Tensor:
    """Return all of `OBSERVED` side by side, (worlds, 75)."""
    forces = _FORCE_SCALE * torch.tanh(state.sensordata / _FORCE_SCALE)
    robot = [
        forces[:, BASE_FORCE],
        state.qpos[:, ARM],
        state.qvel[:, ARM],
        forces[:, WRIST_FORCE],
        state.qpos[:, HAND],
        state.qvel[:, HAND],
        forces[:, FINGERTIPS],
        state.site_xpos[:, GRIP_SITE],
        state.site_xpos[:, PINCH_SITE],
    ]
    # Poses of the objects in the hand's frame, relative to the pinch site.
    objects = slice(OBJECT_BODIES[0], OBJECT_BODIES[-1] + 1)
    to_hand = state.xmat[:, HAND_BODY].transpose(1, 2)[:, None]
    away = state.xpos[:, objects] - state.site_xpos[:, PINCH_SITE, None]
    position = (to_hand @ away[..., None]).clamp(-_MAX_DISTANCE, _MAX_DISTANCE)
    orientation = to_hand @ state.xmat[:, objects, :, :2]
    poses = torch.cat([position, orientation], dim=-1).transpose(2, 3).flatten(1)
    return torch.cat([*robot, poses], dim=1)


def random_tray(model: mujoco.MjModel, device: torch.device) -> Reset:
    """Return a function that samples first states.

    The objects lie anywhere in the tray without overlap; the open hand is above them.
    """
    default = torch.from_numpy(model.qpos0).to(device, torch.float32)
    home = torch.tensor(HOME, device=device)
    radius = torch.tensor([OBJECT_RADII[name] for name in OBJECTS], device=device)
    room = torch.tensor(TRAY, device=device) - radius[:, None]
    spare = torch.tensor(_SPARE_LAYOUT, device=device)
    min_distance = radius[:, None] + radius[None, :]
    min_distance.fill_diagonal_(-1.0)
    height = torch.tensor([float(model.body(body).pos[2]) for body in OBJECT_BODIES], device=device)

    def sample_places(worlds: int, generator: torch.Generator) -> Tensor:
        shape = (worlds, _LAYOUTS, len(OBJECTS), 2)
        layouts = room * (2.0 * torch.rand(shape, generator=generator, device=device) - 1.0)
        layouts[:, -1] = spare
        between = torch.linalg.vector_norm(layouts[:, :, :, None] - layouts[:, :, None], dim=-1)
        fits = (between >= min_distance).all(dim=-1).all(dim=-1)
        first = fits.to(torch.uint8).argmax(dim=1)
        return layouts.gather(1, first[:, None, None, None].expand(-1, 1, *shape[2:]))[:, 0]

    def sample(worlds: int, generator: torch.Generator) -> dict[str, Tensor]:
        qpos = default.repeat(worlds, 1)
        spread = torch.rand(worlds, len(HOME), generator=generator, device=device)
        qpos[:, : len(HOME)] = home + HOME_SPREAD * (2.0 * spread - 1.0)
        poses = qpos[:, len(HOME) :].view(worlds, len(OBJECTS), 7)  # position (3), quaternion (4)
        poses[..., :2] = sample_places(worlds, generator)
        poses[..., 2] = height
        half_turn = math.pi * torch.rand(worlds, len(OBJECTS), generator=generator, device=device)
        poses[..., 3] = half_turn.cos()
        poses[..., 6] = half_turn.sin()
        return {"qpos": qpos}

    return sample
