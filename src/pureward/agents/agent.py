# SPDX-License-Identifier: Apache-2.0
"""The agent protocol: what a run needs of an algorithm that learns a policy from rewarded steps.

Register an agent of your own with `AGENTS.register("mine")(AgentKind(...))`.
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
    """Steps to learn from, with their rewards."""

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
        """Refuse settings that cannot represent returns of rewards up to `highest`."""


class Agent(ABC):
    """A policy that acts and learns."""

    config: AgentConfig
    state_size: int
    action_size: int
    captures = False
    """Whether `update` may be captured in a CUDA graph: no host sync, no branch on data."""

    @abstractmethod
    def act(self, state: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return actions in [−1, 1], (worlds, action size), greedy unless noise is added."""

    @abstractmethod
    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Learn from a batch; returns metrics, 0-d tensors on the device."""

    @abstractmethod
    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield every tensor that learning changes, by name."""

    @abstractmethod
    def policy_tensors(self) -> dict[str, Tensor]:
        """Return the state dict of `AgentKind.policy` with what was learned."""

    def observe(self, state: Tensor) -> None:  # noqa: B027 - most need not
        """Take account of states (worlds, state size) that are acted on."""

    def finite(self) -> dict[str, Tensor]:
        """Return whether all numbers of a part are finite, by part: bool (), not read back."""
        found = [tensor.isfinite().all() for _, tensor in self.tensors()]
        return {"agent": torch.stack(found).all()}

    def state_dict(self) -> dict[str, Tensor]:
        """Return copies of all that `load_state_dict` needs to continue from here."""
        return {name: tensor.detach().clone() for name, tensor in self.tensors()}

    @torch.no_grad()
    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        """Continue from where `state_dict` was taken, in place, which captured graphs see."""
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
    """One algorithm."""

    config: type[AgentConfig]
    """Its settings, a frozen dataclass with defaults."""
    make: Callable[..., Agent]
    """Builds the agent: called with a config, and state_size, action_size, device and seed by
    keyword."""
    policy: Callable[..., nn.Module]
    """Builds what acts, from states to actions: called with a config, state_size and
    action_size."""


#: Name → algorithm.
AGENTS: Registry[AgentKind] = Registry("algorithm")
