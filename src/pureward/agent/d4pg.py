# SPDX-License-Identifier: Apache-2.0
"""D4PG (Barth-Maron et al., 2018) with the settings of the paper's Table 4.

One update draws nothing, reads nothing back and does not branch on data, so that a CUDA
graph may hold it together with the sampling before and whatever labels the rewards.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from pureward.agent.adam import Adam
from pureward.agent.categorical import (
    cross_entropy,
    cross_entropy_gradient,
    expected_value,
    expected_value_gradient,
    project,
    support,
)
from pureward.agent.network import Actor, Critic, flattened
from pureward.agent.normaliser import Normaliser
from pureward.errors import InputError


@dataclass(frozen=True, kw_only=True)
class D4PGConfig:
    """How the agent looks and learns; the defaults are Table 4, then Acme's D4PG."""

    actor_layers: tuple[int, ...] = (300, 200)
    """Hidden layers of the policy."""
    critic_layers: tuple[int, ...] = (400, 300)
    """Hidden layers of the critic."""
    norm_first: bool = False
    """LayerNorm and tanh after the first layers instead of ReLU, as Acme does."""
    atoms: int = 51
    """Values in the critic's distribution."""
    value_low: float = 0.0
    """V_min, the lowest return."""
    value_high: float = 100.0
    """V_max, the highest return: r_max / (1 − γ)."""
    actor_rate: float = 1e-4
    """Adam's step size for the policy."""
    critic_rate: float = 1e-4
    """Adam's step size for the critic."""
    target_period: int = 100
    """Updates between copies to the target networks, while `polyak` is 0."""
    polyak: float = 0.0
    """Share of new weights mixed into the targets at every update; 0 copies instead."""
    gradient_clip: float = 0.0
    """Largest norm of the actor's and of the critic's gradient; 0 sets no limit."""
    normalise: bool = False
    """Bring states to zero mean and unit spread by what `observe` has seen."""

    def __post_init__(self) -> None:
        """Refuse settings that cannot learn."""
        for name in ("actor_rate", "critic_rate"):
            if not 0 < getattr(self, name) < 1:
                raise InputError(
                    f"{name} must lie inside (0, 1), got {getattr(self, name)}; try 1e-4"
                )
        if self.atoms < 2 or not self.value_low < self.value_high:
            raise InputError(
                "returns need two atoms or more between value_low < value_high, got "
                f"{self.atoms} from {self.value_low} to {self.value_high}; "
                "try 51 from 0 to r_max / (1 − γ)"
            )
        if self.target_period < 1 or not 0 <= self.polyak <= 1 or self.gradient_clip < 0:
            raise InputError(
                "targets need target_period ≥ 1 and polyak in [0, 1], gradients a clip ≥ 0, got "
                f"{self.target_period}, {self.polyak} and {self.gradient_clip}; try 100, 0 and 0"
            )


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Steps to learn from, with rewards that somebody gave them."""

    state: Tensor
    """s_t, float32 (batch, state size)."""
    action: Tensor
    """a_t, float32 (batch, action size)."""
    reward: Tensor
    """Discounted sum of the next n rewards, float32 (batch,)."""
    discount: Tensor
    """What the value of `next_state` counts, float32 (batch,): γⁿ, or 0 after a terminal."""
    next_state: Tensor
    """s_t+n, float32 (batch, state size)."""


class D4PG:
    """A deterministic policy and a critic of its return's distribution."""

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
            device: where it lives; batches must be there too.
            seed: of the initial weights, the same on every device.
        """
        self.config = config
        self.state_size = state_size
        self.action_size = action_size
        self.device = torch.device(device)
        self.support = support(config.value_low, config.value_high, config.atoms, self.device)
        self.actor, self.critic = self._networks(state_size, action_size, seed)
        self.target_actor, self.target_critic = self._networks(state_size, action_size, seed)
        self._online = {"actor": flattened(self.actor), "critic": flattened(self.critic)}
        self._targets = [flattened(self.target_actor), flattened(self.target_critic)]
        self.normaliser = Normaliser(state_size).to(self.device) if config.normalise else None
        rates = {"actor": config.actor_rate, "critic": config.critic_rate}
        self.optimizer = Adam(self._online, rates)
        self.updates = torch.zeros((), dtype=torch.int64, device=self.device)

    @torch.no_grad()
    def act(self, state: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return actions in [−1, 1], (worlds, action size), greedy unless noise is added."""
        action = self.actor(self._normalised(state))
        return action if noise is None else (action + noise).clamp_(-1.0, 1.0)

    def observe(self, state: Tensor) -> None:
        """Let the normaliser, if there is one, take account of new states."""
        if self.normaliser is not None:
            self.normaliser.observe(state)

    @torch.no_grad()
    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Take one step of critic and actor on a batch; returns metrics, detached.

        Both gradients are taken at the same weights, as in D4PG's Algorithm 1.
        """
        state = self._normalised(batch.state)
        target = self._target(batch)
        proposed, actor_trace = self.actor.traced(state)
        logits, critic_trace = self.critic.traced(state, batch.action, proposed)
        log_taken = logits[: len(state)].log_softmax(dim=-1)
        of_proposed = logits[len(state) :].softmax(dim=-1)
        value = expected_value(of_proposed, self.support)
        gradient = torch.cat(
            [
                cross_entropy_gradient(target, log_taken.exp()),
                -expected_value_gradient(of_proposed, value, self.support),
            ]
        )
        self.actor.pull_back(actor_trace, self.critic.pull_back(critic_trace, gradient))
        norms = self._clip_gradients()
        self.optimizer.step()
        self._follow()
        metrics = {
            "critic/loss": cross_entropy(target, log_taken),
            "critic/value": value.mean(),
            # Mass the support cannot place higher: near 1, the critic no longer tells apart.
            "critic/target_at_top": target[:, -1].mean(),
        }
        return metrics | norms

    def finite(self) -> dict[str, Tensor]:
        """Whether each network's weights are all numbers, bool () each, not read back."""
        return {name: weights.isfinite().all() for name, weights in self._online.items()}

    def state_dict(self) -> dict[str, Tensor]:
        """All that a later `load_state_dict` needs to go on from here: tensors by name."""
        return {name: tensor.detach().clone() for name, tensor in self.tensors()}

    @torch.no_grad()
    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        """Go on from where `state_dict` was taken, in place, which captured graphs see."""
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

    def _networks(self, state_size: int, action_size: int, seed: int) -> tuple[Actor, Critic]:
        # Drawn on the CPU: a seed means the same weights on every device.
        rng = torch.Generator().manual_seed(seed)
        config = self.config
        actor = Actor(
            state_size,
            action_size,
            config.actor_layers,
            norm_first=config.norm_first,
            generator=rng,
        )
        critic = Critic(
            state_size,
            action_size,
            config.critic_layers,
            atoms=config.atoms,
            norm_first=config.norm_first,
            generator=rng,
        )
        return actor.to(self.device), critic.to(self.device)

    def _normalised(self, state: Tensor) -> Tensor:
        return state if self.normaliser is None else self.normaliser(state)

    def _target(self, batch: Batch) -> Tensor:
        """Distribution of the n-step return under the target networks."""
        next_state = self._normalised(batch.next_state)
        logits = self.target_critic(next_state, self.target_actor(next_state))
        return project(logits.softmax(dim=-1), batch.reward, batch.discount, self.support)

    def _clip_gradients(self) -> dict[str, Tensor]:
        if self.config.gradient_clip == 0:
            return {}
        norms = {}
        for name, weights in self._online.items():
            assert weights.grad is not None
            norm = torch.linalg.vector_norm(weights.grad)
            weights.grad.mul_((self.config.gradient_clip / (norm + 1e-6)).clamp(max=1.0))
            norms[f"{name}/gradient"] = norm
        return norms

    def _follow(self) -> None:
        """Let the targets follow: a little at every update, or all at once now and then."""
        self.updates += 1
        share = self.config.polyak
        if share == 0:
            # 1 or 0, by a counter on the device: the host need not know which update this is.
            share = (self.updates % self.config.target_period == 0).float()
        for target, online in zip(self._targets, self._online.values(), strict=True):
            target.lerp_(online, share)

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Every tensor that learning changes, by name."""
        parts = {
            "actor": self.actor,
            "critic": self.critic,
            "target_actor": self.target_actor,
            "target_critic": self.target_critic,
            "normaliser": self.normaliser,
        }
        for part, module in parts.items():
            if module is not None:
                yield from ((f"{part}.{name}", t) for name, t in module.state_dict().items())
        yield from ((f"optimizer.{name}", tensor) for name, tensor in self.optimizer.tensors())
        yield "updates", self.updates
