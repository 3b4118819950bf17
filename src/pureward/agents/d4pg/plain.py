# SPDX-License-Identifier: Apache-2.0
"""D4PG (Barth-Maron et al., 2018) with the settings of the paper's Table 4.

An update uses no random numbers, does not synchronise and does not branch on data, so a CUDA
graph can capture it.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from pureward.adam import Adam
from pureward.agents.agent import Agent, Batch
from pureward.agents.d4pg.categorical import (
    Support,
    cross_entropy,
    cross_entropy_gradient,
    expected_value,
    expected_value_gradient,
    project,
)
from pureward.agents.d4pg.config import D4PGConfig
from pureward.agents.d4pg.network import Actor, Critic, flattened
from pureward.agents.d4pg.normaliser import Normaliser


class GreedyPolicy(nn.Module):
    """The actor, with the normaliser of states if the agent has one."""

    def __init__(
        self,
        config: D4PGConfig,
        state_size: int,
        action_size: int,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.actor = Actor(config, state_size, action_size, generator or torch.Generator())
        self.normaliser = Normaliser(state_size) if config.normalise else None

    def normalised(self, state: Tensor) -> Tensor:
        """Return states (worlds, state size), normalised if the agent does that."""
        return state if self.normaliser is None else self.normaliser(state)

    def forward(self, state: Tensor) -> Tensor:
        """Return actions (worlds, action size) in [−1, 1]."""
        return self.actor(self.normalised(state))


class PlainD4PG(Agent):
    """A deterministic policy and a critic of the distribution of its return, in torch's float32."""

    config: D4PGConfig
    captures = True

    def __init__(
        self,
        config: D4PGConfig,
        *,
        state_size: int,
        action_size: int,
        device: torch.device | str = "cpu",
        seed: int = 0,
    ) -> None:
        """Build networks, targets and optimiser.

        Args:
            config: shape and learning settings.
            state_size: numbers in a state.
            action_size: numbers in an action.
            device: of the networks and of all batches.
            seed: of the initial weights, the same on every device.
        """
        self.config = config
        self.state_size = state_size
        self.action_size = action_size
        self.device = torch.device(device)
        self.support = Support(config.value_low, config.value_high, config.atoms, self.device)
        self.policy, self.critic = self._networks(seed)
        target, self.target_critic = self._networks(seed)
        self.actor, self.target_actor = self.policy.actor, target.actor
        self.normaliser = self.policy.normaliser
        self.weights = flattened(self.actor, self.critic, self.target_actor, self.target_critic)
        actor, critic, *self._targets = self.weights.parts
        self._online = {"actor": actor, "critic": critic}
        rates = {"actor": config.actor_rate, "critic": config.critic_rate}
        self.optimizer = Adam(self._online, rates)
        self.updates = torch.zeros((), dtype=torch.int64, device=self.device)

    @torch.no_grad()
    def act(self, state: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return actions (worlds, action size) in [−1, 1]; noise of the same shape is added."""
        action = self.policy(state)
        return action if noise is None else (action + noise).clamp_(-1.0, 1.0)

    def observe(self, state: Tensor) -> None:
        """Update the normaliser, if there is one, with states (worlds, state size)."""
        if self.normaliser is not None:
            self.normaliser.observe(state)

    @torch.no_grad()
    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Update critic and actor with a batch; return metrics, detached.

        Both gradients are computed at the same weights, as in D4PG's Algorithm 1.
        """
        metrics = self.find_gradients(batch)
        self.move()
        return metrics

    @torch.no_grad()
    def find_gradients(self, batch: Batch) -> dict[str, Tensor]:
        """Write the gradients of both networks for a batch; return metrics."""
        state = self.policy.normalised(batch.state)
        target = self._target(batch)
        proposed, actor_trace = self.actor.forward_trace(state)
        logits, critic_trace = self.critic.forward_trace(state, batch.action, proposed)
        log_taken = logits[: len(state)].log_softmax(dim=-1)
        of_proposed = logits[len(state) :].softmax(dim=-1)
        value = expected_value(of_proposed, self.support)
        gradient = torch.cat(
            [
                cross_entropy_gradient(target, log_taken.exp()),
                -expected_value_gradient(of_proposed, value, self.support),
            ]
        )
        self.actor.backward(actor_trace, self.critic.backward(critic_trace, gradient))
        return {
            "critic/loss": cross_entropy(target, log_taken),
            "critic/value": value.mean(),
            # Probability of the highest atom: near 1, the critic no longer ranks actions.
            "critic/target_at_top": target[:, -1].mean(),
        }

    @torch.no_grad()
    def move(self) -> None:
        """Take an Adam step and update the target networks."""
        self.optimizer.step()
        self.updates += 1
        share = self.config.polyak
        if share == 0:
            # 1 or 0 by a counter on the device: no host sync.
            share = (self.updates % self.config.target_period == 0).float()
        for target, online in zip(self._targets, self._online.values(), strict=True):
            target.lerp_(online, share)

    def twin(self) -> "PlainD4PG":
        """Return a new agent of this shape on this device."""
        shape = {"state_size": self.state_size, "action_size": self.action_size}
        return PlainD4PG(self.config, **shape, device=self.device)

    def finite(self) -> dict[str, Tensor]:
        """Return whether the weights of each network are finite: bool (), on the device."""
        return {name: weights.isfinite().all() for name, weights in self._online.items()}

    def policy_tensors(self) -> dict[str, Tensor]:
        """Return the state dict of `GreedyPolicy`."""
        return self.policy.state_dict()

    def _networks(self, seed: int) -> tuple[GreedyPolicy, Critic]:
        # Drawn on the CPU, so that a seed gives the same weights on every device.
        rng = torch.Generator().manual_seed(seed)
        shape = self.config, self.state_size, self.action_size
        policy, critic = GreedyPolicy(*shape, rng), Critic(*shape, rng)
        return policy.to(self.device), critic.to(self.device)

    def _target(self, batch: Batch) -> Tensor:
        """Distribution of the n-step return under the target networks, (batch, atoms)."""
        next_state = self.policy.normalised(batch.next_state)
        logits = self.target_critic(next_state, self.target_actor(next_state))
        return project(logits.softmax(dim=-1), batch.reward, batch.discount, self.support)

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield every tensor that learning changes, by name."""
        others = {
            "critic": self.critic,
            "target_actor": self.target_actor,
            "target_critic": self.target_critic,
        }
        yield from self.policy.state_dict().items()
        yield from nn.ModuleDict(others).state_dict().items()
        yield from ((f"optimizer.{name}", tensor) for name, tensor in self.optimizer.tensors())
        yield "updates", self.updates
