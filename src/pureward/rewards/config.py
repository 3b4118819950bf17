# SPDX-License-Identifier: Apache-2.0
"""All settings of a learned reward."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from pureward.errors import InputError
from pureward.rewards.network import NetworkConfig
from pureward.rewards.risks import RISKS, Loss
from pureward.rewards.risks.pu import check_loss
from pureward.settings import check_settings

Labels = Literal["fresh", "cached"]


@dataclass(frozen=True, kw_only=True)
class RewardModelConfig:
    """Settings of the fit of a reward model r_φ."""

    learning_rate: float = 1e-4
    """Step size of Adam (Table 3)."""
    batch_size: int = 256
    """Frames per step."""
    epochs: int = 20
    """Passes over the annotated frames."""
    decay: bool = False
    """Decay the step size to 0 along half a cosine."""
    held_out: float = 0.1
    """Share of the episodes held out to measure the error."""
    patience: int | None = None
    """Epochs without a lower held-out error before stopping; None trains to the end."""

    def __post_init__(self) -> None:
        check_settings(self)
        for name in ("batch_size", "epochs"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}; raise it")
        _check_rate(self.learning_rate, "try 1e-4")
        if not 0 <= self.held_out < 1:
            raise InputError(f"held_out must lie in [0, 1), got {self.held_out}; try 0.1")
        if self.patience is not None and self.patience < 1:
            raise InputError(f"patience must be at least 1, got {self.patience}; None turns it off")


@dataclass(frozen=True, kw_only=True)
class RewardConfig:
    """Settings of a learned reward."""

    risk: str = ""
    """Risk of D: pn, upu, nnpu, or nnpnu with known failures; "" for the method's own."""
    loss: Loss = "logistic"
    """Loss of D: "logistic" as in the paper, or the bounded "sigmoid"."""
    slack: float = 0.0
    """β: the negative risk of a minibatch may fall to −β (Table 2)."""
    even: bool = False
    """Weigh successes and failures equally in D's risk; otherwise positives have a weight of η."""
    learning_rate: float = 1e-5
    """Adam's step size for D (Table 3)."""
    batch: int = 256
    """Positives, and as many unlabeled frames, in an update of D."""
    updates: int = 1
    """Updates of D per control step of all worlds."""
    memory: int = 0
    """Size of a uniform sample of all past agent frames, which gives half of D's unlabeled frames;
    0 takes all from the replay."""
    ceiling: float = 1.0
    """r_max of −log(1 − D); returns are at most r_max / (1 − γ), which V must cover."""
    absorbing: bool = True
    """In imitation, continue an episode that terminates in an absorbing state, so that D learns
    whether ending is good; it has no effect where episodes end by time only."""
    labels: Labels = "fresh"
    """Score frames at each sampling ("fresh"), or store scores in a table ("cached")."""
    refreshed: int = 1024
    """Cached scores that are computed again per control step."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    """Network and view of D and r_φ; in a run the environment sets the frames' shape."""
    model: RewardModelConfig = field(default_factory=RewardModelConfig)
    """Fit of r_φ, before the policy learns."""

    def __post_init__(self) -> None:
        check_settings(self)
        if self.risk:
            RISKS[self.risk]
        check_loss(self.loss)
        _check_rate(self.learning_rate, "try 1e-5")
        if self.slack < 0:
            raise InputError(f"slack must be at least 0, got {self.slack}; try 0")
        if self.ceiling <= 0:
            raise InputError(f"ceiling must be positive, got {self.ceiling}; try 1")
        for name in ("batch", "updates"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}; raise it")
        if self.memory < 0:
            raise InputError(f"memory must be at least 0, got {self.memory}; try 100000")
        if self.refreshed < 0 or self.labels not in get_args(Labels):
            raise InputError(
                "labels must be 'fresh' or 'cached' and refreshed at least 0, got "
                f"{self.labels!r} and {self.refreshed}; try 'cached' and 1024"
            )


def check_reward_config(config: object) -> None:
    """Raise InputError unless these are settings of a reward."""
    if not isinstance(config, RewardConfig):
        raise InputError(
            f"config must be a RewardConfig, got {type(config).__name__}; pass "
            "RewardConfig(batch=64)"
        )


def _check_rate(rate: float, remedy: str) -> None:
    if not 0 < rate < 1:
        raise InputError(f"learning_rate must lie inside (0, 1), got {rate}; {remedy}")
