# SPDX-License-Identifier: Apache-2.0
"""Presets of the walker."""

PRESETS = {
    "fast": {
        "all": {
            # Larger rates, soft targets and a normalised first layer suit larger batches.
            "agent.actor_rate": 3e-4,
            "agent.critic_rate": 3e-4,
            "agent.polyak": 0.005,
            "agent.norm_first": True,
            "exploration.low": 0.05,
            "exploration.high": 0.4,
        },
        "learned": {
            # Fewer worlds than for an expert, so the replay, the source of D's unlabeled frames,
            # reaches further back.
            "worlds": 512,
            "env_steps": 5_000_000,
            "batch": 1024,
            "replay.capacity": 600_000,
            "replay.frame_stack": 2,  # one frame does not show which way it walks
            "reward.labels": "cached",
            "reward.refreshed": 8192,  # with 1024 a reward is up to 300,000 steps old
            "reward.network.view.crop": 1.0,
            "reward.network.view.flip": False,  # a mirror image walks backwards
            # A tenth of the held-out error of Table 3's settings.
            "reward.model.learning_rate": 1e-3,
            "reward.model.decay": True,
            "reward.model.batch_size": 128,
            "reward.model.epochs": 30,
            "save_replay": False,  # frames make checkpoints large
        },
        # results/log/ablation.md
        "imitation": {
            "reward.learning_rate": 3e-5,
            "reward.memory": 100_000,
            "reward.even": True,
        },
        "gated": {"reward.learning_rate": 3e-5, "reward.memory": 100_000},
        # Before a policy walks, none of its frames is a success: any fixed η is too high. Above
        # Table 2's 0.25 estimates are unsteady: demonstrations look like the agent's frames.
        "imitation pu": {"prior": "bbe:0.002:0.25"},
        "gated pu": {"prior": "0.5"},
    },
    # Table 4; what it leaves open is Acme's D4PG: one update to 8 steps, σ 0.3, a copy every 100.
    "paper": {
        "all": {
            "worlds": 16,
            "env_steps": 5_000_000,
            "warmup_steps": 10_000,
            "updates_per_step": 2,
            "batch": 256,
            "reward.updates": 2,  # Algorithm 1: one update of D to one of the policy
            "log_every": 10_000,
            "evaluate_every": 250_000,
            "checkpoint_every": 500_000,
            "snapshot_every": 250_000,
        },
        "learned": {"save_replay": False},
        "imitation pu": {"prior": "0.25"},
        "gated pu": {"prior": "0.5"},
    },
}
