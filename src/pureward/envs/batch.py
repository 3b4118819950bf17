# SPDX-License-Identifier: Apache-2.0
"""The environment protocol: a batch of worlds that step together and reset themselves.

Everything that steps an environment (`train`, `evaluate`, `collect`, `probe`, `show`) uses this
class and nothing behind it. Our simulated tasks implement it, and so can yours: register a
function that makes it with `ENVIRONMENTS.register("mine")`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Self

import torch
from torch import Tensor

from pureward.errors import InputError
from pureward.registry import Registry
from pureward.types import Observation, Script, Step


class BatchEnv(ABC):
    """A number of worlds that step together. A world whose episode ends is reset by `step`."""

    name: str
    """The environment's name, as it was asked for."""
    worlds: int
    """How many worlds there are."""
    device: torch.device
    """Where actions must be and observations are."""
    state_size: int
    """Numbers in a world's state."""
    action_size: int
    """Numbers in a world's action, each in [−1, 1]."""
    frame_shape: tuple[int, int, int] | None
    """Channels, height and width of a world's frames, or None without frames."""
    horizon: int
    """Steps after which an episode is truncated."""
    control_step: float
    """Seconds of one step; films are shown at this speed."""
    hold: int = 1
    """Consecutive steps for which the task must be solved before `Step.success` is true."""
    stagger: bool = False
    """Whether the worlds' first episodes are cut short, so that they end at different times."""
    resets: bool = True
    """Whether `step` resets the worlds whose episode ends."""
    elapsed: Tensor
    """Steps into each world's episode, int64 (worlds,)."""

    @abstractmethod
    def seed(self, seed: int) -> None:
        """Draw the first states of episodes to come from this seed."""

    @abstractmethod
    def reset(self) -> Observation:
        """Begin a new episode in every world."""

    @abstractmethod
    def step(self, action: Tensor) -> Step:
        """Apply actions (worlds, action size) in [−1, 1] for one step."""

    def check(self) -> None:  # noqa: B027 - nothing to do for most
        """Raise `SimulationError` if something went wrong since the last check."""

    def close(self) -> None:  # noqa: B027
        """Give memory and processes back."""

    def state_dict(self) -> dict[str, Tensor]:
        """Return what `load_state_dict` needs to continue from here; {} begins new episodes."""
        return {}

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> Observation:
        """Continue from where `state_dict` was taken, and return what is seen there."""
        return self.reset()

    def simulator_state(self) -> dict[str, Tensor]:
        """Return what `draw` can draw frames from, a row a world; {} if frames must be stored."""
        return {}

    def draw(self, simulator_state: Mapping[str, Tensor]) -> Tensor:
        """Return the frames of simulator states, uint8 (rows, channels, height, width)."""
        raise InputError(
            f"{self.name} cannot draw frames from stored states; store frames with the dataset"
        )

    def script(self) -> Script:
        """Return a hand-written policy for these worlds."""
        raise InputError(f"{self.name} has no script; leave out guided, or use lift or stack")

    def __enter__(self) -> Self:
        """Use the environment in a `with` block, which closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the environment."""
        self.close()


#: Makes an environment: called with worlds, device, seed, cameras and stagger, by keyword.
Maker = Callable[..., BatchEnv]

#: Name → function that makes it, for environments that are not simulated tasks (`TASKS`).
ENVIRONMENTS: Registry[Maker] = Registry("environment")
