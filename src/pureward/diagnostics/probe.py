# SPDX-License-Identifier: Apache-2.0
"""Probes: what a reward thinks of frames whose kind is known, the paper's analysis as numbers."""

from collections.abc import Mapping

import torch
from torch import Tensor

from pureward.errors import InputError
from pureward.rewards.learned import LearnedReward

#: Where frames come from: demonstrations or annotated episodes that are trained on, others of
#: the same kind that are not, episodes that never succeed, what the agent did of late, and of that
#: what the simulator calls a success.
TRAIN, HELD_OUT, FAILURE, REPLAY, SOLVED = SOURCES = (
    "train",
    "held_out",
    "failure",
    "replay",
    "solved",
)


class Probes:
    """The same frames of each source at every measurement, so that a change is the reward's."""

    def __init__(self, sources: Mapping[str, Tensor], *, most: int = 512, seed: int = 0):
        """Choose the frames once.

        Args:
            sources: uint8 (count, channels, height, width) by name of `SOURCES`, stacked as
                the reward sees them; one without frames counts as absent.
            most: frames kept of each source, drawn without replacement where it has more.
            seed: of that draw.
        """
        unknown = set(sources) - set(SOURCES)
        if unknown:
            raise InputError(f"unknown sources {sorted(unknown)}; choose from {SOURCES}")
        if most < 1:
            raise InputError(f"most must be at least 1 frame of a source, got {most}; raise it")
        self._frames = {
            name: _drawn(sources[name], most, seed)
            for name in SOURCES
            if name in sources and len(sources[name])
        }

    @property
    def sizes(self) -> dict[str, int]:
        """Frames kept of each source."""
        return {name: len(frames) for name, frames in self._frames.items()}

    @torch.no_grad()
    def measure(
        self,
        reward: LearnedReward,
        replay: Tensor | None = None,
        solved: Tensor | None = None,
    ) -> dict[str, float]:
        """What a reward's parts say of every source, waiting for the device once.

        Args:
            reward: live or loaded.
            replay: frames of the agent, drawn anew by the caller at each measurement.
            solved: frames of the agent that are successes, where somebody knows.

        Returns:
            `success/SOURCE`, the share of frames with D > ½ (the paper's PoS), and
            `mean/SOURCE`, the mean of D, where there is a discriminator;
            `predicted/SOURCE`, the mean of r_φ, where there is a reward model.
            All are scored as rewards are paid, except `mean/as_trained` and
            `predicted/as_trained`: those of the trained frames again, in the random views that
            they are learned from.
        """
        frames = dict(self._frames)
        for name, drawn in ((REPLAY, replay), (SOLVED, solved)):
            if drawn is not None and len(drawn):
                frames[name] = drawn
        values: dict[str, Tensor] = {}
        for name, seen in frames.items():
            if reward.discriminator is not None:
                logits = reward.success_logits(seen).float()
                values[f"success/{name}"] = (logits > 0).float().mean()
                values[f"mean/{name}"] = logits.sigmoid().mean()
            if reward.members:
                values[f"predicted/{name}"] = reward.predicted(seen).float().mean()
        if TRAIN in frames:
            values |= self._as_trained(reward, frames[TRAIN])
        if not values:
            return {}
        return dict(zip(values, torch.stack(list(values.values())).tolist(), strict=True))

    def _as_trained(self, reward: LearnedReward, frames: Tensor) -> dict[str, Tensor]:
        """The means over the same frames in random views, the same views at every measurement."""
        values = {}
        if reward.discriminator is not None:
            rng = torch.Generator(reward.device).manual_seed(0)
            values["mean/as_trained"] = reward.success_logits(frames, rng).float().sigmoid().mean()
        if reward.members:
            rng = torch.Generator(reward.device).manual_seed(0)
            values["predicted/as_trained"] = reward.predicted(frames, rng).float().mean()
        return values


def _drawn(frames: Tensor, most: int, seed: int) -> Tensor:
    """At most so many of the frames, in their order; the draw is the same on every device."""
    if len(frames) <= most:
        return frames
    chosen = torch.randperm(len(frames), generator=torch.Generator().manual_seed(seed))[:most]
    return frames[chosen.sort().values.to(frames.device)]
