# SPDX-License-Identifier: Apache-2.0
"""An episode and what was thought of it: frames above aligned tracks, as a picture or a film."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure
from PIL import Image

from pureward.picture import video

_SHOTS = 8  # frames above the tracks
_WIDTH = 9.6  # inches, so that a shot is a bit more than one
_PANEL_HEIGHT = 1.0  # inches of a panel of tracks
_FILM_DOTS = 80  # per inch: 768 pixels wide
_FILM_FRAME = 256  # pixels of a camera's image in the film
_CURSOR = (220, 30, 30)


@dataclass(frozen=True, kw_only=True)
class Track:
    """One quantity at every step."""

    label: str
    values: np.ndarray
    colour: str
    style: str = "-"


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Tracks on one scale."""

    title: str
    tracks: list[Track]
    highest: float = 0.1
    """The scale reaches at least so high."""
    threshold: float | None = None
    """Where to draw a line across."""


@dataclass(frozen=True, kw_only=True)
class Strip:
    """One episode: what was seen on arrival at each step, and tracks of the same length."""

    title: str
    frames: np.ndarray
    """uint8 (steps, cameras, height, width, 3)."""
    panels: list[Panel]

    def __len__(self) -> int:
        return len(self.frames)


def draw_strips(strips: Sequence[Strip]) -> Figure:
    """Draw episodes below each other, each with frames at instants marked in its tracks."""
    heights = [_height(strip) for strip in strips]
    figure = Figure(figsize=(_WIDTH, sum(heights)), layout="constrained")
    parts = figure.subfigures(len(strips), 1, squeeze=False, height_ratios=heights)[:, 0]
    for part, strip in zip(parts, strips, strict=True):
        _draw_strip(part, strip)
    return figure


def film_strip(strip: Strip, path: Path, frames_per_second: float) -> None:
    """Write a film of an episode over its tracks, with a cursor that moves along them."""
    figure = Figure(figsize=(_WIDTH, _PANEL_HEIGHT * len(strip.panels) + 0.6), dpi=_FILM_DOTS)
    figure.set_layout_engine("constrained")
    axes = list(figure.subplots(len(strip.panels), 1, sharex=True, squeeze=False)[:, 0])
    _draw_panels(axes, strip)
    figure.suptitle(strip.title, fontsize=9)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    drawn = np.asarray(canvas.buffer_rgba())[..., :3]
    below = drawn[: len(drawn) // 2 * 2]  # a film's height is even
    columns = axes[0].transData.transform([(step + 1, 0.0) for step in range(len(strip))])[:, 0]
    with video(path, frames_per_second) as write:
        for step, column in enumerate(columns.round().astype(int)):
            tracks = below.copy()
            tracks[:, column : column + 2] = _CURSOR
            write(np.concatenate([_centred(strip.frames[step], below.shape[1]), tracks]))


def _height(strip: Strip) -> float:
    cameras = strip.frames.shape[1]
    return 0.7 + cameras * _WIDTH / (_SHOTS + 1) + _PANEL_HEIGHT * len(strip.panels)


def _draw_strip(part: SubFigure, strip: Strip) -> None:
    """Shots stand above the middles of eight equal stretches of the tracks."""
    cameras, panels = strip.frames.shape[1], len(strip.panels)
    shot = _WIDTH / (_SHOTS + 1)
    grid = part.add_gridspec(
        cameras + panels, _SHOTS, height_ratios=[shot] * cameras + [_PANEL_HEIGHT] * panels
    )
    instants = ((np.arange(_SHOTS) + 0.5) * len(strip) / _SHOTS).astype(int)
    for camera in range(cameras):
        for column, instant in enumerate(instants):
            axis = part.add_subplot(grid[camera, column])
            axis.imshow(strip.frames[instant, camera])
            axis.axis("off")
            if camera == 0:
                axis.set_title(f"step {instant + 1}", fontsize=7, pad=2)
    axes = [part.add_subplot(grid[cameras + row, :]) for row in range(panels)]
    _draw_panels(axes, strip)
    for axis in axes:
        for instant in instants:
            axis.axvline(instant + 1, color="0.6", linewidth=0.7, linestyle=":")
    part.suptitle(strip.title, fontsize=9)


def _draw_panels(axes: Sequence[Axes], strip: Strip) -> None:
    steps = np.arange(1, len(strip) + 1)
    for axis, panel in zip(axes, strip.panels, strict=True):
        for track in panel.tracks:
            axis.plot(
                steps,
                track.values,
                color=track.colour,
                linestyle=track.style,
                linewidth=1.4,
                label=track.label,
            )
        if panel.threshold is not None:
            axis.axhline(panel.threshold, color="0.4", linewidth=0.7, linestyle="--")
        axis.set_ylim(*_limits(panel))
        axis.set_xlim(0.5, len(strip) + 0.5)
        axis.set_ylabel(panel.title, fontsize=8)
        axis.tick_params(labelsize=7, labelbottom=axis is axes[-1])
        axis.spines[["top", "right"]].set_visible(False)
        if len(panel.tracks) > 1:  # above the panel, where it hides nothing
            axis.legend(
                fontsize=7, frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 0.95)
            )
    axes[-1].set_xlabel("step", fontsize=8)


def _limits(panel: Panel) -> tuple[float, float]:
    """A scale that begins at zero, so that a flat track looks flat."""
    values = np.concatenate([track.values for track in panel.tracks])
    low, high = min(0.0, values.min()), max(values.max(), panel.highest)
    margin = 0.05 * (high - low)
    return low - margin, high + margin


def _centred(images: np.ndarray, width: int) -> np.ndarray:
    """A step's images (cameras, height, width, 3) beside each other on a black row."""
    size = min(_FILM_FRAME, width // len(images) // 2 * 2)
    large = [
        np.asarray(Image.fromarray(image).resize((size, size), Image.Resampling.NEAREST))
        for image in images
    ]
    row = np.concatenate(large, axis=1)
    left = (width - row.shape[1]) // 2
    right = width - row.shape[1] - left
    return np.pad(row, ((0, 0), (left, right), (0, 0)))
