# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false, reportIndexIssue=false
"""One update of D4PG on the fused kernels, for batches of one size."""

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pureward.agents.d4pg.adam import BETAS, EPSILON
from pureward.agents.d4pg.config import Batch, D4PGConfig
from pureward.agents.d4pg.normaliser import FARTHEST
from pureward.kernels.d4pg import teaching
from pureward.kernels.d4pg.distribution import judge
from pureward.kernels.d4pg.moving import move, prepare
from pureward.kernels.d4pg.passes import Passes
from pureward.kernels.d4pg.tiles import WIDEST, WIDEST_NORM, power_of_two, tile_of

if TYPE_CHECKING:
    from pureward.agents.d4pg.agent import D4PG

METRICS = ("critic/loss", "critic/value", "critic/target_at_top")

_ROWS = 16  # samples a program lays out
_BLOCK = 1024  # weights a program moves


def supports(config: D4PGConfig, state_size: int, action_size: int) -> bool:
    """Tell whether the kernels cover an agent's shape."""
    hidden = (config.actor_layers, config.critic_layers)
    if not all(hidden) or config.atoms > WIDEST or state_size + action_size > 2048:
        return False
    return not config.norm_first or max(layers[0] for layers in hidden) <= WIDEST_NORM


class FusedUpdate:
    """The kernels of an update and the memory through which they hand on their results."""

    def __init__(self, agent: "D4PG", batch: int, *, precision: str = "tf32") -> None:
        """Claim the memory.

        Args:
            agent: whose weights, targets and optimiser it moves.
            batch: samples of every batch.
            precision: of matrix products: "tf32", or "tf32x3" for nearly float32.
        """
        self.agent = agent
        self.batch = batch
        self.precision = precision
        self.shares = teaching.shares_of(batch)
        # The online networks' weights, then as many of the targets.
        self._size = agent.weights.values.numel() // 2
        shared = {"to_target": self._size, "precision": precision}
        self._actor = Passes(agent.actor.body, batch, parts=2, **shared)
        self._critic = Passes(agent.critic.body, batch, parts=3, **shared)
        self._judging = tile_of("judge", batch, *agent.critic.body.weights[-1].shape)
        self._inputs, self._memory = self._claim()
        own = self._inputs[batch : 2 * batch, : agent.state_size]
        lessons = [*self._actor.lessons(own), *self._critic.lessons(self._inputs[:batch])]
        self._table = teaching.timetable(lessons, tile_of("teach", batch), agent.device)
        self.gradients = torch.zeros(self.shares, self._size, device=agent.device)
        programs = -(-batch // self._judging.rows)
        self._partial = torch.zeros(len(METRICS), programs, device=agent.device)

    def find_gradients(self, batch: Batch) -> None:
        """Leave in `gradients`, one row a share of the batch, what both networks learn from it."""
        agent, inputs = self.agent, self._inputs
        self._prepare(batch)
        actions = inputs[self.batch :, agent.state_size :]
        self._actor.forward(inputs[self.batch :, : agent.state_size], actions)
        self._critic.forward(inputs)
        self._judge(batch)
        self._critic.backward()
        by_action = self._actor.gradients[-1]
        self._critic.input_gradient(slice(agent.state_size, None), actions, by_action)
        self._actor.backward()
        tile = tile_of("teach", self.batch)
        teaching.teach[(len(self._table), self.shares)](
            self._memory, self._table, self.gradients, self.gradients.stride(0),
            PRECISION=self.precision, SHARES=self.shares,
            STEPS=-(-self.batch // (self.shares * tile.rows)), UNIT=teaching.UNIT,
            TILE_IN=tile.depth, TILE_OUT=tile.columns, TILE_ROWS=tile.rows,
            num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip

    def move(self, gradients: Tensor) -> dict[str, Tensor]:
        """Move weights and targets by gradients, summed over their rows; returns metrics."""
        agent, config = self.agent, self.agent.config
        size = self._size
        metrics = torch.empty(len(METRICS), device=agent.device)
        move[(-(-size // _BLOCK),)](
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

    def _claim(self) -> tuple[Tensor, Tensor]:
        """Inputs of the critic's three parts, and the buffer they share with all else."""
        agent = self.agent
        shapes = {"inputs": (3 * self.batch, agent.state_size + agent.action_size)}
        passes = {"actor": self._actor, "critic": self._critic}
        for name, one in passes.items():
            shapes |= {f"{name}.{key}": shape for key, shape in one.shapes().items()}
        held, memory = teaching.side_by_side(shapes, agent.device)
        for name, one in passes.items():
            one.claim({key.removeprefix(f"{name}."): matrix for key, matrix in held.items()})
        return held["inputs"], memory

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

    def _judge(self, batch: Batch) -> None:
        hidden, gradient = self._critic.hidden[-1], self._critic.gradients[-1]
        weight, bias = self._critic.layers[-1]
        support, tile = self.agent.support, self._judging
        judge[(self._partial.shape[1],)](
            hidden, hidden.stride(0), weight, bias, self._size,
            batch.reward.contiguous(), batch.discount.contiguous(), gradient, gradient.stride(0),
            self._partial, self.batch, support.low, support.gap,
            IN=weight.shape[0], ATOMS=weight.shape[1], PRECISION=self.precision,
            ROWS=tile.rows, WIDTH=tile.columns, DEPTH=tile.depth,
            num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip
