# SPDX-License-Identifier: Apache-2.0
"""Positive-Unlabeled Reward Learning: rewards that stay alive and stay honest."""

from importlib import import_module
from typing import Any

from pureward.gym import register

__version__ = "0.1.0"

# Public names and where they live. They are imported on first use, so that `import pureward`
# costs next to nothing and starts neither torch nor a simulator.
_PUBLIC = {
    "METHODS": "pureward.rewards.methods",
    "TASKS": "pureward.envs.tasks",
    "BatchEnv": "pureward.envs",
    "read_dataset": "pureward.data.dataset",
    "load_reward": "pureward.rewards.saved",
    "make": "pureward.envs",
    "make_vec": "pureward.envs.vector",
    "RunConfig": "pureward.runs.config",
    "preset": "pureward.training.presets",
    "train": "pureward.training.loop",
    "InputError": "pureward.errors",
    "SimulationError": "pureward.errors",
    "TrainingError": "pureward.errors",
}

__all__ = [*sorted(_PUBLIC), "__version__", "risk"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name == "risk":
        return import_module("pureward.rewards.risks.pu")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'pureward' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return __all__


register()
