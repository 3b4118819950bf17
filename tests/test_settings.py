"""The types of settings are checked where a dataclass of settings is made, before its bounds."""

from dataclasses import dataclass

import numpy as np
import pytest

import pureward
from pureward.agents import AgentConfig, D4PGConfig
from pureward.agents.exploration import ExplorationConfig
from pureward.data.replay.replay import ReplayConfig
from pureward.errors import InputError
from pureward.rewards.config import RewardConfig, RewardModelConfig
from pureward.rewards.learned import RewardSpec
from pureward.rewards.network import NetworkConfig
from pureward.rewards.view import View
from pureward.runs.config import RunConfig


@dataclass(frozen=True, kw_only=True)
class Own(AgentConfig):
    """Settings of a user's agent, which checks nothing itself."""

    size: int = 3


@pytest.mark.parametrize(
    ("kind", "settings", "sentence"),
    [
        (RunConfig, {"worlds": "8"}, "worlds must be a whole number, without quotes, got '8'"),
        (RunConfig, {"reward": View()}, r"reward must be of type RewardConfig, got View\("),
        (RunConfig, {"agent": Own(size="8")}, "agent.size must be a whole number, without quotes"),
        (RunConfig, {"prior": 1}, "prior must be text, got 1; leave it out for the default$"),
        (RunConfig, {"images": "top"}, "images must be a list of text, got 'top'"),
        (RunConfig, {"videos": 1}, "videos must be true or false, got 1; .* default$"),
        (RewardModelConfig, {"patience": "5"}, "patience must be a whole number, without quotes"),
        (RewardConfig, {"batch": "8"}, "batch must be a whole number, without quotes, got '8'"),
        (
            RewardConfig,
            {"batch": 8.5},
            "batch must be a whole number, got 8.5; leave it out for the default$",
        ),
        (RewardConfig, {"even": "no"}, "even must be true or false, without quotes, got 'no'"),
        (
            RewardConfig,
            {"network": None},
            "network must be of type NetworkConfig, got None; leave it out for the default$",
        ),
        (RewardModelConfig, {"epochs": None}, "epochs must be a whole number, got None"),
        (RewardSpec, {"reward": "gated", "ceiling": "1"}, "ceiling must be a number, without"),
        (NetworkConfig, {"width": "64"}, "width must be a whole number, without quotes, got '64'"),
        (View, {"crop": "1"}, "crop must be a number, without quotes, got '1'"),
        (View, {"contrast": (1, "2")}, r"contrast must be a list of numbers, got \(1, '2'\)"),
        (ReplayConfig, {"capacity": "9"}, "capacity must be a whole number, without quotes"),
        (
            D4PGConfig,
            {"actor_layers": 300},
            "actor_layers must be a list of whole numbers, got 300; leave it out for the default$",
        ),
        (D4PGConfig, {"target_period": 10**20}, r"target_period must lie within ±2\^53"),
        (ExplorationConfig, {"low": "0"}, "low must be a number, without quotes, got '0'"),
    ],
)
def test_a_value_of_another_type_is_refused_in_one_sentence(kind, settings, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        kind(**settings)


def test_numbers_of_numpy_become_those_of_python():
    made = RewardConfig(batch=np.int64(8), learning_rate=np.float32(0.5))
    assert (type(made.batch), type(made.learning_rate)) == (int, float)
    for contrast in (np.array([0.5, 2.0]), tuple(np.array([0.5, 2.0])), [0.5, 2.0]):
        assert View(contrast=contrast) == View()
    with pytest.raises(InputError, match="crop must be a number, got True"):
        View(crop=True)


_NUL = "a\0b"  # a path that no file system has


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("out", lambda: pureward.RunConfig(out=_NUL)),
        ("demonstrations", lambda: pureward.preset("reach", method="gail", demonstrations=_NUL)),
        ("out", lambda: pureward.fit([], demonstrations=[], out=_NUL)),
        ("out", lambda: pureward.check([], out=_NUL)),
        ("out", lambda: pureward.score("reward", "logs", _NUL)),
        ("out", lambda: pureward.import_episodes("logs", _NUL)),
        ("policy", lambda: pureward.collect("reach", _NUL, "out")),
        ("out", lambda: pureward.collect("reach", "run", _NUL)),
        ("run", lambda: pureward.evaluate(_NUL)),
        ("run", lambda: pureward.probe(_NUL)),
        ("out", lambda: pureward.probe("run", _NUL)),
        ("run", lambda: pureward.load_policy(_NUL)),
        ("directory", lambda: pureward.save_reward(None, _NUL)),  # type: ignore[arg-type]
        ("path", lambda: pureward.OnlineReward.save(None, _NUL)),  # type: ignore[arg-type]
    ],
)
def test_a_path_with_a_nul_is_refused_in_one_sentence(name, call):
    said = rf"^{name} must be text without the character NUL, got 'a\\x00b'; remove it$"
    with pytest.raises(InputError, match=said):
        call()


def test_a_path_of_another_type_is_refused_in_one_sentence():
    for call in (pureward.evaluate, pureward.load_policy, pureward.probe):
        with pytest.raises(InputError, match="^run must be text, got 3; name a folder$"):
            call(3)
