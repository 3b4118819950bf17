# SPDX-License-Identifier: Apache-2.0
"""The environment protocol: a batch of worlds that step together and reset themselves.

`train`, `evaluate`, `collect`, `probe` and `show` use this class only. The simulated tasks
implement it. To add your own, register a function with `ENVIRONMENTS.register("mine")`.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Self

import torch
from torch import Tensor

from pureward.errors import InputError
from pureward.registry import Registry
from pureward.types import Observation, Script, Step, checked_tensor


class BatchEnv(ABC):
    """A batch of worlds that step together; `step` resets a world whose episode ends."""

    name: str
    """The environment's registered name."""
    worlds: int
    """Number of worlds."""
    device: torch.device
    """Device of actions and observations."""
    state_size: int
    """Length of a world's state vector."""
    action_size: int
    """Length of a world's action vector; values lie in [−1, 1]."""
    frame_shape: tuple[int, int, int] | None
    """Channels, height and width of a world's frames, or None without frames."""
    horizon: int
    """Steps after which an episode is truncated."""
    control_step: float
    """Seconds per step; also the frame interval of videos."""
    hold: int = 1
    """Consecutive steps for which the task must be solved before `Step.success` is true."""
    stagger: bool = False
    """Whether the worlds' first episodes are cut short, so that they end at different times."""
    terminates: bool = True
    """Whether an episode may end before the horizon, in a terminal state."""
    resets: bool = True
    """Whether `step` resets the worlds whose episode ends."""
    renderer: str = "the environment's own"
    """What draws the frames; a dataset's card names it."""
    warning: str = ""
    """What a run warns of, such as images in the policy's state; "" for nothing."""
    elapsed: Tensor
    """Steps into each world's episode, int64 (worlds,)."""

    @abstractmethod
    def seed(self, seed: int) -> None:
        """Seed the first states of the episodes to come."""

    @abstractmethod
    def reset(self) -> Observation:
        """Begin a new episode in every world."""

    @abstractmethod
    def step(self, action: Tensor) -> Step:
        """Apply actions (worlds, action size) in [−1, 1] for one step."""

    def check(self) -> None:  # noqa: B027 - optional
        """Raise `SimulationError` if the simulation failed since the last check."""

    def close(self) -> None:  # noqa: B027
        """Free memory and processes."""

    def state_dict(self) -> dict[str, Tensor]:
        """Return what `load_state_dict` needs to continue from here; {} begins new episodes."""
        return {}

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> Observation:
        """Continue from where `state_dict` was taken, and return the observation there."""
        return self.reset()

    def simulator_state(self) -> dict[str, Tensor]:
        """Return what `draw` needs, one row per world; {} if datasets must store frames."""
        return {}

    def draw(self, simulator_state: Mapping[str, Tensor]) -> Tensor:
        """Return the frames of simulator states, uint8 (rows, channels, height, width)."""
        raise InputError(
            f"{self.name} cannot draw frames from stored states; store frames with the dataset"
        )

    def script(self) -> Script:
        """Return a hand-written policy for these worlds."""
        raise InputError(f"{self.name} has no script; leave out guided, or use lift or stack")

    def set_sizes(self, first: Observation) -> None:
        """Set `state_size` and `frame_shape` to those of a first observation."""
        self.state_size = first.state.shape[1]
        self.frame_shape = None
        if first.frames is not None:
            channels, height, width = first.frames.shape[1:]
            self.frame_shape = (channels, height, width)

    def _check_action(self, action: Tensor) -> None:
        """Raise `InputError` unless actions are a tensor (worlds, action size)."""
        checked_tensor(action, "actions must be a tensor (worlds, action size)")
        if tuple(action.shape) != (self.worlds, self.action_size):
            raise InputError(
                f"action must have shape {(self.worlds, self.action_size)} (worlds, action size), "
                f"got {tuple(action.shape)}; pass one row per world"
            )

    def __enter__(self) -> Self:
        """Use the environment in a `with` block, which closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the environment."""
        self.close()


#: Name → function that makes a `BatchEnv` from the keywords worlds, device, seed, cameras, stagger.
ENVIRONMENTS: Registry[Callable[..., BatchEnv]] = Registry("environment")


def frame_keys(frames: str) -> tuple[str, ...]:
    """Return the keys in the setting "KEY,KEY"; () for "render"."""
    return () if frames == "render" else tuple(frames.split(","))


def mixed_seed(*numbers: int) -> int:
    """Return a seed for these numbers; that of others is most likely another one."""
    return random.Random(str(numbers)).getrandbits(31)
