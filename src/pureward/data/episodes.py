# SPDX-License-Identifier: Apache-2.0
"""Episodes, their checks and their splits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from numbers import Real

import torch
from torch import Tensor

from pureward.data.lazy import LazyFrames
from pureward.errors import InputError
from pureward.pixels import MAX_IMAGES
from pureward.types import STATE_LIMIT, checked_tensor

#: Uses of an episode. Failures never succeed; only methods with known failures train on them.
TRAIN, HELD_OUT, FAILURE = SPLITS = ("train", "held-out", "failure")


@dataclass(frozen=True, kw_only=True)
class Episode:
    """T control steps from a first state: T actions, T rewards, T + 1 states and frames.

    Rewards belong to arrival states: `rewards[t]` and `success[t]` belong to `state[t + 1]` and
    `frames[t + 1]`, the result of `actions[t]`. The first state has no reward.
    """

    rewards: Tensor
    """The task's rewards, float32 (T,); zeros if they are unknown."""
    actions: Tensor | None = None
    """(T, action size), or None if the actions of a dataset are not one array."""
    success: Tensor | None = None
    """Whether the arrival state solves the task, bool (T,), or None if unknown."""
    state: Tensor | None = None
    """Low-dimensional state, float32 (T + 1, state size), or None if unknown."""
    simulator: dict[str, Tensor] = field(default_factory=dict)
    """Simulator fields to draw frames from (`DRAWN_FROM`), (T + 1, …), in engine precision."""
    frames: Tensor | LazyFrames | None = None
    """uint8 (T + 1, 3·cameras, height, width), in memory or read from disk when indexed; None if
    not drawn yet."""
    split: str = TRAIN
    rated: bool = True
    """Whether the rewards are known."""
    terminated: bool = False
    """Whether the last state is terminal; otherwise time, or the recording, ended."""
    policy: str = ""
    """The policy that acted: a snapshot's name, "random", or "" if unknown."""
    row_per_frame: bool = False
    """Whether the source had rewards or success for every frame; those of the first are dropped."""

    def __post_init__(self) -> None:
        at_steps = {"actions": self.actions, "success": self.success}
        at_states = {"state": self.state, "frames": self.frames, **self.simulator}
        for name, value in ({"rewards": self.rewards} | at_steps | at_states).items():
            if value is None or isinstance(value, LazyFrames):
                continue
            if checked_tensor(value, f"{name} must be a tensor").is_complex():
                raise InputError(
                    f"{name} must be real numbers, got {_kind(value)}; keep the real part alone"
                )
        if self.rewards.dim() != 1:
            raise InputError(
                f"rewards must be one number per step, got shape {tuple(self.rewards.shape)}; "
                "flatten them"
            )
        if not self.rewards.is_floating_point():
            raise InputError(
                f"rewards must be floating point, got {_kind(self.rewards)}; call .float()"
            )
        if self.success is not None and self.success.dtype != torch.bool:
            raise InputError(
                f"success must be bool, got {_kind(self.success)}; compare it with a threshold"
            )
        if len(self) == 0:
            raise InputError("an episode needs at least one step, got none; drop it")
        for columns, length, rule in (
            (at_steps, len(self), "one per reward"),
            (at_states, len(self) + 1, "one more than rewards"),
        ):
            for name, value in columns.items():
                if value is not None and len(value) != length:
                    raise InputError(
                        f"{name} must have {length} rows ({rule}), got {len(value)}; repair or "
                        "drop that episode"
                    )
        self._check_values()
        check_split(self.split)

    def _check_values(self) -> None:
        if isinstance(self.frames, Tensor):
            _check_frames(self.frames)
        numbers = {"rewards": self.rewards, "actions": self.actions, "state": self.state}
        for name, value in (numbers | self.simulator).items():
            if value is not None and not value.isfinite().all():
                raise InputError(
                    f"{name} must be finite numbers, got NaN or infinity at step "
                    f"{_first_step(~value.isfinite())}; repair or drop that episode"
                )
        for name, value in self.simulator.items():  # an engine would reset such a state
            bad = value.abs() > STATE_LIMIT
            if bad.any():
                raise InputError(
                    f"{name} must lie within ±{STATE_LIMIT:,.0f}, got {float(value[bad][0]):g} at "
                    f"step {_first_step(bad)}; repair or drop that episode"
                )

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def outcome(self) -> bool | None:
        """Whether the task is solved at any step; None if that is not stated."""
        return None if self.success is None else bool(self.success.any())

    @property
    def succeeds(self) -> bool:
        """Whether the task is known to be solved at any step."""
        return bool(self.outcome)


def annotated(episodes: Sequence[Episode]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the arrival frames of all episodes with their rewards.

    Returns:
        Frames, uint8 (steps, channels, height, width); rewards, float32 (steps,); the index of
        the episode of each step, int64 (steps,).
    """
    frames = torch.cat([part[1:] for part in stored_frames(episodes)])
    lengths = torch.tensor([len(episode) for episode in episodes])
    numbers = torch.arange(len(episodes)).repeat_interleave(lengths)
    return frames, torch.cat([episode.rewards for episode in episodes]), numbers


def stored_frames(episodes: Sequence[Episode]) -> list[Tensor]:
    """Return the frames of each episode, read from disk if they are there.

    Raises InputError if there are no episodes, if an episode has no frames, or if frames differ in
    shape.
    """
    if not len(episodes):
        raise InputError("frames are needed of at least one episode, got none; pass some")
    found: list[Tensor] = []
    for number, episode in enumerate(episodes):
        if episode.frames is None:
            raise InputError(f"episode {number} has no frames yet; draw them with `draw`")
        found.append(episode.frames[:])
        wanted, got = (tuple(part.shape[1:]) for part in (found[0], found[-1]))
        if got != wanted:
            raise InputError(
                f"frames must be {wanted} (channels, height, width) as in episode 0, got {got} in "
                f"episode {number}; resize or drop that episode"
            )
    return found


def check_rated(episodes: Sequence[Episode], where: object) -> None:
    """Refuse episodes without rewards, where they are needed."""
    for number, episode in enumerate(episodes):
        if not episode.rated:
            raise InputError(
                f"{where}: annotated episodes need rewards, and episode {number} has none; pass "
                "them as demonstrations, or add rewards"
            )


def success_problem(name: str, outcomes: Iterable[tuple[str, bool | None]]) -> str:
    """Return what is wrong with demonstrations of these splits and outcomes; "" if nothing is."""
    stated = [outcome for split, outcome in outcomes if outcome is not None and split != FAILURE]
    if any(stated) or not stated:
        return ""
    return (
        f"{name}: success is 0 in all {len(stated)} episodes that state it, so they are no "
        "demonstrations; correct it, or use them as annotations, logs or failures"
    )


def row_per_frame_note(name: str) -> str:
    """Say how rewards are read of which there are as many as frames."""
    return (
        f"{name}: there are as many rewards as frames, so each belongs to its own frame and the "
        "first is dropped; if rewards[t] is the result of action t, store rewards[:-1] and "
        "success[:-1], which belong to the frames after"
    )


def check_split(name: str) -> None:
    """Refuse an unknown name of a split."""
    if name not in SPLITS:
        raise InputError(f"unknown split {name!r}; choose from {SPLITS}")


def split_by_share(count: int, held_out: float) -> list[str]:
    """Return the splits of `count` episodes without one; a fixed seed chooses those held out."""
    if not isinstance(held_out, Real) or not 0.0 <= held_out < 1.0:
        raise InputError(
            f"held_out must lie in [0, 1), got {held_out!r}; pass a share of the episodes"
        )
    held = min(count - 1, max(1, round(held_out * count))) if held_out else 0
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    splits = [TRAIN] * count
    for index in order[:held].tolist():
        splits[index] = HELD_OUT
    return splits


def _check_frames(frames: Tensor) -> None:
    if frames.dtype != torch.uint8 or frames.dim() != 4:
        raise InputError(
            "frames must be uint8 (time, channels, height, width), got "
            f"{_kind(frames)} {tuple(frames.shape)}; store them from 0 to 255, channels first"
        )
    channels, _, width = frames.shape[1:]
    if channels % 3 or not 0 < channels <= 3 * MAX_IMAGES or width <= 4 < channels:
        raise InputError(
            "frames must be (time, channels, height, width) with 3 channels per image, got "
            f"{tuple(frames.shape)}; convert them with pureward.pixels.to_frames"
        )


def _kind(value: Tensor) -> str:
    return str(value.dtype).removeprefix("torch.")


def _first_step(bad: Tensor) -> int:
    return int(bad.nonzero()[0, 0])
