# SPDX-License-Identifier: Apache-2.0
"""The interface of an agent: an RL algorithm that a run trains.

Register your own with `AGENTS.register("mine")(AgentKind(...))`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pureward.errors import InputError
from pureward.registry import Registry


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A batch of n-step transitions."""

    state: Tensor
    """s_t, float32 (batch, state size)."""
    action: Tensor
    """a_t, float32 (batch, action size)."""
    reward: Tensor
    """Discounted sum of the next n rewards, float32 (batch,)."""
    discount: Tensor
    """Weight of the value of `next_state`, float32 (batch,): γⁿ, or 0 after a terminal."""
    next_state: Tensor
    """s_t+n, float32 (batch, state size)."""


@dataclass(frozen=True, kw_only=True)
class AgentConfig:
    """Settings of an agent; each kind of agent has a subclass."""

    def check_returns(self, highest: float, discount: float) -> None:
        """Raise InputError if returns of rewards up to `highest` cannot be represented."""


class Agent(ABC):
    """Acts and learns."""

    config: AgentConfig
    state_size: int
    action_size: int
    captures = False
    """Whether `update` may be captured in a CUDA graph: no host sync, no branch on data."""

    @abstractmethod
    def act(self, state: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return actions in [−1, 1].

        Args:
            state: float32 (worlds, state size).
            noise: to add, (worlds, action size); None for greedy actions.

        Returns:
            float32 (worlds, action size).
        """

    @abstractmethod
    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Learn from a batch; return metrics, 0-d tensors on the device."""

    @abstractmethod
    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield every tensor that learning changes, by name."""

    @abstractmethod
    def policy_tensors(self) -> dict[str, Tensor]:
        """Return the state dict of `AgentKind.policy` with the learned weights."""

    def observe(self, state: Tensor) -> None:  # noqa: B027 - optional
        """Called with the states (worlds, state size) before `act`, for running statistics."""

    def finite(self) -> dict[str, Tensor]:
        """Return whether all values of a part are finite, by part: bool (), on the device."""
        found = [tensor.isfinite().all() for _, tensor in self.tensors()]
        return {"agent": torch.stack(found).all()}

    def state_dict(self) -> dict[str, Tensor]:
        """Return copies of all tensors, by name."""
        return {name: tensor.detach().clone() for name, tensor in self.tensors()}

    @torch.no_grad()
    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        """Load what `state_dict` returned, in place, since captured graphs hold these tensors."""
        own = dict(self.tensors())
        for name, tensor in own.items():
            found = tuple(saved[name].shape) if name in saved else None
            if found != tuple(tensor.shape):
                raise InputError(
                    f"a saved agent's {name!r} must have shape {tuple(tensor.shape)}, got {found}; "
                    "use the task and agent settings it was saved with"
                )
        for name, tensor in own.items():
            tensor.copy_(saved[name])


@dataclass(frozen=True, kw_only=True)
class AgentKind:
    """An algorithm."""

    config: type[AgentConfig]
    """Its settings: a frozen dataclass with defaults."""
    make: Callable[..., Agent]
    """Builds the agent from a config and the keywords state_size, action_size, device, seed."""
    policy: Callable[..., nn.Module]
    """Builds the greedy policy, states to actions, from a config, state_size, action_size."""


#: Name → algorithm.
AGENTS: Registry[AgentKind] = Registry("algorithm")
