# SPDX-License-Identifier: Apache-2.0
"""Presets of `reach`: on a laptop, the expert takes seconds and a learned reward a minute."""

PRESETS = {
    "fast": {
        "all": {
            "warmup_steps": 1_600,
            "agent.norm_first": True,
            "agent.actor_rate": 1e-3,
            "agent.critic_rate": 1e-3,
            "agent.polyak": 0.02,
            "exploration.low": 0.05,
            "exploration.high": 0.8,
            "exploration.correlation": 0.8,
        },
        "truth": {
            "worlds": 16,
            "env_steps": 24_000,
            "updates_per_step": 1,
            "batch": 256,
            "replay.capacity": 100_000,
            "agent.value_low": -100.0,  # symmetric, so the critic starts at 0
            "log_every": 1_600,
            "evaluate_every": 4_000,
            "evaluate_episodes": 50,
            "checkpoint_every": 4_000,
            "snapshot_every": 2_000,
        },
        "learned": {
            # Drawing frames costs the most: with fewer worlds, the same frames make more control
            # steps and so more updates.
            "worlds": 8,
            "env_steps": 4_800,
            "batch": 128,
            "replay.capacity": 20_000,
            "replay.discount": 0.95,
            # ±1 / (1 − γ): the critic starts at 0 and does not prefer actions it has not seen.
            "agent.value_low": -20.0,
            "agent.value_high": 20.0,
            # A core trains Table 3's network on 80 images a second, this one on 320.
            "reward.network.stage_channels": (8, 16, 32),
            "reward.network.stage_blocks": 0,
            "reward.network.view.crop": 1.0,
            "reward.batch": 16,
            "reward.learning_rate": 3e-3,
            "reward.labels": "cached",
            "reward.refreshed": 32,
            "reward.model.learning_rate": 3e-3,
            "reward.model.batch_size": 32,
            "reward.model.epochs": 5,
            "log_every": 300,
            "evaluate_every": 1_200,
            "evaluate_episodes": 20,
            "probe_every": 1_200,
            "probe_frames": 64,
            "checkpoint_every": 2_400,
            "snapshot_every": 600,
            "save_replay": False,
        },
        "imitation": {"reward.even": True},
        "imitation pu": {"prior": "bbe:0.002:0.8"},
        "gated pu": {"prior": "0.7"},
    },
    "paper": {
        "all": {
            "worlds": 16,
            "env_steps": 200_000,
            "warmup_steps": 10_000,
            "updates_per_step": 2,
            "batch": 256,
            "reward.updates": 2,
            "log_every": 4_000,
            "evaluate_every": 20_000,
            "checkpoint_every": 500_000,
            "snapshot_every": 250_000,
        },
        "learned": {"save_replay": False},
        "pu": {"prior": "0.5"},  # not a task of the paper
    },
}
