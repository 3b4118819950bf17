# SPDX-License-Identifier: Apache-2.0
"""Positive-Unlabeled Reward Learning: rewards that stay alive and stay honest."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pureward.errors import missing_extra
from pureward.interrupt import end_imports_at_interrupt

if TYPE_CHECKING:
    from pureward.agents import AGENTS as AGENTS
    from pureward.data.dataset import read_dataset as read_dataset
    from pureward.data.dataset import read_episodes as read_episodes
    from pureward.data.readers import READERS as READERS
    from pureward.data.writers.own import import_episodes as import_episodes
    from pureward.diagnostics.evidence import probe as probe
    from pureward.distributed import EXECUTORS as EXECUTORS
    from pureward.envs import ENVIRONMENTS as ENVIRONMENTS
    from pureward.envs import BatchEnv as BatchEnv
    from pureward.envs import make as make
    from pureward.envs.tasks import TASKS as TASKS
    from pureward.envs.vector import make_vec as make_vec
    from pureward.errors import InputError as InputError
    from pureward.errors import SimulationError as SimulationError
    from pureward.errors import TrainingError as TrainingError
    from pureward.offline.check import check as check
    from pureward.offline.fit import fit as fit
    from pureward.online.online_reward import OnlineReward as OnlineReward
    from pureward.rewards.config import RewardConfig as RewardConfig
    from pureward.rewards.discriminator import Discriminator as Discriminator
    from pureward.rewards.learned import LearnedReward as LearnedReward
    from pureward.rewards.methods import METHODS as METHODS
    from pureward.rewards.network import NETWORKS as NETWORKS
    from pureward.rewards.network import NetworkConfig as NetworkConfig
    from pureward.rewards.priors import PRIORS as PRIORS
    from pureward.rewards.regression import RewardModel as RewardModel
    from pureward.rewards.risks import RISKS as RISKS
    from pureward.rewards.risks import pu as risk
    from pureward.rewards.saved import load_reward as load_reward
    from pureward.rewards.saved import save_reward as save_reward
    from pureward.rewards.view import View as View
    from pureward.runs.collect import collect as collect
    from pureward.runs.config import RunConfig as RunConfig
    from pureward.runs.policy import load_policy as load_policy
    from pureward.scoring.score import score as score
    from pureward.training.evaluate import evaluate_run as evaluate
    from pureward.training.loop import train as train
    from pureward.training.presets import preset as preset

__version__ = "0.2.0"

# Public names: the module of each, and its name there. They are imported on first use, so that
# `import pureward` is fast and needs neither torch nor a simulator. Type checkers cannot read this
# table: they need the imports above, and the list below for names that are renamed. Tests compare.
_PUBLIC = {
    "AGENTS": "pureward.agents:AGENTS",
    "ENVIRONMENTS": "pureward.envs:ENVIRONMENTS",
    "EXECUTORS": "pureward.distributed:EXECUTORS",
    "METHODS": "pureward.rewards.methods:METHODS",
    "NETWORKS": "pureward.rewards.network:NETWORKS",
    "PRIORS": "pureward.rewards.priors:PRIORS",
    "READERS": "pureward.data.readers:READERS",
    "RISKS": "pureward.rewards.risks:RISKS",
    "TASKS": "pureward.envs.tasks:TASKS",
    "BatchEnv": "pureward.envs:BatchEnv",
    "Discriminator": "pureward.rewards.discriminator:Discriminator",
    "InputError": "pureward.errors:InputError",
    "LearnedReward": "pureward.rewards.learned:LearnedReward",
    "NetworkConfig": "pureward.rewards.network:NetworkConfig",
    "OnlineReward": "pureward.online.online_reward:OnlineReward",
    "RewardConfig": "pureward.rewards.config:RewardConfig",
    "RewardModel": "pureward.rewards.regression:RewardModel",
    "RunConfig": "pureward.runs.config:RunConfig",
    "SimulationError": "pureward.errors:SimulationError",
    "TrainingError": "pureward.errors:TrainingError",
    "View": "pureward.rewards.view:View",
    "check": "pureward.offline.check:check",
    "collect": "pureward.runs.collect:collect",
    "evaluate": "pureward.training.evaluate:evaluate_run",
    "fit": "pureward.offline.fit:fit",
    "import_episodes": "pureward.data.writers.own:import_episodes",
    "load_policy": "pureward.runs.policy:load_policy",
    "load_reward": "pureward.rewards.saved:load_reward",
    "make": "pureward.envs:make",
    "make_vec": "pureward.envs.vector:make_vec",
    "preset": "pureward.training.presets:preset",
    "probe": "pureward.diagnostics.evidence:probe",
    "read_dataset": "pureward.data.dataset:read_dataset",
    "read_episodes": "pureward.data.dataset:read_episodes",
    "risk": "pureward.rewards.risks:pu",
    "save_reward": "pureward.rewards.saved:save_reward",
    "score": "pureward.scoring.score:score",
    "train": "pureward.training.loop:train",
}

__all__ = [
    "AGENTS",
    "ENVIRONMENTS",
    "EXECUTORS",
    "METHODS",
    "NETWORKS",
    "PRIORS",
    "READERS",
    "RISKS",
    "TASKS",
    "BatchEnv",
    "Discriminator",
    "InputError",
    "LearnedReward",
    "NetworkConfig",
    "OnlineReward",
    "RewardConfig",
    "RewardModel",
    "RunConfig",
    "SimulationError",
    "TrainingError",
    "View",
    "__version__",
    "check",
    "collect",
    "evaluate",
    "fit",
    "import_episodes",
    "load_policy",
    "load_reward",
    "make",
    "make_vec",
    "preset",
    "probe",
    "read_dataset",
    "read_episodes",
    "risk",
    "save_reward",
    "score",
    "train",
]


if not TYPE_CHECKING:  # a type checker would take any name for a public one

    def __getattr__(name: str) -> object:
        if name not in _PUBLIC:
            raise AttributeError(f"module 'pureward' has no attribute {name!r}")
        module, _, attribute = _PUBLIC[name].partition(":")
        try:
            return getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            raise missing_extra(error) from error


def __dir__() -> list[str]:
    return __all__


end_imports_at_interrupt()
if find_spec("gymnasium") is not None:
    from pureward.gym import register

    register()
