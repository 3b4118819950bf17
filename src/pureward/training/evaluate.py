# SPDX-License-Identifier: Apache-2.0
"""Greedy evaluation: whole episodes on worlds of their own, from a seed of their own."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from pureward.data.frames import RollingStack
from pureward.envs import BatchEnv, find_device, make
from pureward.errors import InputError
from pureward.interval import half_width
from pureward.picture import first_camera, mosaic, video
from pureward.runs.policy import load_policy
from pureward.types import Observation, Policy

# A task counts as solved in an episode when it stays solved for this many steps, or for as many as
# the task itself asks before it speaks of success.
HOLD = 10


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What a policy achieved, episode by episode."""

    returns: Tensor
    """Sum of the task's own reward, (episodes,)."""
    solved: Tensor
    """Whether the task stayed solved for `HOLD` steps, (episodes,)."""
    steps: Tensor
    """Of every episode, (episodes,)."""
    learned: Tensor | None = None
    """Sum of the learned reward, (episodes,), where one was asked."""

    def summary(self) -> dict[str, float]:
        """Mean return with the half-width of its 95% interval, spread, and share solved."""
        returns = self.returns.double()
        half = float(half_width(returns.cpu().numpy())) if len(returns) > 1 else 0.0
        told = {} if self.learned is None else {"learned_return": float(self.learned.mean())}
        return told | {
            "return": float(returns.mean()),
            "return_ci95": half,
            "return_min": float(returns.min()),
            "return_max": float(returns.max()),
            "success": float(self.solved.double().mean()),
            "episodes": len(returns),
        }

    def reward_error(self, zero: float = 0.0) -> dict[str, float]:
        """Predicted minus true return: above 0 the reward is deluded, below it is starved.

        Args:
            zero: `LearnedReward.zero`, which the learned reward counts from.
        """
        assert self.learned is not None, "no learned reward was asked"
        error = (self.learned + self.steps * zero - self.returns).double()
        return {
            "reward_error": float(error.mean()),
            "reward_error_abs": float(error.abs().mean()),
        }


def evaluate_run(
    run: Path,
    *,
    episodes: int = 100,
    distractors: str = "",
    device: str = "auto",
    seed: int = 0,
) -> dict[str, float]:
    """Evaluate the policy of a run greedily over whole episodes.

    Args:
        run: the run directory.
        episodes: how many episodes, all at once.
        distractors: shape of the objects beside the task's, "cube" or "cuboid"; "" for the run's.
        device: "auto" (CUDA where there is one), "cpu" or "cuda".
        seed: of the episodes' first states.

    Returns:
        "return" with its 95% half-width "return_ci95", "return_min", "return_max", the share
        solved as "success", "episodes", and "env_steps" at which the policy was kept.
    """
    if episodes < 1:
        raise InputError(f"episodes must be at least 1, got {episodes}; try 100")
    place = str(find_device(device))
    policy = load_policy(Path(run), device=place)
    shapes = distractors or policy.config.distractors or None
    env = make(policy.config.task, episodes, place, distractors=shapes)
    return evaluate(env, policy.act, seed=seed).summary() | {"env_steps": policy.env_steps}


@torch.no_grad()
def evaluate(
    env: BatchEnv,
    policy: Policy,
    *,
    seed: int,
    reward: Callable[[Tensor], Tensor] | None = None,
    frame_stack: int = 1,
) -> Evaluation:
    """Run an episode in every world of the environment.

    Args:
        env: all its worlds begin together.
        policy: states to actions.
        seed: of the first states.
        reward: a learned reward to sum up beside the task's own; the environment then needs
            cameras.
        frame_stack: consecutive frames that the reward sees at once.
    """
    assert not env.stagger, "staggered worlds end their first episodes early"
    env.seed(seed)
    stack = RollingStack(frame_stack)
    obs = env.reset()
    if reward is not None:
        stack.begin(_seen(obs))
    returns = torch.zeros(env.worlds, device=env.device)
    lengths, going = torch.zeros_like(returns), torch.ones_like(returns)
    learned = torch.zeros_like(returns)
    held = torch.zeros(env.worlds, dtype=torch.int32, device=env.device)
    longest = torch.zeros_like(held)
    for _ in range(env.horizon):
        step = env.step(policy(obs.state))
        obs = step.obs
        returns += step.reward * going
        lengths += going
        if reward is not None:
            learned += reward(stack.push(_seen(step.final_obs))) * going
        held = (held + 1) * (step.success & (going > 0))
        longest = torch.maximum(longest, held)
        going *= ~(step.terminated | step.truncated)
    asked = max(0, HOLD - env.hold) + 1  # the first success comes after `hold` steps
    return Evaluation(
        returns=returns,
        solved=longest >= asked,
        steps=lengths,
        learned=None if reward is None else learned,
    )


def _seen(obs: Observation) -> Tensor:
    assert obs.frames is not None, "the environment needs cameras"
    return obs.frames


@torch.no_grad()
def film(env: BatchEnv, policy: Policy, path: Path, *, seed: int) -> None:
    """Write a video of one episode of every world of an environment with cameras."""
    env.seed(seed)
    obs = env.reset()
    with video(path, 1.0 / env.control_step) as write:
        for _ in range(env.horizon):
            write(mosaic(first_camera(_seen(obs))))
            obs = env.step(policy(obs.state)).obs
