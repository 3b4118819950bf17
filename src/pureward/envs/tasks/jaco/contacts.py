# SPDX-License-Identifier: Apache-2.0
"""Which parts of the scene can collide, and the parameters of their contacts."""

from typing import Any

# Every geom is of one kind, and each kind is a bit. Pairs that are not listed are never tested:
# neighbours of the arm, geoms out of reach, fixed geoms.
TABLE, WALL, OBJECT, HAND, LOWER_ARM, UPPER_ARM = (1 << bit for bit in range(6))

_COLLIDES_WITH = {
    OBJECT: TABLE | WALL | OBJECT | HAND | LOWER_ARM,
    HAND: TABLE | WALL | HAND | UPPER_ARM,
    LOWER_ARM: TABLE | WALL | UPPER_ARM,
}

# Contacts are as stiff as steps of 10 ms allow. MuJoCo uses the larger friction of the two geoms,
# so the hand's applies to all that it holds.
_FRICTION = {OBJECT: 0.7, HAND: 1.5}
_SOFTNESS = {"solref": [0.02, 1.0], "solimp": [0.99, 0.999, 0.001, 0.5, 2.0]}

#: Attributes of a geom that is drawn and does not collide.
VISUAL = {"contype": 0, "conaffinity": 0}
#: MuJoCo's group of geoms that collide and are not drawn; groups 0 to 2 are drawn.
UNDRAWN = 3


def solid(kind: int) -> dict[str, Any]:
    """Return the attributes of a geom of that kind that collides."""
    return _SOFTNESS | {
        "contype": kind,
        "conaffinity": _COLLIDES_WITH.get(kind, 0),
        "friction": [_FRICTION.get(kind, 0.5), 0.005, 0.0001],
        "condim": 3,
    }
