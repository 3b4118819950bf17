# SPDX-License-Identifier: Apache-2.0
"""Greedy evaluation: whole episodes on worlds of their own, from a seed of their own."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from pureward.env import BatchEnv
from pureward.picture import first_camera, mosaic, video

# A task counts as solved in an episode when it stays solved for this many steps.
HOLD = 10


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What a policy achieved, episode by episode."""

    returns: Tensor
    """Sum of the task's own reward, (episodes,)."""
    solved: Tensor
    """Whether the task stayed solved for `HOLD` steps, (episodes,)."""

    def summary(self) -> dict[str, float]:
        """Mean return with the half-width of its 95% interval, spread, and share solved."""
        returns = self.returns.double()
        spread = float(returns.std()) if len(returns) > 1 else 0.0
        return {
            "return": float(returns.mean()),
            "return_ci95": 1.96 * spread / math.sqrt(len(returns)),
            "return_min": float(returns.min()),
            "return_max": float(returns.max()),
            "success": float(self.solved.double().mean()),
            "episodes": len(returns),
        }


@torch.no_grad()
def evaluate(
    env: BatchEnv, policy: Callable[[Tensor], Tensor], *, seed: int, rounds: int = 1
) -> Evaluation:
    """Run `rounds` episodes in every world of the environment."""
    env.seed(seed)
    returns, solved = [], []
    for _ in range(rounds):
        obs = env.reset()
        total = torch.zeros(env.worlds, device=env.device)
        held = torch.zeros(env.worlds, dtype=torch.int32, device=env.device)
        longest = torch.zeros_like(held)
        for _ in range(env.horizon):
            step = env.step(policy(obs.state))
            obs = step.obs
            total += step.reward
            held = (held + 1) * step.success
            longest = torch.maximum(longest, held)
        returns.append(total)
        solved.append(longest >= HOLD)
    return Evaluation(returns=torch.cat(returns), solved=torch.cat(solved))


@torch.no_grad()
def film(env: BatchEnv, policy: Callable[[Tensor], Tensor], path: Path, *, seed: int) -> None:
    """Write a video of one episode of every world of an environment with cameras."""
    env.seed(seed)
    obs = env.reset()
    with video(path, 1.0 / env.task.control_step(env.engine.model)) as write:
        for _ in range(env.horizon):
            assert obs.frames is not None, "the environment needs cameras"
            write(mosaic(first_camera(obs.frames)))
            obs = env.step(policy(obs.state)).obs
