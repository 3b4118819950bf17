# SPDX-License-Identifier: Apache-2.0
"""Whole episodes: what is stored of them, and which are trained on."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real

import torch
from torch import Tensor

from pureward.errors import InputError
from pureward.types import checked_tensor

#: What an episode is for. Failures never see success; only methods with known failures train on
#: them.
TRAIN, HELD_OUT, FAILURE = SPLITS = ("train", "held-out", "failure")


@dataclass(frozen=True, kw_only=True)
class Episode:
    """T control steps from a first state: T actions, T rewards, T + 1 states and frames.

    Rewards belong to arrival states: `rewards[t]` and `success[t]` judge what `actions[t]` led
    to, which is `state[t + 1]` and `frames[t + 1]`. The first state has no reward.
    """

    rewards: Tensor
    """The task's own, float32 (T,)."""
    actions: Tensor | None = None
    """(T, action size), or None where a foreign dataset's actions are no plain array."""
    success: Tensor | None = None
    """Whether the arrival state solves the task, bool (T,), where it is known."""
    state: Tensor | None = None
    """Low-dimensional state, float32 (T + 1, state size), where it is known."""
    simulator: dict[str, Tensor] = field(default_factory=dict)
    """Fields of `DRAWN_FROM` to draw frames from, (T + 1, …), in the engine's precision."""
    frames: Tensor | None = None
    """uint8 (T + 1, 3·cameras, height, width), or None if they are yet to be drawn."""
    split: str = TRAIN
    policy: str = ""
    """What acted: a snapshot's name, "random", or "" if it is not known."""

    def __post_init__(self) -> None:
        numbers = {"rewards": self.rewards, "actions": self.actions, "success": self.success}
        for name, value in (numbers | self._seen()).items():
            _check_real(name, value)
        if self.rewards.dim() != 1:
            raise InputError(
                f"rewards must be one number a step, got shape {tuple(self.rewards.shape)}; "
                "flatten them"
            )
        steps = len(self)
        if steps == 0:
            raise InputError("an episode needs at least one step, got none; drop it")
        for name in ("actions", "success"):
            _check_length(name, getattr(self, name), steps, "one per reward")
        for name, value in self._seen().items():
            _check_length(name, value, steps + 1, "one more than rewards")
        _check_frames(self.frames)
        numbers = {"rewards": self.rewards, "actions": self.actions, "state": self.state}
        for name, value in (numbers | self.simulator).items():
            _check_finite(name, value)
        for name, value in self.simulator.items():
            _check_sane(name, value)
        check_split(self.split)

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def succeeds(self) -> bool:
        """Whether the task is solved at any time."""
        return self.success is not None and bool(self.success.any())

    def _seen(self) -> dict[str, Tensor | None]:
        return {"state": self.state, "frames": self.frames, **self.simulator}


def annotated(episodes: Sequence[Episode]) -> tuple[Tensor, Tensor, Tensor]:
    """Arrival frames of all steps, their rewards, and the number of the episode of each."""
    frames, rewards, numbers = [], [], []
    for number, episode in enumerate(episodes):
        if episode.frames is None:
            raise InputError(f"episode {number} has no frames yet; draw them with `draw`")
        frames.append(episode.frames[1:])
        rewards.append(episode.rewards)
        numbers.append(torch.full((len(episode),), number))
    if not frames:
        raise InputError("annotated frames need at least one episode, got none")
    return torch.cat(frames), torch.cat(rewards), torch.cat(numbers)


def check_split(name: str) -> None:
    """Refuse a name that no split has."""
    if name not in SPLITS:
        raise InputError(f"unknown split {name!r}; choose from {SPLITS}")


def split_by_share(count: int, held_out: float) -> list[str]:
    """Splits for episodes that carry none: the same ones are held out each time."""
    if not isinstance(held_out, Real) or not 0.0 <= held_out < 1.0:
        raise InputError(
            f"held_out must lie in [0, 1), got {held_out!r}; it is a share of episodes"
        )
    held = min(count - 1, max(1, round(held_out * count))) if held_out else 0
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    splits = [TRAIN] * count
    for index in order[:held].tolist():
        splits[index] = HELD_OUT
    return splits


def _check_length(name: str, value: Tensor | None, length: int, rule: str) -> None:
    if value is not None and len(value) != length:
        raise InputError(f"{name} must have {length} rows ({rule}), got {len(value)}")


def _check_frames(frames: Tensor | None) -> None:
    if frames is not None and (frames.dtype != torch.uint8 or frames.dim() != 4):
        raise InputError(
            "frames must be uint8 (time, channels, height, width), got "
            f"{str(frames.dtype).removeprefix('torch.')} {tuple(frames.shape)}; "
            "store them from 0 to 255, channels first"
        )


def _check_real(name: str, value: Tensor | None) -> None:
    if value is None:
        return
    checked_tensor(value, f"{name} must be a tensor")
    if value.is_complex():
        kind = str(value.dtype).removeprefix("torch.")
        raise InputError(f"{name} must be real numbers, got {kind}; keep the real part alone")


def _check_finite(name: str, value: Tensor | None) -> None:
    if value is None:
        return
    bad = ~value.isfinite()
    if bad.any():
        raise InputError(
            f"{name} must be finite numbers, got NaN or infinity at step {_first_step(bad)}; "
            "repair or drop that episode"
        )


def _check_sane(name: str, value: Tensor) -> None:
    """Refuse a state that no world can be in: a simulator would draw another in its place."""
    from pureward.envs.health import ABSURD  # brings the simulators, which reading frames needs not

    bad = value.abs() > ABSURD
    if bad.any():
        raise InputError(
            f"{name} must lie within ±{ABSURD:,.0f}, got {float(value[bad][0]):g} at step "
            f"{_first_step(bad)}; repair or drop that episode"
        )


def _first_step(bad: Tensor) -> int:
    return int(bad.nonzero()[0, 0])
