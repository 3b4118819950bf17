# SPDX-License-Identifier: Apache-2.0
"""Which parts of the scene can touch which, and how contacts feel."""

from typing import Any

# Every part of the scene is of one kind, and each kind is a bit. Pairs that are not listed are
# never tested: the arm's own neighbours, what is out of reach, what stands still.
TABLE, WALL, OBJECT, HAND, LOWER_ARM, UPPER_ARM = (1 << bit for bit in range(6))

_TOUCHES = {
    OBJECT: TABLE | WALL | OBJECT | HAND | LOWER_ARM,
    HAND: TABLE | WALL | HAND | UPPER_ARM,
    LOWER_ARM: TABLE | WALL | UPPER_ARM,
}

# Contacts as hard as steps of 10 ms allow, and grippy where the hand is one side of them
# (MuJoCo takes the larger friction of the two).
_FRICTION = {OBJECT: 0.7, HAND: 1.5}
_SOFTNESS = {"solref": [0.02, 1.0], "solimp": [0.99, 0.999, 0.001, 0.5, 2.0]}


def solid(kind: int) -> dict[str, Any]:
    """Attributes of a geom of that kind which collides."""
    return _SOFTNESS | {
        "contype": kind,
        "conaffinity": _TOUCHES.get(kind, 0),
        "friction": [_FRICTION.get(kind, 0.5), 0.005, 0.0001],
        "condim": 3,
    }


def ghost() -> dict[str, Any]:
    """Attributes of a geom which is only drawn."""
    return {"contype": 0, "conaffinity": 0}


#: MuJoCo's group of geoms that collide and are not drawn; groups 0 to 2 are drawn.
UNDRAWN = 3
