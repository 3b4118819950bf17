# SPDX-License-Identifier: Apache-2.0
"""A hand-written policy for `lift` and `stack` that reads the full simulator state."""

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from pureward.envs.sim.engine import State
from pureward.envs.tasks.jaco.arm import FINGER_SPEED, JOINTS, LARGE_JOINT_SPEED, SMALL_JOINT_SPEED
from pureward.envs.tasks.jaco.objects import BLOCK
from pureward.envs.tasks.jaco.scene import TRAY
from pureward.envs.tasks.jaco.state import BANANA, HAND_BODY, OBJECT_BODIES, fingers, place

# Finger angles in radians: tips 8.5 cm apart, and closed.
WIDE, SHUT = 0.75, 1.4
_TOOL = (0.004, 0.002, -0.188)  # the point between the closing fingertips, in the hand's frame
_FINGERTIP = 0.055  # metres from it to an open fingertip, along the closing direction
_FLAT, _UP = (1.0, 1.0, 0.0), (0.0, 0.0, 1.0)
_MAX_SPEEDS = (LARGE_JOINT_SPEED,) * 3 + (SMALL_JOINT_SPEED,) * 3
_ARM_BODIES = slice(2, 2 + JOINTS)  # each turns about its own z axis
_TOOL_IS_STEERED = -1


@dataclass(frozen=True, kw_only=True)
class Move:
    """One move of a script: bring a body above another, with the fingers open or closed."""

    steer: int = _TOOL_IS_STEERED
    """The body to move; by default the point between the fingertips."""
    over: int | None = None
    """The body to go to; None keeps the horizontal position."""
    above: float | None = None
    """Metres above that body's centre, or above the table; None keeps the height."""
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
        self._moves = _Table(moves, state.qpos)
        self.last_move = self._moves.last
        worlds, device = len(state.qpos), state.qpos.device
        self.move = torch.zeros(worlds, dtype=torch.int64, device=device)
        self._since = torch.zeros_like(self.move)
        self._along = state.qpos.new_zeros(worlds, 2)

    def __call__(self, _: Tensor | None = None) -> Tensor:
        """Return actions (worlds, 9) in [−1, 1]; observations are not used."""
        state = self._state
        self._restart()
        goal = self._error()
        near = torch.linalg.vector_norm(goal, dim=1) <= self._moves.near[self.move]
        patient = self._since < self._moves.patience[self.move]
        busy = self._since < self._moves.steps[self.move]
        onward = ((near & ~busy) | ~patient) & (self.move < self._moves.last)
        # A carried body that does not arrive is badly grasped: start again.
        failed = ~patient & ~near & (self._moves.steer[self.move] != _TOOL_IS_STEERED)
        self.move.add_(onward).masked_fill_(failed, 0)
        self._since.add_(1).masked_fill_(onward, 0)
        twist = torch.cat([_clip_length(3.0 * self._error(), 0.30), self._turn()], dim=1)
        arm = _joint_speeds(state, twist)
        arm = arm / _constant(_MAX_SPEEDS, arm)
        arm = arm / arm.abs().amax(dim=1, keepdim=True).clamp(min=1.0)
        hand = 4.0 * (self._moves.grip[self.move][:, None] - fingers(state)) / FINGER_SPEED
        return torch.cat([arm, hand.clamp(-1.0, 1.0)], dim=1).float()

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors that it keeps between steps, by name."""
        return {"move": self.move, "since": self._since, "along": self._along}

    def _restart(self) -> None:
        """Go back to the first move where an episode begins or the object was dropped."""
        away = place(self._state, self._target) - _tool(self._state)
        dropped = (torch.linalg.vector_norm(away, dim=1) > 0.07) & self._moves.carries[self.move]
        begins = (self._state.time.flatten() == 0.0) | dropped
        self.move.masked_fill_(begins, 0)
        self._since.masked_fill_(begins, 0)
        choice = _closing_direction(self._state, self._target)
        fresh = (self.move == 0) & (self._since == 0)
        self._along.copy_(torch.where(fresh[:, None], choice, self._along))

    def _error(self) -> Tensor:
        """Vector from the steered body to its goal (worlds, 3)."""
        bodies = self._moves.steer[self.move]
        tool = _tool(self._state)
        at = torch.where(
            (bodies == _TOOL_IS_STEERED)[:, None], tool, _place_of(self._state, bodies)
        )
        over = self._moves.over[self.move]
        stays = (over == _TOOL_IS_STEERED)[:, None]
        base = torch.where(stays, at * _constant(_FLAT, at), _place_of(self._state, over))
        above = self._moves.above[self.move]
        goal = base + above.nan_to_num()[:, None] * _constant(_UP, at)
        goal = torch.where((above.isnan())[:, None], at, goal)
        return goal - at

    def _turn(self) -> Tensor:
        """Angular velocity that turns the hand down and to the closing direction (worlds, 3)."""
        frame = self._state.xmat[:, HAND_BODY]
        up = torch.zeros_like(frame[:, :, 2])
        up[:, 2] = 1.0
        tilt = torch.linalg.cross(frame[:, :, 2], up)
        sideways = frame[:, :2, 1]
        sine = sideways[:, 0] * self._along[:, 1] - sideways[:, 1] * self._along[:, 0]
        cosine = (sideways * self._along).sum(dim=1)
        yaw = torch.atan2(sine, cosine)
        # Half a turn gives the same grasp, so take the shorter rotation.
        yaw = torch.remainder(yaw + math.pi / 2, math.pi) - math.pi / 2
        turn = 3.0 * tilt
        turn[:, 2] = 2.0 * yaw
        return turn


class _Table:
    """The moves of a script as tensors, indexed by each world's current move."""

    def __init__(self, script: tuple[Move, ...], like: Tensor):
        def column(values: list[float]) -> Tensor:
            return torch.tensor(values, device=like.device, dtype=like.dtype)

        def whole(values: list[int]) -> Tensor:
            return torch.tensor(values, device=like.device)

        self.last = len(script) - 1
        self.steer = whole([move.steer for move in script])
        self.over = whole([_TOOL_IS_STEERED if m.over is None else m.over for m in script])
        self.above = column([math.nan if m.above is None else m.above for m in script])
        self.grip = column([move.grip for move in script])
        self.near = column([move.near for move in script])
        self.steps = whole([move.steps for move in script])
        self.patience = whole([move.patience for move in script])
        # A body is carried from the move after the grip closes until the fingers open.
        shut = [move.grip == SHUT for move in script]
        self.carries = whole([a and b for a, b in zip([False, *shut[:-1]], shut, strict=True)])


def _constant(values: tuple[float, ...], like: Tensor) -> Tensor:
    return _cached_constant(values, like.device, like.dtype)


@cache
def _cached_constant(values: tuple[float, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    """A constant, copied to the device once, because copying waits for the device."""
    return torch.tensor(values, device=device, dtype=dtype)


def _clip_length(vector: Tensor, max_length: float) -> Tensor:
    length = torch.linalg.vector_norm(vector, dim=1, keepdim=True)
    return vector * (max_length / length.clamp(min=max_length))


def _place_of(state: State, bodies: Tensor) -> Tensor:
    """Positions of one body per world (worlds, 3)."""
    return state.xpos[torch.arange(len(bodies), device=bodies.device), bodies.clamp(min=0)]


def _tool(state: State) -> Tensor:
    """The point between the fingertips (worlds, 3)."""
    frame = state.xmat[:, HAND_BODY]
    return state.xpos[:, HAND_BODY] + frame @ _constant(_TOOL, frame)


def _joint_speeds(state: State, twist: Tensor) -> Tensor:
    """Arm joint velocities for a linear and angular velocity of the tool: damped least squares."""
    axes = state.xmat[:, _ARM_BODIES, :, 2]
    arms = _tool(state)[:, None] - state.xpos[:, _ARM_BODIES]
    jacobian = torch.cat([torch.linalg.cross(axes, arms), axes], dim=2).transpose(1, 2)
    square = jacobian @ jacobian.transpose(1, 2)
    square = square + 1e-3 * torch.eye(6, dtype=square.dtype, device=square.device)
    # Never singular; checking would wait for the device.
    solved = torch.linalg.solve_ex(square, twist[..., None])[0]
    return (jacobian.transpose(1, 2) @ solved)[..., 0]


def _closing_direction(state: State, body: int) -> Tensor:
    """Horizontal unit vector along which the fingers close on a body (worlds, 2).

    A banana is grasped across its middle, a block by the pair of faces with more free space.
    """
    frame = state.xmat[:, body]
    flat = frame[:, :2, :2].transpose(1, 2)
    flat = flat / torch.linalg.vector_norm(flat, dim=2, keepdim=True).clamp(min=1e-6)
    if body == BANANA:
        return flat[:, 1]
    others = [other for other in OBJECT_BODIES if other != body]
    sides = torch.stack([flat, -flat], dim=1) * _FINGERTIP  # (worlds, ±, direction, 2)
    tips = state.xpos[:, None, None, body, :2] + sides
    gaps = tips[..., None, :] - state.xpos[:, None, None, others, :2]
    from_objects = torch.linalg.vector_norm(gaps, dim=-1).amin(dim=-1) - 0.7 * BLOCK
    from_walls = (_constant(TRAY, tips) - tips.abs()).amin(dim=-1)
    best = torch.minimum(from_objects, from_walls).amin(dim=1).argmax(dim=1)
    return flat[torch.arange(len(best), device=best.device), best]
