# SPDX-License-Identifier: Apache-2.0
"""Presets of `lift`."""

PRESETS = {
    "fast": {
        "all": {
            "worlds": 2048,
            "agent.actor_rate": 3e-4,
            "agent.critic_rate": 3e-4,
            "agent.norm_first": True,
            "agent.polyak": 0.005,
            "agent.normalise": True,  # the state has many units
            "exploration.low": 0.05,
            "exploration.high": 0.4,
            "exploration.correlation": 0.8,  # actions are velocities
            "save_replay": False,
        },
        "truth": {
            "updates_per_step": 8,
            "env_steps": 20_000_000,
            "warmup_steps": 100_000,
            "guided": 0.125,  # with 0 it lifts in one episode of ten after six million steps
            "replay.capacity": 2_000_000,
            "log_every": 500_000,
            "evaluate_every": 2_000_000,
            "evaluate_episodes": 200,
            "checkpoint_every": 4_000_000,
        },
        "learned": {
            "updates_per_step": 12,
            "env_steps": 8_000_000,
            "batch": 1024,
            "guided": 0.25,  # without it not even the true reward is learned
            "replay.capacity": 600_000,  # 15 GB of frames
            "reward.updates": 8,
            "reward.labels": "cached",
            "reward.network.view.crop": 1.0,
            # Table 3's 1e-4 had not fitted 20,000 frames after twenty passes
            # (results/log/arm.md).
            "reward.model.learning_rate": 1e-3,
            "reward.model.decay": True,
            "reward.model.batch_size": 128,
            "reward.model.epochs": 30,
            "evaluate_every": 400_000,
        },
        # Values are symmetric, so the critic starts at 0. results/log/ablation.md
        "imitation": {
            "agent.value_low": -300.0,
            "agent.value_high": 300.0,
            "agent.atoms": 201,
            "reward.ceiling": 3.0,  # at 1, half of the rewards are at the ceiling
            "reward.batch": 128,
            "reward.refreshed": 6144,
            "reward.memory": 100_000,
            "reward.even": True,
        },
        "regression": {
            "agent.value_low": -100.0,
            "agent.atoms": 101,
            "reward.refreshed": 4096,
        },
        "gated": {
            "agent.value_low": -100.0,
            "agent.atoms": 101,
            "reward.refreshed": 4096,
            "reward.memory": 100_000,
        },
        "imitation pu": {"prior": "bbe:0.002:0.5"},  # at most Table 2's
        "gated pu": {"prior": "0.7"},  # Table 2 has 0.5: results/log/ablation.md
    },
    "paper": {
        "all": {
            "worlds": 128,
            "env_steps": 20_000_000,
            "warmup_steps": 10_000,
            "updates_per_step": 16,
            "batch": 256,
            "reward.updates": 16,  # Algorithm 1: one update of D to one of the policy
            "log_every": 10_000,
            "evaluate_every": 250_000,
            "checkpoint_every": 500_000,
            "snapshot_every": 250_000,
        },
        "learned": {"save_replay": False},
        "pu": {"prior": "0.5"},
    },
}
