# SPDX-License-Identifier: Apache-2.0
"""A reward function from uint8 frames to float32 rewards, of training or loaded networks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pureward.errors import InputError
from pureward.rewards.arithmetic import Arithmetic, in_batches, logits, resolved
from pureward.rewards.compose import ensemble_minimum, gated_reward, imitation_reward
from pureward.rewards.network import FrameNetwork, NetworkConfig
from pureward.settings import check_settings
from pureward.types import checked_tensor

# Rewards are float32: a larger bound would be infinite.
_LARGEST = torch.finfo(torch.float32).max

LearnedKind = Literal["imitation", "regression", "gated"]


@dataclass(frozen=True, kw_only=True)
class RewardSpec:
    """Settings of a learned reward; with the weights, all that it consists of."""

    reward: LearnedKind
    """−log(1−D), r_φ or [D > ½]·r_φ."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    """Shape of every network in it, and of the frames it takes."""
    members: int = 0
    """Reward models in the ensemble, whose minimum is r_φ; 0 without r_φ."""
    ceiling: float = 1.0
    """r_max of the imitation reward."""
    lowest: float = 0.0
    """Zero of a gated reward: the smaller of 0 and the lowest annotated reward."""
    absorbing: bool = False
    """Whether D learned an absorbing state, a black frame, that follows terminal states."""
    stack: int = 0
    """Consecutive images in a frame, as channels, oldest first; 0 if unknown."""
    images: tuple[str, ...] = ()
    """Names of the cameras, in the order of their channels; () if unknown."""

    def __post_init__(self) -> None:
        check_settings(self)
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
        if self.absorbing and self.reward != "imitation":
            raise InputError(
                f"only imitation rewards have an absorbing state, got a {self.reward} reward; set "
                "absorbing to False"
            )
        if self.stack < 0 or (self.stack and self.network.frame_channels % (3 * self.stack)):
            raise InputError(
                f"stack must divide the images of {self.network.frame_channels} channels, got "
                f"{self.stack}; set 0 if it is unknown"
            )
        if not all(isinstance(n, str) and n.isprintable() and len(n) <= 200 for n in self.images):
            raise InputError(
                "names of images must be at most 200 printable characters, got "
                f"{list(self.images)!r:.300}; rename them, or leave images empty"
            )
        if self.images and 3 * self.stack * len(self.images) != self.network.frame_channels:
            raise InputError(
                f"images must name every camera of {self.network.frame_channels} channels, "
                f"{self.stack} images of each, got {list(self.images)!r:.300}; leave images empty "
                "if the names are unknown"
            )

    @property
    def channels(self) -> str:
        """What the channels of a frame are, in words."""
        images = self.network.frame_channels // 3
        names = f" ({', '.join(self.images)})" if self.images else ""
        if images == 1:
            return f"one RGB image{names}"
        if not self.stack:
            return f"{images} RGB images"
        if self.stack == 1:
            return f"RGB images of {images} cameras{names}"
        cameras = "" if images == self.stack else f" of {images // self.stack} cameras"
        return f"{self.stack} consecutive RGB images{cameras}{names}, oldest first"

    @property
    def has_discriminator(self) -> bool:
        """Whether it has a discriminator."""
        return self.reward != "regression"


class LearnedReward:
    """A reward function; its networks may continue to train."""

    def __init__(
        self,
        spec: RewardSpec,
        *,
        discriminator: FrameNetwork | None,
        members: Sequence[FrameNetwork] = (),
        batch_size: int | None = None,
        arithmetic: Arithmetic = "auto",
    ) -> None:
        """Check the networks against the specification.

        Args:
            spec: kind of the reward and its settings.
            discriminator: `Discriminator.network`; None for a regression reward.
            members: `RewardModel.networks`, `spec.members` of them.
            batch_size: frames per forward pass; None for one that suits the device.
            arithmetic: "auto" for the fastest that the device supports.
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
        networks = members if discriminator is None else [discriminator, *members]
        for network in networks:
            _check_network(network, spec)
        self.spec = spec
        self.discriminator = discriminator
        self.members = members
        self.batch_size = batch_size
        self.device = networks[0].head.weight.device
        self.arithmetic: Arithmetic = resolved(arithmetic, spec.network, self.device)

    @property
    def parts(self) -> int:
        """Rows of `scores`: D's logit, r_φ, or both."""
        return int(self.discriminator is not None) + int(bool(self.members))

    @property
    def zero(self) -> float:
        """The annotated reward that a learned reward of 0 corresponds to."""
        return self.spec.lowest if self.spec.reward == "gated" else 0.0

    def __call__(self, frames: NDArray[np.generic] | Tensor) -> Tensor:
        """Return float32 rewards (batch,) of frames, on the networks' device.

        Args:
            frames: uint8 (batch, channels, height, width), or channels last.
        """
        if isinstance(frames, np.ndarray) and frames.dtype == np.uint8:
            frames = torch.from_numpy(frames.copy())
        frames = checked_tensor(frames, "frames must be uint8 (batch, channels, height, width)")
        network = self.spec.network
        sides = (network.height, network.width)
        if frames.shape[1:] == (*sides, network.frame_channels) != (network.frame_channels, *sides):
            frames = frames.permute(0, 3, 1, 2)
        return self.from_scores(self.scores(frames))

    @torch.no_grad()
    def scores(self, frames: Tensor) -> Tensor:
        """Return the networks' outputs, (parts, batch): D's logit, then r_φ."""
        rows = in_batches(self._scores, frames, self.batch_size, self.device)
        return rows.view(len(frames), self.parts).T

    @torch.no_grad()
    def from_scores(self, scores: Tensor) -> Tensor:
        """Return the rewards (…) of scores (parts, …)."""
        if self.spec.reward == "regression":
            return scores[0]
        if self.spec.reward == "imitation":
            return imitation_reward(scores[0], ceiling=self.spec.ceiling)
        return gated_reward(scores[0], scores[1], lowest=self.spec.lowest)

    def absorbing_reward(self) -> Tensor:
        """Return the reward of the absorbing state, float32 (1,)."""
        network = self.spec.network
        shape = (1, network.frame_channels, network.height, network.width)
        return self(torch.zeros(shape, dtype=torch.uint8, device=self.device))

    def terminal_reward(self, discount: float) -> float:
        """Return what a step that terminates is paid for the absorbing state after it.

        It is γ r / (1 − γ) with the reward r of the absorbing state, and 0 if there is none. Add it
        to the reward of the terminal step; the RL library needs no absorbing states of its own.

        Args:
            discount: γ of the RL library, below 1.
        """
        if not self.spec.absorbing:
            return 0.0
        gamma = check_discount(discount)
        return gamma / (1.0 - gamma) * float(self.absorbing_reward())

    @torch.no_grad()
    def success_logits(self, frames: Tensor, as_trained: torch.Generator | None = None) -> Tensor:
        """Return the discriminator's logits (batch,).

        Args:
            frames: (batch, channels, height, width) uint8.
            as_trained: generator of random views as in training; None for the view of rewards.
        """
        if self.discriminator is None:
            raise InputError(
                "a regression reward has no discriminator; use an imitation or gated one"
            )
        run = partial(self._run, self.discriminator, as_trained=as_trained)
        return in_batches(run, frames, self.batch_size, self.device)

    @torch.no_grad()
    def predicted(self, frames: Tensor, as_trained: torch.Generator | None = None) -> Tensor:
        """Return r_φ (batch,) before the gate; arguments as in `success_logits`."""
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
        # All members see the same views: the minimum over different ones would be too low.
        views = [as_trained and as_trained.clone_state() for _ in self.members[1:]] + [as_trained]
        pairs = zip(self.members, views, strict=True)
        return ensemble_minimum(
            torch.stack([self._run(member, frames, view) for member, view in pairs])
        )

    def _run(
        self, network: FrameNetwork, frames: Tensor, as_trained: torch.Generator | None = None
    ) -> Tensor:
        return logits(network.eval(), frames, self.arithmetic, as_trained)


def check_discount(discount: float) -> float:
    """Return the discount of an RL library as a float; raise InputError outside [0, 1)."""
    if not isinstance(discount, Real) or not 0 <= discount < 1:
        raise InputError(f"discount must lie in [0, 1), got {discount!r}; try 0.99")
    return float(discount)


def _check_network(network: FrameNetwork, spec: RewardSpec) -> None:
    if not isinstance(network, FrameNetwork):
        raise InputError(
            f"a reward is made of networks, got {type(network).__name__}; "
            "pass Discriminator.network and RewardModel.networks"
        )
    if network.config != spec.network:  # it could be saved, but not loaded
        raise InputError(
            f"the networks of a reward must match its specification, {spec.network}, got "
            f"{network.config}; build both from one NetworkConfig"
        )
