# SPDX-License-Identifier: Apache-2.0
"""Probes: D and r_φ on frames of known sources, the paper's analysis as numbers."""

from collections.abc import Mapping

import torch
from torch import Tensor

from pureward.errors import InputError
from pureward.rewards.learned import LearnedReward

#: Sources of frames, with labels for plots and sentences: demonstrations or annotated episodes
#: that are trained on, held-out ones, episodes that never succeed, the agent's recent frames, and
#: those of them that the simulator calls a success.
SOURCES = {
    "train": "trained frames",
    "held_out": "held-out frames",
    "failure": "failures",
    "replay": "the agent's frames",
    "solved": "the agent's successes",
}


class Probes:
    """Measures rewards on the same frames each time, so that a change comes from the reward."""

    def __init__(self, sources: Mapping[str, Tensor]) -> None:
        """Store the frames.

        Args:
            sources: uint8 (count, channels, height, width) by name of `SOURCES`, stacked as
                the reward sees them; a source without frames is left out.
        """
        unknown = set(sources) - set(SOURCES)
        if unknown:
            raise InputError(f"unknown sources {sorted(unknown)}; choose from {tuple(SOURCES)}")
        self._frames = {name: frames for name, frames in sources.items() if len(frames)}

    @torch.no_grad()
    def measure(
        self, reward: LearnedReward, replay: Tensor | None = None, solved: Tensor | None = None
    ) -> dict[str, float]:
        """Measure D and r_φ on every source, with one host sync.

        Args:
            reward: live or loaded.
            replay: frames of the agent, sampled by the caller for each measurement.
            solved: frames of the agent that are successes, if that is known.

        Returns:
            `success/SOURCE`, the share of frames with D > ½ (the paper's PoS), and
            `mean/SOURCE`, the mean of D, if there is a discriminator;
            `predicted/SOURCE`, the mean of r_φ, if there is a reward model;
            `mean/as_trained` and `predicted/as_trained`, the means over the trained frames in the
            random views of training. All others are scored as rewards are paid.
        """
        sampled = {"replay": replay, "solved": solved}
        found = self._frames | {k: v for k, v in sampled.items() if v is not None and len(v)}
        values = {
            f"{part}/{name}": value
            for name, frames in found.items()
            for part, value in _means(reward, frames).items()
        }
        if "train" in found:
            views = torch.Generator(reward.device).manual_seed(0)
            means = _means(reward, found["train"], views)
            values |= {f"{part}/as_trained": means[part] for part in means if part != "success"}
        if not values:
            return {}
        return dict(zip(values, torch.stack(list(values.values())).tolist(), strict=True))


def _means(
    reward: LearnedReward, frames: Tensor, views: torch.Generator | None = None
) -> dict[str, Tensor]:
    """Means over frames, in scoring or in random views of training."""
    means = {}
    if reward.discriminator is not None:
        logits = reward.success_logits(frames, views).float()
        means |= {"success": (logits > 0).float().mean(), "mean": logits.sigmoid().mean()}
    if reward.members:
        means["predicted"] = reward.predicted(frames, views).float().mean()
    return means
