# SPDX-License-Identifier: Apache-2.0
"""Learners for `d4pg.py`, with replays full of made-up steps of the walker's sizes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from pureward.agents.d4pg.agent import D4PG, Arithmetic, Batch, D4PGConfig
from pureward.data.replay.replay import Replay, ReplayConfig
from pureward.types import Observation, Step

STATE, ACTION = 24, 6
WORLDS = 1000


def filled_replay(device: torch.device, steps: int = 100_000) -> Replay:
    replay = Replay(
        ReplayConfig(capacity=steps),
        worlds=WORLDS,
        horizon=1000,
        state_size=STATE,
        action_size=ACTION,
        device=device,
    )
    rng = torch.Generator(device).manual_seed(0)
    never = torch.zeros(WORLDS, dtype=torch.bool, device=device)
    for _ in range(steps // WORLDS):
        obs = Observation(
            state=torch.randn(WORLDS, STATE, generator=rng, device=device), frames=None
        )
        step = Step(
            obs=obs,
            reward=torch.rand(WORLDS, generator=rng, device=device),
            terminated=never,
            truncated=never,
            success=never,
            final_obs=obs,
        )
        replay.add(obs, torch.rand(WORLDS, ACTION, generator=rng, device=device), step)
    return replay


def d4pg(device: torch.device, arithmetic: Arithmetic = "auto", **changes: Any) -> D4PG:
    config = D4PGConfig(**changes)
    sizes = {"state_size": STATE, "action_size": ACTION}
    return D4PG(config, **sizes, device=device, arithmetic=arithmetic)


def drawn(replay: Replay, batch: int, rng: torch.Generator) -> Batch:
    windows = replay.sample(batch, rng)
    return Batch(
        state=windows.state,
        action=windows.action,
        reward=windows.n_step_return(windows.task_reward),
        discount=windows.discount,
        next_state=windows.next_state,
    )


def td3(batch: int) -> Callable[[int], None]:
    """Stable-Baselines3's `train()`, its replay full of as many steps."""
    import gymnasium
    from stable_baselines3 import TD3  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.logger import Logger  # pyright: ignore[reportMissingImports]

    class Nothing(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (STATE,), np.float32)
        action_space = gymnasium.spaces.Box(-1, 1, (ACTION,), np.float32)

    layers = {"pi": [300, 200], "qf": [400, 300]}
    learner = TD3(
        "MlpPolicy",
        Nothing(),
        learning_rate=1e-4,
        batch_size=batch,
        buffer_size=100_000,
        policy_kwargs={"net_arch": layers},
        device="cpu",
        seed=0,
    )
    learner.set_logger(Logger(None, []))
    rng = np.random.default_rng(0)
    buffer: Any = learner.replay_buffer
    for table in (buffer.observations, buffer.next_observations, buffer.actions, buffer.rewards):
        table[:] = rng.uniform(-1, 1, table.shape)
    buffer.full = True
    return lambda updates: learner.train(updates, batch)
