# SPDX-License-Identifier: Apache-2.0
"""What the policy sees: the robot's own senses, and where the objects are from its hand."""

import torch
from torch import Tensor

from pureward.envs.sim.engine import State
from pureward.envs.tasks.jaco.layout import (
    ARM,
    BASE_FORCE,
    FINGERTIPS,
    GRIP_SITE,
    HAND,
    HAND_BODY,
    OBJECT_BODIES,
    PINCH_SITE,
    WRIST_FORCE,
)
from pureward.envs.tasks.jaco.objects import OBJECTS

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

# Contacts come and go within a step of 10 ms, so forces have spikes. Beyond these (newtons and
# newton metres) they are squashed, which keeps a blow from hiding what a touch looks like.
_LOUD = 50.0
# Metres. A block pressed between fingers may be shot out of the tray and fly for seconds.
_OUT_OF_REACH = 2.0


def observe(state: State) -> Tensor:
    """All of `OBSERVED` side by side, (worlds, 75)."""
    forces = _LOUD * torch.tanh(state.sensordata / _LOUD)
    own = [
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
    return torch.cat([*own, _poses_from_hand(state)], dim=1)


def _poses_from_hand(state: State) -> Tensor:
    """Each object's position and orientation in the hand's frame, from the pinch site."""
    objects = slice(OBJECT_BODIES[0], OBJECT_BODIES[-1] + 1)
    to_hand = state.xmat[:, HAND_BODY].transpose(1, 2)[:, None]
    away = state.xpos[:, objects] - state.site_xpos[:, PINCH_SITE, None]
    position = (to_hand @ away[..., None]).clamp(-_OUT_OF_REACH, _OUT_OF_REACH)
    orientation = to_hand @ state.xmat[:, objects, :, :2]
    return torch.cat([position, orientation], dim=-1).transpose(2, 3).flatten(1)
