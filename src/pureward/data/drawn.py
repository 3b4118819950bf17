# SPDX-License-Identifier: Apache-2.0
"""Episodes of a dataset with their frames; the simulator is imported if some have to be drawn."""

from collections.abc import Iterator, Sequence

from pureward.data.dataset import Dataset
from pureward.data.episodes import Episode
from pureward.errors import InputError


def with_frames(dataset: Dataset, numbers: Sequence[int] | None = None) -> Iterator[Episode]:
    """Yield the episodes of a dataset; those of our tasks without frames are drawn.

    Args:
        dataset: with frames, or with simulator states of one of our tasks.
        numbers: of the episodes; None for all.
    """
    painter = None
    for number in range(len(dataset)) if numbers is None else numbers:
        episode = dataset[number]
        if episode.frames is None:
            if dataset.task is None:
                raise InputError(
                    f"{dataset.path}, episode {number}: has no frames, and does not name the task "
                    "to draw them; record it with frames"
                )
            if painter is None:
                from pureward.data.draw import Painter

                painter = Painter(dataset.task)
            episode = painter.draw(episode)
        yield episode
