# SPDX-License-Identifier: Apache-2.0
"""An episode and its rewards: frames above aligned tracks, as a figure or a film."""

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
_WIDTH = 9.6  # inches
_SHOT = _WIDTH / (_SHOTS + 1)
_PANEL_HEIGHT = 1.0  # inches
_FILM_DOTS = 80  # per inch: 768 pixels wide
_FILM_FRAME = 256  # pixels of a camera's image in the film
_CURSOR = (220, 30, 30)


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Tracks on one scale."""

    title: str
    tracks: dict[str, tuple[np.ndarray, str]]
    """Label → values (steps,) and matplotlib's format, such as "C1--"."""
    highest: float = 0.1
    """The scale goes at least up to this."""
    threshold: float | None = None
    """Height of a dashed line."""


@dataclass(frozen=True, kw_only=True)
class Strip:
    """One episode: the frames at the arrival of each step, and tracks of the same length."""

    title: str
    frames: np.ndarray
    """uint8 (steps, cameras, height, width, 3)."""
    panels: list[Panel]


def draw_strips(strips: Sequence[Strip]) -> Figure:
    """Draw episodes below each other, each with frames at steps that its tracks mark."""
    heights = [
        0.7 + strip.frames.shape[1] * _SHOT + len(strip.panels) * _PANEL_HEIGHT for strip in strips
    ]
    figure = Figure(figsize=(_WIDTH, sum(heights)), layout="constrained")
    parts = figure.subfigures(len(strips), 1, squeeze=False, height_ratios=heights)[:, 0]
    for part, strip in zip(parts, strips, strict=True):
        _draw_strip(part, strip)
    return figure


def film_strip(strip: Strip, path: Path, frames_per_second: float) -> None:
    """Write a film of an episode above its tracks, with a cursor that moves along them."""
    size = (_WIDTH, _PANEL_HEIGHT * len(strip.panels) + 0.6)
    figure = Figure(figsize=size, dpi=_FILM_DOTS, layout="constrained")
    axes = list(figure.subplots(len(strip.panels), 1, sharex=True, squeeze=False)[:, 0])
    _draw_panels(axes, strip)
    figure.suptitle(strip.title, fontsize=9)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    drawn = np.asarray(canvas.buffer_rgba())[..., :3]
    below = drawn[: len(drawn) // 2 * 2]  # H.264 needs an even height
    points = [(step + 1, 0.0) for step in range(len(strip.frames))]
    columns = axes[0].transData.transform(points)[:, 0].round().astype(int)
    boxes = [axis.get_window_extent() for axis in axes]  # from below
    rows = [slice(len(drawn) - round(box.y1), len(drawn) - round(box.y0)) for box in boxes]
    with video(path, frames_per_second) as write:
        for images, column in zip(strip.frames, columns, strict=True):
            tracks = below.copy()
            for part in rows:  # not over titles and labels
                tracks[part, column : column + 2] = _CURSOR
            write(np.concatenate([_film_row(images, tracks.shape[1]), tracks]))


def _draw_strip(part: SubFigure, strip: Strip) -> None:
    """Draw frames above the middles of equal parts of the tracks."""
    steps, cameras = strip.frames.shape[:2]
    heights = [_SHOT] * cameras + [_PANEL_HEIGHT] * len(strip.panels)
    grid = part.add_gridspec(len(heights), _SHOTS, height_ratios=heights)
    shots = ((np.arange(_SHOTS) + 0.5) * steps / _SHOTS).astype(int)
    for camera in range(cameras):
        for column, shot in enumerate(shots):
            axis = part.add_subplot(grid[camera, column])
            axis.imshow(strip.frames[shot, camera])
            axis.axis("off")
            if camera == 0:
                axis.set_title(f"step {shot + 1}", fontsize=7, pad=2)
    axes = [part.add_subplot(grid[row, :]) for row in range(cameras, len(heights))]
    _draw_panels(axes, strip)
    for axis in axes:
        for shot in shots:
            axis.axvline(shot + 1, color="0.6", linewidth=0.7, linestyle=":")
    part.suptitle(strip.title, fontsize=9)


def _draw_panels(axes: Sequence[Axes], strip: Strip) -> None:
    steps = np.arange(1, len(strip.frames) + 1)
    for axis, panel in zip(axes, strip.panels, strict=True):
        width = 1.4 + 0.7 * len(panel.tracks)
        for label, (values, form) in panel.tracks.items():
            width -= 0.7  # earlier ones are wider, so that equal tracks are both seen
            axis.plot(steps, values, form, label=label, linewidth=width)
        if panel.threshold is not None:
            axis.axhline(panel.threshold, color="0.4", linewidth=0.7, linestyle="--")
        # The scale includes zero, so that a flat track looks flat.
        values = np.concatenate([values for values, _ in panel.tracks.values()])
        low, high = min(0.0, values.min()), max(values.max(), panel.highest)
        axis.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
        axis.set_xlim(0.5, len(steps) + 0.5)
        axis.set_ylabel(panel.title, fontsize=8)
        axis.tick_params(labelsize=7, labelbottom=axis is axes[-1])
        axis.spines[["top", "right"]].set_visible(False)
        if len(panel.tracks) > 1:  # above the panel, where it hides nothing
            place = {"loc": "lower left", "bbox_to_anchor": (0, 0.95)}
            axis.legend(fontsize=7, frameon=False, ncols=3, **place)
    axes[-1].set_xlabel("step", fontsize=8)


def _film_row(images: np.ndarray, width: int) -> np.ndarray:
    """A step's images (cameras, height, width, 3) side by side, centred on black."""
    count, high, wide = images.shape[:3]
    scale = min(_FILM_FRAME / max(high, wide), width / count / wide)
    size = int(wide * scale), max(2, int(high * scale) // 2 * 2)  # H.264 needs an even height
    nearest = Image.Resampling.NEAREST
    large = [np.asarray(Image.fromarray(i).resize(size, nearest)) for i in images]
    spare = width - size[0] * count
    return np.pad(np.concatenate(large, axis=1), ((0, 0), (spare // 2, spare - spare // 2), (0, 0)))
