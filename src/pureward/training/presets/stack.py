# SPDX-License-Identifier: Apache-2.0
"""Presets of `stack`: lift's, with other exploration (results/log/ablation.md)."""

from pureward.training.presets import lift

_LIFT = lift.PRESETS["fast"]

PRESETS = {
    "fast": {
        "all": {**_LIFT["all"], "exploration.low": 0.0, "exploration.high": 0.2},
        "truth": {**_LIFT["truth"], "guided": 0.25},  # random actions never stack two blocks
        "learned": {
            **_LIFT["learned"],
            "env_steps": 20_000_000,
            "guided": 0.5,  # without it not even the true reward is learned
            "evaluate_every": 1_000_000,
        },
        "imitation": _LIFT["imitation"],
        "regression": _LIFT["regression"],
        "gated": _LIFT["gated"],
        "imitation pu": {"prior": "bbe:0.002:0.8"},
        "gated pu": {"prior": "0.7"},
    },
    "paper": {
        "all": lift.PRESETS["paper"]["all"],
        "learned": {"save_replay": False},
        "pu": {"prior": "0.7"},
        "nn-purl": {"reward.slack": 0.7},  # Table 2
    },
}
