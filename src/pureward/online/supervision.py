# SPDX-License-Identifier: Apache-2.0
"""The data that a reward learns from: demonstrations or annotated episodes, by their use."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pureward.data.absorbing import Absorbing
from pureward.data.dataset import Dataset, in_another_order, known_failures
from pureward.data.episodes import (
    FAILURE,
    HELD_OUT,
    TRAIN,
    Episode,
    row_per_frame_note,
    success_problem,
)
from pureward.data.frames import FrameBank
from pureward.errors import InputError, warn
from pureward.rewards.annotations import reward_problem

# Above this share of absorbing steps D sees little of what the demonstrations show.
_MOST_ABSORBING = 0.95


def warn_of_data(name: str, episodes: Sequence[Episode], rewards: Tensor | None) -> None:
    """Warn of episodes that nothing can be learned from, before the training takes its time.

    Args:
        name: of the episodes.
        episodes: demonstrations or annotated episodes.
        rewards: those that r_φ learns from, if the episodes are annotated.
    """
    if rewards is None:
        problem = success_problem(name, ((e.split, e.outcome) for e in episodes))
    else:
        low, high = rewards.aminmax()
        problem = reward_problem(name, float(low), float(high))
    if problem:
        warn(problem)
    if rewards is not None and any(episode.row_per_frame for episode in episodes):
        print(f"note: {row_per_frame_note(name)}")


@dataclass(frozen=True, kw_only=True)
class Supervision:
    """Frames of a dataset, on the device of the learner."""

    train: FrameBank
    held_out: FrameBank | None
    """Episodes like `train`, for probes only."""
    failures: FrameBank | None
    """Episodes without success, for probes only."""
    ends: tuple[int, ...] = ()
    """Lengths of the training episodes that end in a terminal state."""
    images: tuple[str, ...] = ()
    """Names of the images that are stacked as channels, in this order; () if unknown."""

    @classmethod
    def of(
        cls,
        episodes: Sequence[Episode],
        *,
        stack: int = 1,
        device: torch.device | str = "cpu",
        images: tuple[str, ...] = (),
    ) -> "Supervision":
        """Sort episodes with frames by their splits.

        Args:
            episodes: at least one of them for training.
            stack: number of frames in a stack.
            device: the learner's.
            images: names of the images that are stacked as channels.
        """
        banks: dict[str, FrameBank | None] = {}
        for split in (TRAIN, HELD_OUT, FAILURE):
            own = [episode for episode in episodes if episode.split == split]
            banks[split] = FrameBank(own, stack=stack, device=device) if own else None
        train = banks[TRAIN]
        if train is None:
            raise InputError("a reward needs at least one episode to train on, got none; add some")
        ends = [len(e) for e in episodes if e.split == TRAIN and e.terminated]
        return cls(
            train=train,
            held_out=banks[HELD_OUT],
            failures=banks[FAILURE],
            ends=tuple(ends),
            images=images,
        )

    def sources(self) -> dict[str, FrameBank]:
        """Return the frames for probes, by name."""
        named = {"train": self.train, "held_out": self.held_out, "failure": self.failures}
        return {name: bank for name, bank in named.items() if bank is not None}

    def known_failures(self, dataset: Dataset) -> FrameBank:
        """Return the frames of a dataset of known failures to train on, stacked as these are."""
        if in_another_order(dataset.images, self.images):
            raise InputError(
                f"images must be in one order, got {list(self.images)} in the positives and "
                f"{list(dataset.images)} in the known failures; choose the same images for both"
            )
        failures = known_failures(dataset)
        return FrameBank(failures, stack=self.train.stack, device=self.train.device)

    def absorbing(self, horizon: int, *, recent: int, worlds: int = 0) -> Absorbing:
        """Return counts of absorbing steps that fit these frames; arguments as in `Absorbing`."""
        share = self.absorbing_share(horizon)
        if share > _MOST_ABSORBING:
            warn(
                f"{share:.1%} of D's positives are the absorbing state after the end of "
                f"an episode, because the time limit is {horizon:,} steps and demonstrations end "
                f"after {sum(self.ends) / len(self.ends):.0f}; give the environment a shorter time "
                "limit, or turn the absorbing state off (--reward.no-absorbing; leave out the "
                "horizon of an OnlineReward)"
            )
        return Absorbing(
            horizon=horizon,
            positive_share=share,
            recent=recent,
            frame_shape=self.train.shape,
            device=self.train.device,
            worlds=worlds,
        )

    def absorbing_share(self, horizon: int) -> float:
        """Return the share of absorbing steps if terminated episodes continue to the horizon."""
        left = sum(max(0, horizon - length) for length in self.ends)
        return left / (left + len(self.train))


def subset(bank: FrameBank, most: int) -> torch.Tensor:
    """Return at most `most` rows of a bank, sampled without replacement, the same at each call."""
    order = torch.randperm(len(bank), generator=torch.Generator().manual_seed(0))
    return order[:most].sort().values
