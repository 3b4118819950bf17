# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false, reportIndexIssue=false
"""A D4PG update on the fused kernels, for batches of one size."""

import math

import torch
from torch import Tensor

from pureward.adam import BETAS, EPSILON
from pureward.agents.agent import Batch
from pureward.agents.d4pg.config import D4PGConfig
from pureward.agents.d4pg.normaliser import FARTHEST
from pureward.agents.d4pg.plain import PlainD4PG
from pureward.kernels.d4pg import weight_gradient
from pureward.kernels.d4pg.adam_step import adam_step, prepare
from pureward.kernels.d4pg.distribution import critic_loss
from pureward.kernels.d4pg.passes import Passes
from pureward.kernels.d4pg.tiles import WIDEST, WIDEST_NORM, power_of_two, tile_of

METRICS = ("critic/loss", "critic/value", "critic/target_at_top")

_ROWS = 16  # samples per program of `prepare`
_BLOCK = 1024  # weights per program of `adam_step`


def supports(config: D4PGConfig, state_size: int, action_size: int) -> bool:
    """Return whether the kernels support an agent's shape."""
    hidden = (config.actor_layers, config.critic_layers)
    if not all(hidden) or config.atoms > WIDEST or state_size + action_size > 2048:
        return False
    return not config.norm_first or max(layers[0] for layers in hidden) <= WIDEST_NORM


class FusedUpdate:
    """The kernels of an update and their buffers."""

    def __init__(self, agent: PlainD4PG, batch: int, *, precision: str = "tf32") -> None:
        """Allocate the buffers.

        Args:
            agent: whose weights, targets and optimiser state it updates.
            batch: samples per batch.
            precision: of matrix products: "tf32", or "tf32x3" for nearly float32.
        """
        self.agent = agent
        self.batch = batch
        self.precision = precision
        self.shares = weight_gradient.shares_of(batch)
        # Weights of the online networks; as many of the targets follow.
        self._size = agent.weights.values.numel() // 2
        shared = {"to_target": self._size, "precision": precision}
        self._actor = Passes(agent.actor.body, batch, parts=2, **shared)
        self._critic = Passes(agent.critic.body, batch, parts=3, **shared)
        self._loss_tile = tile_of("critic-loss", batch, *agent.critic.body.weights[-1].shape)
        self._inputs, self._memory = self._allocate()
        own = self._inputs[batch : 2 * batch, : agent.state_size]
        layers = [*self._actor.layer_data(own), *self._critic.layer_data(self._inputs[:batch])]
        tile = tile_of("weight-gradient", batch)
        self._table = weight_gradient.tile_table(layers, tile, agent.device)
        self.gradients = torch.zeros(self.shares, self._size, device=agent.device)
        programs = -(-batch // self._loss_tile.rows)
        self._partial = torch.zeros(len(METRICS), programs, device=agent.device)

    def find_gradients(self, batch: Batch) -> None:
        """Write the gradients of both networks to `gradients`, one row per share of the batch."""
        agent, inputs = self.agent, self._inputs
        self._prepare(batch)
        actions = inputs[self.batch :, agent.state_size :]
        self._actor.forward(inputs[self.batch :, : agent.state_size], actions)
        self._critic.forward(inputs)
        self._critic_loss(batch)
        self._critic.backward()
        by_action = self._actor.gradients[-1]
        self._critic.input_gradient(slice(agent.state_size, None), actions, by_action)
        self._actor.backward()
        tile = tile_of("weight-gradient", self.batch)
        weight_gradient.weight_gradient[(len(self._table), self.shares)](
            self._memory, self._table, self.gradients, self.gradients.stride(0),
            PRECISION=self.precision, SHARES=self.shares,
            STEPS=-(-self.batch // (self.shares * tile.rows)), UNIT=weight_gradient.UNIT,
            TILE_IN=tile.depth, TILE_OUT=tile.columns, TILE_ROWS=tile.rows,
            num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip

    def move(self, gradients: Tensor) -> dict[str, Tensor]:
        """Update weights and targets by gradients, summed over their rows; return the metrics."""
        agent, config = self.agent, self.agent.config
        size = self._size
        metrics = torch.empty(len(METRICS), device=agent.device)
        adam_step[(-(-size // _BLOCK),)](
            agent.weights.values, size, gradients, gradients.stride(0),
            agent.optimizer.first, agent.optimizer.second, agent.optimizer.steps, agent.updates,
            self._partial, metrics, size, agent.weights.parts[0].numel(),
            config.actor_rate, config.critic_rate,
            BETA_1=BETAS[0], BETA_2=BETAS[1], LOG_BETA_1=math.log(BETAS[0]),
            LOG_BETA_2=math.log(BETAS[1]), EPSILON=EPSILON, POLYAK=config.polyak,
            PERIOD=config.target_period, SHARES=len(gradients), METRICS=len(METRICS),
            COUNT=self._partial.shape[1], BLOCK=_BLOCK,
        )  # fmt: skip
        return dict(zip(METRICS, metrics.unbind(), strict=True))

    def _allocate(self) -> tuple[Tensor, Tensor]:
        """The inputs of the critic's three parts, and the buffer of all matrices."""
        agent = self.agent
        shapes = {"inputs": (3 * self.batch, agent.state_size + agent.action_size)}
        passes = {"actor": self._actor, "critic": self._critic}
        for name, one in passes.items():
            shapes |= {f"{name}.{key}": shape for key, shape in one.shapes().items()}
        matrices, memory = weight_gradient.allocate(shapes, agent.device)
        for name, one in passes.items():
            one.use({key.removeprefix(f"{name}."): matrix for key, matrix in matrices.items()})
        return matrices["inputs"], memory

    def _prepare(self, batch: Batch) -> None:
        agent, normaliser = self.agent, self.agent.normaliser
        prepare[(-(-self.batch // _ROWS),)](
            batch.state.contiguous(), batch.action.contiguous(), batch.next_state.contiguous(),
            normaliser and normaliser.shift, normaliser and normaliser.scale,
            self._inputs, self._inputs.stride(0), agent.updates, agent.optimizer.steps, self.batch,
            STATE=agent.state_size, ACTION=agent.action_size, NORMALISE=normaliser is not None,
            FARTHEST=FARTHEST, STATE_WIDTH=power_of_two(agent.state_size),
            ACTION_WIDTH=power_of_two(agent.action_size), ROWS=_ROWS,
        )  # fmt: skip

    def _critic_loss(self, batch: Batch) -> None:
        hidden, gradient = self._critic.hidden[-1], self._critic.gradients[-1]
        weight, bias = self._critic.layers[-1]
        support, tile = self.agent.support, self._loss_tile
        critic_loss[(self._partial.shape[1],)](
            hidden, hidden.stride(0), weight, bias, self._size,
            batch.reward.contiguous(), batch.discount.contiguous(), gradient, gradient.stride(0),
            self._partial, self.batch, support.low, support.gap,
            IN=weight.shape[0], ATOMS=weight.shape[1], PRECISION=self.precision,
            ROWS=tile.rows, WIDTH=tile.columns, DEPTH=tile.depth,
            num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip
