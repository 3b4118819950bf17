# SPDX-License-Identifier: Apache-2.0
"""Settings of D4PG."""

from dataclasses import dataclass

from pureward.agents.agent import AgentConfig
from pureward.errors import InputError
from pureward.settings import check_settings

# Units of a layer; a larger number is probably a typo.
_WIDEST = 16_384
# Returns are float32, at most 3e38.
_HIGHEST = 1e30


@dataclass(frozen=True, kw_only=True)
class D4PGConfig(AgentConfig):
    """Settings of D4PG; the defaults are Table 4's, and Acme's where it is silent."""

    actor_layers: tuple[int, ...] = (300, 200)
    """Hidden layers of the policy."""
    critic_layers: tuple[int, ...] = (400, 300)
    """Hidden layers of the critic."""
    norm_first: bool = False
    """LayerNorm and tanh instead of ReLU after the first layer, as in Acme."""
    atoms: int = 51
    """Atoms of the critic's distribution."""
    value_low: float = 0.0
    """V_min, the lowest return."""
    value_high: float = 100.0
    """V_max, the highest return: r_max / (1 − γ)."""
    actor_rate: float = 1e-4
    """Adam's step size for the policy."""
    critic_rate: float = 1e-4
    """Adam's step size for the critic."""
    target_period: int = 100
    """Updates between copies to the target networks, while `polyak` is 0."""
    polyak: float = 0.0
    """Share of new weights mixed into the targets per update; 0 for copies instead."""
    normalise: bool = False
    """Normalise states by their running mean and standard deviation."""

    def __post_init__(self) -> None:
        check_settings(self)
        for name in ("actor_rate", "critic_rate"):
            if not 0 < getattr(self, name) < 1:
                raise InputError(
                    f"{name} must lie inside (0, 1), got {getattr(self, name)}; try 1e-4"
                )
        for name in ("actor_layers", "critic_layers"):
            if not all(1 <= size <= _WIDEST for size in getattr(self, name)):
                raise InputError(
                    f"{name} must each have 1 to {_WIDEST:,} units, got {getattr(self, name)}; "
                    "try 300 200"
                )
        if not 2 <= self.atoms <= _WIDEST:
            raise InputError(f"atoms must lie in [2, {_WIDEST:,}], got {self.atoms}; try 51")
        if not -_HIGHEST < self.value_low < self.value_high < _HIGHEST:
            raise InputError(
                f"returns need value_low < value_high within ±{_HIGHEST:g}, got {self.value_low} "
                f"and {self.value_high}; try 0 and r_max / (1 − γ)"
            )
        if self.target_period < 1 or not 0 <= self.polyak <= 1:
            raise InputError(
                "targets need target_period ≥ 1 and polyak in [0, 1], got "
                f"{self.target_period} and {self.polyak}; try 100 and 0"
            )

    def check_returns(self, highest: float, discount: float) -> None:
        """Raise InputError if rewards up to `highest` can exceed `value_high`."""
        needed = highest / (1.0 - discount) if discount < 1 else 0.0
        if self.value_high < needed * (1 - 1e-6):
            raise InputError(
                f"returns of rewards up to {highest:g} reach {needed:g} at γ = {discount:g}, and "
                f"the critic ends at {self.value_high:g}; set agent.value_high to {needed:g} or "
                "lower reward.ceiling"
            )
