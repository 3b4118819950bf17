# SPDX-License-Identifier: Apache-2.0
"""What only the simulator knows of the agent, counted for the log and for nothing else."""

from collections.abc import Mapping

import torch
from torch import Tensor

from pureward.data.replay.replay import Replay
from pureward.types import Step

# Steps drawn for each success that is looked for, and successes below which nothing is said.
_DRAWN, _FEWEST = 32, 16


class Truth:
    """Returns and successes of the agent's steps, kept on the device until somebody asks."""

    def __init__(
        self,
        *,
        rows: int,
        worlds: int,
        device: torch.device,
        staggered: bool = False,
        remembers: bool = False,
    ) -> None:
        """Begin with nothing.

        Args:
            rows: steps of each world that the replay holds: successes among these are recent.
            worlds: that step together.
            device: the learner's.
            staggered: whether each world's first episode is cut short, so that its return says
                nothing.
            remembers: whether half of a discriminator's unlabeled frames are drawn from all that
                the agent ever saw.
        """
        self._worlds, self._remembers = worlds, remembers
        self._whole = torch.full((worlds,), not staggered, device=device)
        self._episode_return = torch.zeros(worlds, device=device)
        self._finished_return = torch.zeros((), device=device)
        self._finished_count = torch.zeros((), device=device)
        self._succeeded = torch.zeros(rows, worlds, dtype=torch.bool, device=device)
        self._ever = torch.zeros((), dtype=torch.int64, device=device)
        self._steps = 0

    def count(self, step: Step) -> None:
        """Take in one step of every world."""
        ended = step.truncated | step.terminated
        self._episode_return += step.reward
        told = ended & self._whole
        self._finished_return += (self._episode_return * told).sum()
        self._finished_count += told.sum()
        self._episode_return *= ~ended
        self._whole |= ended
        self._succeeded[self._steps % len(self._succeeded)] = step.success
        self._ever += step.success.sum()
        self._steps += 1

    def read(self) -> dict[str, float]:
        """Return what there is to log; waits for the device.

        `return` is the mean of episodes that ended since the last reading. `true_success` is the
        share of successes among the frames that a discriminator is shown as unlabeled: what η
        would be if nothing but successes were demonstrated.
        """
        told: dict[str, float] = {}
        count = float(self._finished_count)
        if count:
            told["return"] = float(self._finished_return) / count
        self._finished_return.zero_()
        self._finished_count.zero_()
        if self._steps:
            kept = min(self._steps, len(self._succeeded))
            recent = int(self._succeeded.sum()) / (kept * self._worlds)
            ever = int(self._ever) / (self._steps * self._worlds)
            told["true_success"] = (recent + ever) / 2 if self._remembers else recent
        return told

    def solved_frames(self, replay: Replay, most: int) -> Tensor | None:
        """Frames of the replay that are successes, or None where hardly any are; waits."""
        if not len(replay) or replay.layout.frame_shape is None:
            return None
        # A generator of its own, the same at the same step: nothing else may depend on the truth.
        rng = torch.Generator(replay.device).manual_seed(self._steps)
        drawn = replay.sample_steps(_DRAWN * most, rng)
        solved = drawn[self._succeeded.flatten()[drawn]]
        return replay.arrival_frames(solved[:most]) if len(solved) >= _FEWEST else None

    def tensors(self, *, with_replay: bool) -> dict[str, Tensor]:
        """What a checkpoint must hold; successes are those of a replay that is saved as well."""
        kept = {
            "episode_return": self._episode_return,
            "finished_return": self._finished_return,
            "finished_count": self._finished_count,
            "whole": self._whole,
        }
        if not with_replay:
            return kept
        return kept | {
            "success/kept": self._succeeded,
            "success/ever": self._ever,
            "success/steps": torch.tensor(self._steps),
        }

    def load_tensors(self, saved: Mapping[str, Tensor]) -> None:
        """Go on from where `tensors` were taken."""
        for name in ("episode_return", "finished_return", "finished_count"):
            getattr(self, f"_{name}").copy_(saved[name])
        self._whole.copy_(saved["whole"])
        if "success/steps" in saved:  # not in checkpoints without a replay
            self._ever.copy_(saved["success/ever"])
            self._steps = int(saved["success/steps"])
            self._succeeded.copy_(saved["success/kept"])
