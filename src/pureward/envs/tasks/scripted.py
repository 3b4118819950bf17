# SPDX-License-Identifier: Apache-2.0
"""A hand-written policy for `lift` and `stack` that reads the full simulator state."""

import math
from dataclasses import dataclass, fields
from itertools import pairwise

import torch
from torch import Tensor

from pureward.envs.sim.engine import State
from pureward.envs.tasks.jaco.arm import FINGER_SPEED, JOINTS, LARGE_JOINT_SPEED, SMALL_JOINT_SPEED
from pureward.envs.tasks.jaco.objects import BLOCK
from pureward.envs.tasks.jaco.scene import TRAY
from pureward.envs.tasks.jaco.state import BANANA, HAND_BODY, OBJECT_BODIES, fingers

# Finger angles in radians: tips 8.5 cm apart, and closed.
WIDE, SHUT = 0.75, 1.4
_TOOL = (0.004, 0.002, -0.188)  # the point between the closing fingertips, in the hand's frame
_FINGERTIP = 0.055  # metres from it to an open fingertip, along the closing direction
_MAX_SPEEDS = (LARGE_JOINT_SPEED,) * 3 + (SMALL_JOINT_SPEED,) * 3
_ARM_BODIES = slice(2, 2 + JOINTS)  # each turns about its own z axis
_NO_BODY = -1


@dataclass(frozen=True, kw_only=True)
class Move:
    """One move of a script: bring a body above another, with the fingers open or closed."""

    steer: int = _NO_BODY
    """The body to move; by default the point between the fingertips."""
    over: int = _NO_BODY
    """The body to go to; by default the horizontal position is kept."""
    above: float = math.nan
    """Metres above that body's centre, or above the table; NaN keeps the height."""
    grip: float = WIDE
    """Target angle of the fingers."""
    near: float = 0.01
    """Metres from the goal at which the next move begins."""
    steps: int = 0
    """Minimum control steps of this move."""
    patience: int = 100
    """Maximum control steps; then the next move begins, or the first one if a body is steered."""


def pick(body: int) -> tuple[Move, ...]:
    """Return the moves that pick up a body."""
    return (
        Move(over=body, above=0.11, near=0.015),
        Move(over=body, above=-0.003, near=0.004, patience=60),
        Move(grip=SHUT, steps=22, patience=22),
    )


class Scripted:
    """A policy for all worlds of a live state; call it once before each step."""

    def __init__(self, target: int, moves: tuple[Move, ...], state: State):
        """Begin with the first move.

        Args:
            target: the body to pick up.
            moves: the script.
            state: live state of the worlds, read at every call.
        """
        self._state = state
        self._target = target
        self.last_move = len(moves) - 1
        self._columns = {
            field.name: _column([getattr(move, field.name) for move in moves], state.qpos)
            for field in fields(Move)
        }
        # A body is carried from the move after the grip closes until the fingers open.
        shut = [move.grip == SHUT for move in moves]
        self._carries = _column([False, *(a and b for a, b in pairwise(shut))], state.qpos)
        # Constants are copied to the device here, because copying waits for the device.
        self._tool_offset, self._max_speeds, self._tray, self._up = (
            _column(values, state.qpos) for values in (_TOOL, _MAX_SPEEDS, TRAY, (0.0, 0.0, 1.0))
        )
        self.move = torch.zeros(len(state.qpos), dtype=torch.int64, device=state.qpos.device)
        self._since = torch.zeros_like(self.move)
        self._along = state.qpos.new_zeros(len(state.qpos), 2)

    def __call__(self, _: Tensor | None = None) -> Tensor:
        """Return actions (worlds, 9) in [−1, 1]; observations are not used."""
        self._restart()
        near = torch.linalg.vector_norm(self._error(), dim=1) <= self._now("near")
        patient = self._since < self._now("patience")
        busy = self._since < self._now("steps")
        onward = ((near & ~busy) | ~patient) & (self.move < self.last_move)
        # A carried body that does not arrive is badly grasped: start again.
        failed = ~patient & ~near & (self._now("steer") != _NO_BODY)
        self.move.add_(onward).masked_fill_(failed, 0)
        self._since.add_(1).masked_fill_(onward, 0)
        error = 3.0 * self._error()
        length = torch.linalg.vector_norm(error, dim=1, keepdim=True)
        velocity = error * (0.30 / length.clamp(min=0.30))
        arm = self._joint_speeds(torch.cat([velocity, self._turn()], dim=1)) / self._max_speeds
        arm = arm / arm.abs().amax(dim=1, keepdim=True).clamp(min=1.0)
        hand = 4.0 * (self._now("grip")[:, None] - fingers(self._state)) / FINGER_SPEED
        return torch.cat([arm, hand.clamp(-1.0, 1.0)], dim=1).float()

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors that it keeps between steps, by name."""
        return {"move": self.move, "since": self._since, "along": self._along}

    def _now(self, name: str) -> Tensor:
        """A field of each world's current move (worlds,)."""
        return self._columns[name][self.move]

    def _tool(self) -> Tensor:
        """The point between the fingertips (worlds, 3)."""
        return self._state.xpos[:, HAND_BODY] + self._state.xmat[:, HAND_BODY] @ self._tool_offset

    def _restart(self) -> None:
        """Go back to the first move where an episode begins or the object was dropped."""
        apart = self._state.xpos[:, self._target] - self._tool()
        away = torch.linalg.vector_norm(apart, dim=1)
        dropped = (away > 0.07) & self._carries[self.move]
        begins = (self._state.time.flatten() == 0.0) | dropped
        self.move.masked_fill_(begins, 0)
        self._since.masked_fill_(begins, 0)
        fresh = (self.move == 0) & (self._since == 0)
        self._along.copy_(torch.where(fresh[:, None], self._closing_direction(), self._along))

    def _error(self) -> Tensor:
        """Vector from the steered body to its goal (worlds, 3)."""
        steer, over, above = self._now("steer"), self._now("over"), self._now("above")[:, None]
        worlds, positions = torch.arange(len(steer), device=steer.device), self._state.xpos
        body = positions[worlds, steer.clamp(min=0)]
        at = torch.where((steer == _NO_BODY)[:, None], self._tool(), body)
        below = at * (1.0 - self._up)
        base = torch.where((over == _NO_BODY)[:, None], below, positions[worlds, over.clamp(min=0)])
        goal = base + above.nan_to_num() * self._up
        return torch.where(above.isnan(), at, goal) - at

    def _turn(self) -> Tensor:
        """Angular velocity that turns the hand down and to the closing direction (worlds, 3)."""
        frame = self._state.xmat[:, HAND_BODY]
        turn = 3.0 * torch.linalg.cross(frame[:, :, 2], self._up.expand(len(frame), 3))
        sideways = frame[:, :2, 1]
        sine = sideways[:, 0] * self._along[:, 1] - sideways[:, 1] * self._along[:, 0]
        yaw = torch.atan2(sine, (sideways * self._along).sum(dim=1))
        # Half a turn gives the same grasp, so take the shorter rotation.
        turn[:, 2] = 2.0 * (torch.remainder(yaw + math.pi / 2, math.pi) - math.pi / 2)
        return turn

    def _joint_speeds(self, twist: Tensor) -> Tensor:
        """Arm joint velocities for a linear and angular tool velocity: damped least squares."""
        axes = self._state.xmat[:, _ARM_BODIES, :, 2]
        arms = self._tool()[:, None] - self._state.xpos[:, _ARM_BODIES]
        jacobian = torch.cat([torch.linalg.cross(axes, arms), axes], dim=2).transpose(1, 2)
        square = jacobian @ jacobian.transpose(1, 2)
        square = square + 1e-3 * torch.eye(6, dtype=square.dtype, device=square.device)
        # Never singular; checking would wait for the device.
        solved = torch.linalg.solve_ex(square, twist[..., None])[0]
        return (jacobian.transpose(1, 2) @ solved)[..., 0]

    def _closing_direction(self) -> Tensor:
        """Horizontal unit vector along which the fingers close on the target (worlds, 2).

        A banana is grasped across its middle, a block by the pair of faces with more free space.
        """
        body, positions = self._target, self._state.xpos
        flat = self._state.xmat[:, body, :2, :2].transpose(1, 2)
        flat = flat / torch.linalg.vector_norm(flat, dim=2, keepdim=True).clamp(min=1e-6)
        if body == BANANA:
            return flat[:, 1]
        others = [positions[:, other, :2] for other in OBJECT_BODIES if other != body]
        sides = torch.stack([flat, -flat], dim=1) * _FINGERTIP  # (worlds, ±, direction, 2)
        tips = positions[:, None, None, body, :2] + sides
        gaps = tips[..., None, :] - torch.stack(others, dim=1)[:, None, None]
        from_objects = torch.linalg.vector_norm(gaps, dim=-1).amin(dim=-1) - 0.7 * BLOCK
        from_walls = (self._tray - tips.abs()).amin(dim=-1)
        best = torch.minimum(from_objects, from_walls).amin(dim=1).argmax(dim=1)
        return flat[torch.arange(len(best), device=best.device), best]


def _column(values: list | tuple, like: Tensor) -> Tensor:
    dtype = like.dtype if isinstance(values[0], float) else None
    return torch.tensor(values, dtype=dtype, device=like.device)
