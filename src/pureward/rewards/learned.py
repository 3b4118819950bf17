# SPDX-License-Identifier: Apache-2.0
"""A reward function: uint8 frames in, float32 rewards out, from live or loaded networks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from pureward.errors import InputError
from pureward.rewards.arithmetic import Arithmetic, logits, random_logits, resolved
from pureward.rewards.compose import (
    ensemble_minimum,
    gated_reward,
    imitation_reward,
)
from pureward.rewards.network import FrameNetwork, NetworkConfig
from pureward.rewards.scoring import in_batches

# Rewards are float32: a larger bound is none.
_LARGEST = torch.finfo(torch.float32).max

LearnedKind = Literal["imitation", "regression", "gated"]


@dataclass(frozen=True, kw_only=True)
class RewardSpec:
    """What a learned reward is made of, apart from its weights."""

    reward: LearnedKind
    """−log(1−D), r_φ or [D > ½]·r_φ."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    """Shape of every network in it, and of the frames it takes."""
    members: int = 0
    """Reward models whose minimum is r_φ; 0 where there is none."""
    ceiling: float = 1.0
    """r_max of the imitation reward."""
    lowest: float = 0.0
    """What a gate counts rewards from: the smaller of 0 and the lowest annotated reward."""

    def __post_init__(self) -> None:
        """Refuse parts that do not make a reward."""
        if self.reward not in ("imitation", "regression", "gated"):
            raise InputError(
                f"unknown reward {self.reward!r}; choose imitation, regression or gated"
            )
        if (self.members > 0) != (self.reward != "imitation") or not 0 <= self.members <= 64:
            raise InputError(
                f"{self.reward} rewards need {'no' if self.reward == 'imitation' else '1 to 64'} "
                f"reward models, got {self.members}; set members"
            )
        if not 0 < self.ceiling <= _LARGEST:
            raise InputError(f"ceiling must be positive and finite, got {self.ceiling}; try 1")
        if not -_LARGEST <= self.lowest <= 0:
            raise InputError(f"lowest must be finite and at most 0, got {self.lowest}; try 0")

    @property
    def has_discriminator(self) -> bool:
        """Whether a discriminator is part of it."""
        return self.reward != "regression"


class LearnedReward:
    """A reward on the networks it is given, which may go on training elsewhere."""

    def __init__(
        self,
        spec: RewardSpec,
        *,
        discriminator: FrameNetwork | None,
        members: Sequence[FrameNetwork] = (),
        batch_size: int = 1024,
        arithmetic: Arithmetic = "auto",
    ) -> None:
        """Put the parts together.

        Args:
            spec: what the parts are.
            discriminator: `Discriminator.network`, where the specification has one.
            members: `RewardModel.networks`, as many as the specification says.
            batch_size: frames a pass; more are cut into passes.
            arithmetic: "auto" for the fastest the device has.
        """
        if not isinstance(members, Iterable):
            raise InputError(
                f"members must be a list of networks, got {type(members).__name__}; "
                "pass RewardModel.networks"
            )
        members = list(members)
        if (discriminator is not None) != spec.has_discriminator or len(members) != spec.members:
            raise InputError(
                f"a {spec.reward} reward takes {int(spec.has_discriminator)} discriminators and "
                f"{spec.members} reward models, got {int(discriminator is not None)} and "
                f"{len(members)}; pass the networks the specification names"
            )
        for part in members if discriminator is None else [discriminator, *members]:
            _check_part(part, spec)
        self.spec = spec
        self.discriminator = discriminator
        self.members = members
        self.batch_size = batch_size
        some = discriminator if discriminator is not None else self.members[0]
        self.device = some.head.weight.device
        self.arithmetic: Arithmetic = resolved(arithmetic, spec.network, self.device)

    @property
    def parts(self) -> int:
        """Rows of `scores`: D's logit, r_φ, or both."""
        return int(self.discriminator is not None) + int(bool(self.members))

    @property
    def zero(self) -> float:
        """What a reward of 0 stands for: a gate counts from the lowest annotated one below 0."""
        return self.spec.lowest if self.spec.reward == "gated" else 0.0

    @torch.no_grad()
    def __call__(self, frames: Tensor) -> Tensor:
        """Return the reward of each uint8 frame as float32, on the networks' device."""
        return self.from_scores(self.scores(frames))

    @torch.no_grad()
    def scores(self, frames: Tensor) -> Tensor:
        """Return all a reward is made of, (parts, batch): D's logit, then r_φ."""
        rows = in_batches(self._scores, frames, self.batch_size, self.device)
        return rows.view(len(frames), self.parts).T

    @torch.no_grad()
    def from_scores(self, scores: Tensor) -> Tensor:
        """Return the rewards that scores (parts, …) amount to."""
        if self.spec.reward == "regression":
            return scores[0]
        if self.spec.reward == "imitation":
            return imitation_reward(scores[0], ceiling=self.spec.ceiling)
        return gated_reward(scores[0], scores[1], lowest=self.spec.lowest)

    @torch.no_grad()
    def success_logits(self, frames: Tensor, as_trained: torch.Generator | None = None) -> Tensor:
        """Return the discriminator's logit of each frame.

        Args:
            frames: (batch, channels, height, width) uint8.
            as_trained: draws the random views of training; None looks as rewards are paid.
        """
        if self.discriminator is None:
            raise InputError(
                "a regression reward has no discriminator; use an imitation or gated one"
            )
        run = partial(self._run, self.discriminator, as_trained=as_trained)
        return in_batches(run, frames, self.batch_size, self.device)

    @torch.no_grad()
    def predicted(self, frames: Tensor, as_trained: torch.Generator | None = None) -> Tensor:
        """Return r_φ of each frame, before any gate; arguments as in `success_logits`."""
        if not self.members:
            raise InputError(
                "an imitation reward has no reward model; use a regression or gated one"
            )
        predict = partial(self._predict, as_trained=as_trained)
        return in_batches(predict, frames, self.batch_size, self.device)

    def _scores(self, frames: Tensor) -> Tensor:
        first = [] if self.discriminator is None else [self._run(self.discriminator, frames)]
        last = [self._predict(frames)] if self.members else []
        return torch.stack(first + last, dim=1)

    def _predict(self, frames: Tensor, as_trained: torch.Generator | None = None) -> Tensor:
        each = [self._run(member, frames, as_trained) for member in self.members]
        return ensemble_minimum(torch.stack(each))

    def _run(
        self, network: FrameNetwork, frames: Tensor, as_trained: torch.Generator | None = None
    ) -> Tensor:
        network.eval()
        if as_trained is None:
            return logits(network, frames, self.arithmetic)
        return random_logits(network, frames, as_trained, self.arithmetic)


def _check_part(part: FrameNetwork, spec: RewardSpec) -> None:
    """Refuse what is no network of the specification: saved, it could not be loaded."""
    if not isinstance(part, FrameNetwork):
        raise InputError(
            f"a reward is made of networks, got {type(part).__name__}; "
            "pass Discriminator.network and RewardModel.networks"
        )
    if part.config != spec.network:
        raise InputError(
            f"every network of a reward must be as its specification says, {spec.network}, got "
            f"{part.config}; build both from one NetworkConfig"
        )
