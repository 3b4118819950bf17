# SPDX-License-Identifier: Apache-2.0
"""Presets of environments without a table of their own: a CPU, thousands of frames, minutes."""

from pureward.training.presets import walker

PRESETS = {
    "fast": {
        "all": {
            "worlds": 8,
            "env_steps": 50_000,
            "warmup_steps": 2_000,
            "updates_per_step": 8,
            "batch": 256,
            "replay.capacity": 50_000,
            "agent.norm_first": True,
            "agent.normalise": True,  # a state may have any units
            "agent.actor_rate": 1e-3,
            "agent.critic_rate": 1e-3,
            "agent.polyak": 0.02,
            # Symmetric, so the critic starts at 0 and does not prefer actions it has not seen.
            "agent.value_low": -100.0,
            "agent.value_high": 100.0,
            "agent.atoms": 101,
            "exploration.low": 0.05,
            "exploration.high": 0.8,
            "exploration.correlation": 0.8,
            "log_every": 1_000,
            "evaluate_every": 5_000,
            "evaluate_episodes": 10,
            "checkpoint_every": 5_000,
            "snapshot_every": 2_500,
        },
        "learned": {
            "replay.frame_stack": 2,  # one frame does not show how it moves
            "reward.network.stage_channels": (8, 16, 32),
            "reward.network.stage_blocks": 0,
            "reward.network.view.crop": 1.0,
            "reward.network.view.flip": False,  # a mirror image may be another behaviour
            "reward.batch": 32,
            "reward.learning_rate": 1e-3,
            "reward.memory": 20_000,
            "reward.labels": "cached",
            "reward.refreshed": 64,
            "reward.model.learning_rate": 1e-3,
            "reward.model.batch_size": 64,
            "reward.model.epochs": 10,
            "probe_every": 5_000,
            "probe_frames": 128,
            "save_replay": False,
        },
        "imitation": {"reward.even": True},
        "imitation pu": {"prior": "bbe:0.002:0.8"},
        "gated pu": {"prior": "0.7"},
    },
    "paper": {
        "all": walker.PRESETS["paper"]["all"],
        "learned": {"save_replay": False},
        "pu": {"prior": "0.5"},
    },
}
