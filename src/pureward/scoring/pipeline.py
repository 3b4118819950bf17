# SPDX-License-Identifier: Apache-2.0
"""Scores episodes: one thread reads and decodes frames, another computes their rewards."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import torch
from torch import Tensor

from pureward.data.dataset import Dataset
from pureward.data.draw import with_frames
from pureward.data.episodes import Episode
from pureward.data.lazy import LazyFrames
from pureward.data.prefetch import handed_over, prefetched
from pureward.errors import InputError
from pureward.rewards.learned import LearnedReward

_FRAMES = {"cpu": 256, "cuda": 2048}  # of a batch
_WAITING = {"cpu": 1, "cuda": 16}  # batches after which the host waits for the device
# Kind of a reward → names of the values of a frame; D and r_φ if they are not the reward.
_COLUMNS = {
    "imitation": ["reward", "D"],
    "regression": ["reward"],
    "gated": ["reward", "D", "r_phi"],
}


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Frames of one or more episodes, in the order of the dataset."""

    frames: Tensor
    """uint8 (rows, channels, height, width): clips, each after the frames that its stacks need."""
    stacks: Tensor | None
    """Rows of the frames in each stack, int64 (stacks, stack); None if a stack is one frame."""
    clips: list[tuple[int, int, bool]]
    """Of each clip: number of its episode, its frames, and whether they are the episode's last."""


def score_episodes(
    reward: LearnedReward, dataset: Dataset, numbers: Sequence[int]
) -> Iterator[tuple[int, Tensor]]:
    """Yield episodes' numbers with the values of all their frames, (columns, T + 1) on the CPU.

    The rows are those that `columns` names. Frames are stacked as in training: at the start of an
    episode its first frame is repeated.

    Args:
        reward: its frames must have the size of the dataset's.
        dataset: episodes with frames, or with states of one of our tasks to draw them from.
        numbers: of the episodes to score.
    """
    kind = reward.device.type
    episodes = zip(numbers, with_frames(dataset, numbers), strict=True)
    first = next(episodes, None)
    if first is None:
        return
    shape = _shape(first[1])
    stack = stack_of(reward, shape, dataset.path)
    made = batches(_checked(chain([first], episodes), shape, dataset.path), stack, _FRAMES[kind])
    ready = prefetched(_pinned(made) if kind == "cuda" else made)
    waiting: list[tuple[Batch, Tensor]] = []
    begun: list[Tensor] = []  # of the episode whose last frames are still to come
    for batch in ready:
        waiting.append((batch, _values(reward, batch)))
        if len(waiting) == _WAITING[kind]:
            yield from _finished(waiting, begun)
            waiting = []
    yield from _finished(waiting, begun)


def columns(reward: LearnedReward) -> list[str]:
    """Return the names of the values of a frame."""
    return _COLUMNS[reward.spec.reward]


def stack_of(reward: LearnedReward, shape: tuple[int, ...], where: Path | None) -> int:
    """Return how many frames a reward sees at once; refuse frames that it does not fit.

    Args:
        reward: a learned reward.
        shape: channels, height and width of the frames.
        where: their dataset, for the error.
    """
    spec, network = reward.spec, reward.spec.network
    if shape[1:] != (network.height, network.width):
        raise InputError(
            f"{where}: the reward sees frames of {network.height}×{network.width}, got "
            f"{shape[1]}×{shape[2]}; read them with that size, or choose another reward"
        )
    stack, rest = divmod(network.frame_channels, shape[0])
    if rest or (spec.stack and spec.stack != stack):
        raise InputError(
            f"{where}: the reward sees {spec.channels}, and a frame here has {shape[0] // 3} "
            f"image{'s' if shape[0] > 3 else ''}; choose the cameras that it was trained on, "
            "with images, here or in the import that made the dataset"
        )
    return stack


def batches(
    episodes: Iterable[tuple[int, Episode]], stack: int, size: int = 256
) -> Iterator[Batch]:
    """Yield the frames of episodes in batches of about `size`.

    Args:
        episodes: numbers and episodes with frames.
        stack: frames of a stack.
        size: frames of a clip at most, and of a batch at least, but for the last one.
    """
    clips: list[tuple[int, int, bool]] = []
    parts: list[Tensor] = []
    for number, episode in episodes:
        frames, done = episode.frames, 0
        assert frames is not None
        before: Tensor | None = None
        for clip in frames.clips(size) if isinstance(frames, LazyFrames) else frames.split(size):
            done += len(clip)
            clips.append((number, len(clip), done == len(frames)))
            if stack > 1:
                before = clip[:1].expand(stack - 1, -1, -1, -1) if before is None else before
                clip = torch.cat([before, clip])
                before = clip[1 - stack :]
            parts.append(clip)
            if sum(count for _, count, _ in clips) >= size:
                yield _joined(parts, clips, stack)
                clips, parts = [], []
    if clips:
        yield _joined(parts, clips, stack)


def _joined(parts: list[Tensor], clips: list[tuple[int, int, bool]], stack: int) -> Batch:
    frames = handed_over(parts)
    if stack == 1:
        return Batch(frames=frames, stacks=None, clips=clips)
    starts = torch.tensor([0, *(len(part) for part in parts)]).cumsum(0).tolist()
    first = [torch.arange(count) + at for (_, count, _), at in zip(clips, starts, strict=False)]
    return Batch(frames=frames, stacks=torch.cat(first)[:, None] + torch.arange(stack), clips=clips)


def _pinned(made: Iterator[Batch]) -> Iterator[Batch]:
    """Batches in memory that the device can copy by itself."""
    for batch in made:
        stacks = None if batch.stacks is None else batch.stacks.pin_memory()
        yield replace(batch, frames=batch.frames.pin_memory(), stacks=stacks)


@torch.no_grad()
def _values(reward: LearnedReward, batch: Batch) -> Tensor:
    """The columns of a batch, (columns, stacks), on the reward's device."""
    frames = batch.frames.to(reward.device, non_blocking=True)
    if batch.stacks is not None:
        frames = frames[batch.stacks.to(reward.device, non_blocking=True)].flatten(1, 2)
    scores = reward.scores(frames)
    values = {"reward": reward.from_scores(scores), "D": scores[0].sigmoid(), "r_phi": scores[-1]}
    return torch.stack([values[name] for name in columns(reward)])


def _finished(
    waiting: list[tuple[Batch, Tensor]], begun: list[Tensor]
) -> Iterator[tuple[int, Tensor]]:
    """The episodes whose last frames are in these batches; the rest stays in `begun`."""
    if not waiting:
        return
    values = torch.cat([part for _, part in waiting], dim=1).cpu()
    clips = [clip for batch, _ in waiting for clip in batch.clips]
    for (number, _, last), part in zip(
        clips, values.split([count for _, count, _ in clips], dim=1), strict=True
    ):
        begun.append(part)
        if last:
            yield number, torch.cat(begun, dim=1)
            begun.clear()


def _checked(
    episodes: Iterable[tuple[int, Episode]], shape: tuple[int, ...], where: Path | None
) -> Iterator[tuple[int, Episode]]:
    for number, episode in episodes:
        if _shape(episode) != shape:
            raise InputError(
                f"{where}, episode {number}: frames must be {shape} (channels, height, width) as "
                f"in the first episode, got {_shape(episode)}; drop that episode"
            )
        yield number, episode


def _shape(episode: Episode) -> tuple[int, ...]:
    assert episode.frames is not None, "`with_frames` draws them"
    return tuple(episode.frames.shape[1:])
