# SPDX-License-Identifier: Apache-2.0
"""True returns and successes of the agent, for the log only; learners never see them."""

from collections.abc import Mapping

import torch
from torch import Tensor

from pureward.data.replay.replay import Replay
from pureward.types import Step

# Steps sampled per wanted success, and the fewest successes that are returned.
_SAMPLED, _FEWEST = 32, 16
# The tensors of every checkpoint.
_KEPT = ("episode_return", "finished_return", "finished_count", "whole")


class Truth:
    """Counts returns and successes on the device."""

    def __init__(
        self, replay: Replay, *, staggered: bool = False, has_memory: bool = False
    ) -> None:
        """Start at 0.

        Args:
            replay: that has the same steps.
            staggered: whether first episodes are cut short; their returns are not counted.
            has_memory: whether half of D's unlabeled frames come from the agent's whole history.
        """
        rows, worlds, device = replay.layout.rows, replay.layout.worlds, replay.device
        self._replay, self._worlds, self._has_memory = replay, worlds, has_memory
        self._whole = torch.full((worlds,), not staggered, device=device)
        self._episode_return = torch.zeros(worlds, device=device)
        self._finished_return = torch.zeros((), device=device)
        self._finished_count = torch.zeros((), device=device)
        self._succeeded = torch.zeros(rows, worlds, dtype=torch.bool, device=device)
        self._ever = torch.zeros((), dtype=torch.int64, device=device)
        self._steps = self._counted = 0  # `_succeeded` starts anew without a replay, `_ever` not

    def add(self, step: Step) -> None:
        """Count one step of every world."""
        ended = step.truncated | step.terminated
        self._episode_return += step.reward
        counted = ended & self._whole
        self._finished_return += (self._episode_return * counted).sum()
        self._finished_count += counted.sum()
        self._episode_return *= ~ended
        self._whole |= ended
        self._succeeded[self._steps % len(self._succeeded)] = step.success
        self._ever += step.success.sum()
        self._steps += 1
        self._counted += 1

    def read(self) -> dict[str, float]:
        """Return metrics; waits for the device.

        `return` is the mean over episodes that ended since the last call. `true_success` is the
        share of successes among D's unlabeled frames: the true η if all positives are successes.
        """
        values: dict[str, float] = {}
        count = float(self._finished_count)
        if count:
            values["return"] = float(self._finished_return) / count
        self._finished_return.zero_()
        self._finished_count.zero_()
        if self._steps:
            kept = min(self._steps, len(self._succeeded))
            recent = int(self._succeeded.sum()) / (kept * self._worlds)
            ever = int(self._ever) / (self._counted * self._worlds)
            values["true_success"] = (recent + ever) / 2 if self._has_memory else recent
        return values

    def solved_frames(self, most: int) -> Tensor | None:
        """Return frames of successes in the replay, or None if there are too few.

        Args:
            most: number of frames.

        Returns:
            uint8 (frames, channels, height, width).
        """
        replay = self._replay
        if not len(replay) or replay.layout.frame_shape is None:
            return None
        # Its own generator: no other sample may depend on true successes.
        rng = torch.Generator(replay.device).manual_seed(self._steps)
        sampled = replay.sample_steps(_SAMPLED * most, rng)
        solved = sampled[self._succeeded.flatten()[sampled]]
        return replay.arrival_frames(solved[:most]) if len(solved) >= _FEWEST else None

    def tensors(self, *, with_replay: bool) -> dict[str, Tensor]:
        """Return the state for a checkpoint; successes only if the replay is saved too."""
        kept = {name: getattr(self, f"_{name}") for name in _KEPT}
        if not with_replay:
            return kept
        return kept | {
            "success/kept": self._succeeded,
            "success/ever": self._ever,
            "success/steps": torch.tensor(self._steps),
        }

    def facts(self) -> dict[str, int]:
        """Return the successes of the whole run for a checkpoint, and the steps they are of."""
        return {"successes": int(self._ever), "counted_steps": self._counted}

    def end_episodes(self) -> None:
        """Leave out the episodes that are under way: the next step begins new ones."""
        self._episode_return.zero_()
        self._whole.fill_(True)

    def load_tensors(self, saved: Mapping[str, Tensor], facts: Mapping[str, int]) -> None:
        """Load what `tensors` and `facts` returned; facts of an earlier version are 0."""
        self._steps = int(saved.get("success/steps", 0))  # not in checkpoints without a replay
        self._counted = max(self._steps, facts["counted_steps"])
        self._ever.fill_(facts["successes"])
        for name, tensor in self.tensors(with_replay="success/steps" in saved).items():
            tensor.copy_(saved[name])
