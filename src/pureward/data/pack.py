# SPDX-License-Identifier: Apache-2.0
"""Makes datasets small: episodes rounded for drawing."""

from dataclasses import replace

from torch import Tensor

from pureward.data.episodes import Episode

#: What `compact` rounds to: 0.03 mm, 0.002°, and a five-hundredth of a pixel of our cameras.
#: With a power of two the last bits of each mantissa are zero, which compresses well.
GRID = 2.0**-15


def compact(episode: Episode) -> Episode:
    """Return the episode without `state`, its actions and simulator fields rounded to `GRID`.

    Rounded values are float32; rewards are not changed.
    """
    return replace(
        episode,
        state=None,
        actions=None if episode.actions is None else _on_grid(episode.actions),
        simulator={name: _on_grid(value) for name, value in episode.simulator.items()},
    )


def _on_grid(values: Tensor) -> Tensor:
    return (values.double() / GRID).round().mul(GRID).float()
