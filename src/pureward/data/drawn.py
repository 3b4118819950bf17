# SPDX-License-Identifier: Apache-2.0
"""Episodes of a dataset with their frames; the simulator is imported if some have to be drawn."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pureward.data.dataset import Dataset
from pureward.data.episodes import Episode
from pureward.errors import InputError

if TYPE_CHECKING:
    import torch

    from pureward.data.draw import Painter


def with_frames(
    dataset: Dataset, numbers: Sequence[int] | None = None, device: "torch.device | str" = "cpu"
) -> Iterator[Episode]:
    """Yield the episodes of a dataset; those of our tasks without frames are drawn.

    Args:
        dataset: with frames, or with simulator states of one of our tasks.
        numbers: of the episodes; None for all.
        device: where frames are drawn.
    """
    painter = None
    for number in range(len(dataset)) if numbers is None else numbers:
        episode = dataset[number]
        if episode.frames is None:
            painter = painter or painter_of(dataset, device)
            episode = painter.draw(episode)
        yield episode


def painter_of(dataset: Dataset, device: "torch.device | str" = "cpu") -> "Painter":
    """Return what draws the frames of a dataset that has states only."""
    if dataset.task is None:
        raise InputError(
            f"{dataset.path} has no frames, and does not name the task to draw them; record it "
            "with frames"
        )
    from pureward.data.draw import Painter

    return Painter(dataset.task, str(device))
