# SPDX-License-Identifier: Apache-2.0
"""Greedy evaluation over whole episodes, in separate worlds."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path

import torch
from torch import Tensor

from pureward.data.frames import RollingStack
from pureward.envs import BatchEnv
from pureward.errors import InputError
from pureward.interval import half_width
from pureward.picture import first_camera, mosaic, video
from pureward.runs.policy import load_policy
from pureward.types import Observation, Policy, find_device

# An episode is solved if the task stays solved for this many steps, or for `Task.hold` if larger,
# or if it terminates in success.
HOLD = 10


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Results of a policy per episode."""

    returns: Tensor
    """Sum of the task's own reward, float32 (episodes,)."""
    solved: Tensor
    """Whether the task stayed solved for `HOLD` steps or ended so, bool (episodes,)."""
    steps: Tensor
    """Length, float32 (episodes,)."""
    learned: Tensor | None = None
    """Sum of the learned reward, float32 (episodes,), or None."""

    def summary(self) -> dict[str, float]:
        """Return the mean return with its 95% half-width, lowest, highest, and the share solved."""
        returns = self.returns.double()
        half = float(half_width(returns.cpu().numpy())) if len(returns) > 1 else 0.0
        learned = {} if self.learned is None else {"learned_return": float(self.learned.mean())}
        return learned | {
            "return": float(returns.mean()),
            "return_ci95": half,
            "return_min": float(returns.min()),
            "return_max": float(returns.max()),
            "success": float(self.solved.double().mean()),
            "episodes": len(returns),
        }

    def reward_error(self, zero: float = 0.0) -> dict[str, float]:
        """Return the mean of learned minus true return, and of its absolute value (Figure 5a).

        Args:
            zero: `LearnedReward.zero`, the value that a learned reward of 0 stands for.
        """
        assert self.learned is not None, "the evaluation had no learned reward"
        error = (self.learned + self.steps * zero - self.returns).double()
        return {
            "reward_error": float(error.mean()),
            "reward_error_abs": float(error.abs().mean()),
        }


def evaluate_run(
    run: str | Path,
    *,
    episodes: int = 100,
    distractors: str = "",
    device: str = "auto",
    seed: int = 0,
) -> dict[str, float]:
    """Evaluate the policy of a run greedily over whole episodes.

    Args:
        run: the run directory.
        episodes: number of episodes, simulated in parallel.
        distractors: shape of the other blocks, "cube" or "cuboid"; "" for the run's.
        device: "auto" (CUDA if available), "cpu" or "cuda".
        seed: of the first states.

    Returns:
        "return" with its 95% half-width "return_ci95", "return_min", "return_max", the share
        solved as "success", "episodes", and "env_steps" of the policy.
    """
    if not isinstance(episodes, Integral) or episodes < 1:
        raise InputError(f"episodes must be a whole number from 1, got {episodes!r}; try 100")
    place = str(find_device(device))
    policy = load_policy(run, device=place)
    other = {"distractors": distractors} if distractors else {}
    with policy.config.make_env(episodes, place, **other) as env:
        found = evaluate(env, policy.act, seed=seed)
    return found.summary() | {"env_steps": policy.env_steps}


@torch.no_grad()
def evaluate(
    env: BatchEnv,
    policy: Policy,
    *,
    seed: int,
    reward: Callable[[Tensor], Tensor] | None = None,
    frame_stack: int = 1,
) -> Evaluation:
    """Run one episode in every world of an environment.

    Args:
        env: not staggered.
        policy: states to actions.
        seed: of the first states.
        reward: a learned reward to sum as well, from frames (worlds, channels, height, width)
            to (worlds,); the environment then needs cameras.
        frame_stack: consecutive frames that the reward sees.
    """
    assert not env.stagger, "staggered worlds end their first episodes early"
    env.seed(seed)
    stack = RollingStack(frame_stack)
    obs = env.reset()
    if reward is not None:
        stack.begin(_frames(obs))
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
            learned += reward(stack.push(_frames(step.final_obs))) * going
        held = (held + 1) * (step.success & (going > 0))
        held.masked_fill_(step.terminated & (held > 0), HOLD)  # the end cannot be held for longer
        longest = torch.maximum(longest, held)
        going *= ~(step.terminated | step.truncated)
        if env.device.type == "cpu" and not going.any():  # on CUDA this would wait for the device
            break
    needed = max(0, HOLD - env.hold) + 1  # the first success comes after `hold` steps
    return Evaluation(
        returns=returns,
        solved=longest >= needed,
        steps=lengths,
        learned=None if reward is None else learned,
    )


def _frames(obs: Observation) -> Tensor:
    assert obs.frames is not None, "the environment needs cameras"
    return obs.frames


@torch.no_grad()
def film(env: BatchEnv, policy: Policy, path: Path, *, seed: int) -> None:
    """Write a video of one episode in every world of an environment with cameras.

    Args:
        env: with cameras.
        policy: states to actions.
        path: MP4 file.
        seed: of the first states.
    """
    env.seed(seed)
    obs = env.reset()
    with video(path, 1.0 / env.control_step) as write:
        for _ in range(env.horizon):
            write(mosaic(first_camera(_frames(obs))))
            obs = env.step(policy(obs.state)).obs
