# SPDX-License-Identifier: Apache-2.0
"""Types that environments, data and learners exchange: frozen dataclasses of tensors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from pureward.errors import InputError

#: Fields of a simulator's state that its frames depend on.
DRAWN_FROM = ("qpos", "mocap_pos", "mocap_quat")
#: A world has diverged if its state exceeds this, in metres, radians, their rates or newtons.
STATE_LIMIT = 1e4

#: From states (worlds, state size) to actions (worlds, action size) in [−1, 1].
Policy = Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class Observation:
    """Observation of every world at one instant."""

    state: Tensor
    """Low-dimensional state, float32 (worlds, state size): the policy's input."""
    frames: Tensor | None
    """Camera images, uint8 (worlds, 3·cameras, height, width), or None: the reward's input."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One control step of every world; a world whose episode ended has been reset."""

    obs: Observation
    """The policy's next input: after a reset, the new episode's first observation."""
    reward: Tensor
    """The task's own reward of the arrival state, float32 (worlds,)."""
    terminated: Tensor
    """Whether the episode ended other than by time, bool (worlds,): in tasks, if it diverged."""
    truncated: Tensor
    """Whether the time limit ended the episode, bool (worlds,): bootstrap there."""
    success: Tensor
    """Whether the task has been solved for `Task.hold` steps, bool (worlds,)."""
    final_obs: Observation
    """Observation of the arrival state, before any reset; `obs` itself if no world was reset."""


class Script(Protocol):
    """A hand-written policy that reads the full simulator state."""

    last_move: int
    """Number of the script's last move."""

    def __call__(self, state: Tensor | None = None, /) -> Tensor:
        """Return actions (worlds, action size) in [−1, 1]."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors that it keeps between steps, by name."""
        ...


class AsyncFlag:
    """Whether a condition was ever true on the device; reading it does not block the host."""

    def __init__(self, device: torch.device):
        self._cuda = device.type == "cuda"
        self._ever = torch.zeros((), dtype=torch.bool, device=device)
        self._seen = torch.zeros((), dtype=torch.bool, pin_memory=self._cuda)

    def raised(self, now: Tensor) -> bool:
        """Return whether the condition was ever true; on CUDA the answer is some steps late."""
        if not self._cuda:
            return bool(now)
        self._ever |= now
        self._seen.copy_(self._ever, non_blocking=True)
        return bool(self._seen)


def checked_tensor(value: object, rule: str) -> Tensor:
    """Return the value if it is a tensor; otherwise raise an error that begins with `rule`."""
    if not isinstance(value, Tensor):
        raise InputError(f"{rule}, got {type(value).__name__}; wrap them in torch.as_tensor")
    return value


def find_device(name: str | torch.device) -> torch.device:
    """Return the torch device of a name; "auto" is CUDA if available, otherwise the CPU."""
    name = str(name)
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cpu":
        return torch.device("cpu")
    if name != "cuda" and not name.startswith("cuda:"):
        raise InputError(f"unknown device {name!r}; choose from 'auto', 'cpu', 'cuda'")
    found = torch.cuda.device_count()
    current = torch.cuda.current_device() if found else 0
    index = name.removeprefix("cuda").removeprefix(":") or str(current)
    if not index.isdecimal() or int(index) >= found:
        raise InputError(
            f"device {name!r} needs a CUDA GPU of that number, and this machine has {found}; "
            "use 'cpu' or 'auto'"
        )
    return check_current(torch.device("cuda", int(index)))


def check_current(device: torch.device) -> torch.device:
    """Return the device unless it is another GPU than the current one, where kernels run."""
    if device.type == "cuda" and device.index not in (None, torch.cuda.current_device()):
        raise InputError(
            f"kernels run on the current GPU, number {torch.cuda.current_device()}, got "
            f"'{device}'; set CUDA_VISIBLE_DEVICES={device.index} and use 'cuda', or call "
            f"torch.cuda.set_device({device.index}) first"
        )
    return device
