# SPDX-License-Identifier: Apache-2.0
"""Where things are in the scene's tensors, and the quantities that rewards are made of."""

import torch
from torch import Tensor

from pureward.envs.sim.engine import State
from pureward.envs.tasks.jaco.arm import FINGERS, JOINTS

# The order in which the scene is put together; a test holds it against the model's own names.
HAND_BODY = 7
RED, BLUE, GREEN, BANANA = OBJECT_BODIES = (11, 12, 13, 14)
GRIP_SITE, PINCH_SITE = 2, 3

ARM = slice(0, JOINTS)
HAND = slice(JOINTS, JOINTS + FINGERS)
BASE_FORCE = slice(0, 6)
WRIST_FORCE = slice(6, 12)
FINGERTIPS = slice(12, 15)


def first_position(body: int) -> int:
    """Index in `qpos` of a free object's pose: three numbers of place, four of quaternion."""
    return JOINTS + FINGERS + 7 * OBJECT_BODIES.index(body)


def place(state: State, body: int) -> Tensor:
    """Position of a body (worlds, 3)."""
    return state.xpos[:, body]


def pinch(state: State) -> Tensor:
    """Position of the point between the fingertips (worlds, 3)."""
    return state.site_xpos[:, PINCH_SITE]


def from_pinch(state: State, body: int) -> Tensor:
    """Metres from the point between the fingertips to a body's centre (worlds,)."""
    return torch.linalg.vector_norm(place(state, body) - pinch(state), dim=1)


def fingers(state: State) -> Tensor:
    """Angles of the fingers (worlds, 3): 0.15 wide open, 1.35 closed."""
    return state.qpos[:, HAND]
