# SPDX-License-Identifier: Apache-2.0
"""What passes between environments, data and learners: frozen dataclasses of tensors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from pureward.errors import InputError

#: Fields of a simulator's state that decide what its cameras see.
DRAWN_FROM = ("qpos", "mocap_pos", "mocap_quat")

#: From states (worlds, state size) to actions (worlds, action size) in [−1, 1].
Policy = Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What is seen of every world at one instant."""

    state: Tensor
    """Low-dimensional state, float32 (worlds, state size): what the policy sees."""
    frames: Tensor | None
    """Camera images, uint8 (worlds, 3·cameras, height, width), or None: what rewards see."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One control step of every world; where an episode ends, the next one has begun."""

    obs: Observation
    """What the policy acts on next: after a reset, the new episode's first observation."""
    reward: Tensor
    """The task's own reward of the arrival state, float32 (worlds,)."""
    terminated: Tensor
    """Whether the episode ended for good, bool (worlds,): in ours, where it diverged."""
    truncated: Tensor
    """Whether the time limit ended the episode, bool (worlds,): bootstrap there."""
    success: Tensor
    """Whether the task is solved, for as long as it asks (`Task.hold`), bool (worlds,)."""
    final_obs: Observation
    """The arrival state itself, before any reset; the same object as `obs` if none was."""


class Script(Protocol):
    """A hand-written policy that sees the whole state of the worlds."""

    last_move: int
    """Number of the script's last move."""

    def __call__(self, state: Tensor | None = None, /) -> Tensor:
        """Return actions (worlds, action size) in [−1, 1]."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Return what it remembers from step to step, by name."""
        ...


def checked_tensor(value: object, rule: str) -> Tensor:
    """Refuse what is no tensor, such as a list, by a rule that says what it must be; return it."""
    if not isinstance(value, Tensor):
        raise InputError(f"{rule}, got {type(value).__name__}; wrap them in torch.as_tensor")
    return value
