# SPDX-License-Identifier: Apache-2.0
"""The picture of a fit: P(success) and η over updates, and the rewards of every kind of frame."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pureward.diagnostics.probe import SOURCES
from pureward.offline.fitter import Fitter
from pureward.picture import save_figure

Rows = Sequence[Mapping[str, Any]]
#: Source of frames → its label and colour, as in the plots of runs.
_KINDS = {
    "train": (SOURCES["train"], "C0"),
    "held_out": (SOURCES["held_out"], "C9"),
    "failure": (SOURCES["failure"], "C3"),
    "replay": ("the logs", "C1"),
}
_BINS = 30


def draw_fit(rows: Rows, fitter: Fitter, path: Path) -> None:
    """Write the picture of a fit.

    Args:
        rows: of its metrics.jsonl.
        fitter: after the last update.
        path: of the PNG file.
    """
    estimated = any("prior/value" in row for row in rows)
    panels = int(fitter.has_discriminator) + int(estimated) + 1
    figure = Figure(figsize=(4.2 * panels, 3.2), layout="constrained")
    axes = list(figure.subplots(1, panels, squeeze=False)[0])
    if fitter.has_discriminator:
        _draw_success(axes.pop(0), rows)
    if estimated:
        _draw_prior(axes.pop(0), rows)
    _draw_rewards(axes[0], fitter)
    for axis in figure.axes:
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(fontsize=7, frameon=False)
    save_figure(figure, path)


def _draw_success(axis: Axes, rows: Rows) -> None:
    for source, (label, colour) in _KINDS.items():
        series = _series(rows, f"success/{source}")
        if len(series):
            axis.plot(*series.T, color=colour, label=label)
    axis.set(xlabel="updates of D", ylabel="P(success)", ylim=(-0.03, 1.03))


def _draw_prior(axis: Axes, rows: Rows) -> None:
    axis.plot(*_series(rows, "prior").T, color="tab:blue", label="η used")
    axis.plot(*_series(rows, "prior/value").T, color="tab:orange", label="η̂ and its 95% interval")
    low, high = _series(rows, "prior/low"), _series(rows, "prior/high")
    axis.fill_between(low[:, 0], low[:, 1], high[:, 1], color="tab:orange", alpha=0.2, linewidth=0)
    axis.set(xlabel="updates of D", ylabel="share of the logs", ylim=(-0.03, 1.03))


def _draw_rewards(axis: Axes, fitter: Fitter) -> None:
    found = {source: values.cpu().numpy() for source, values in fitter.rewards().items()}
    low = min(values.min() for values in found.values())
    high = max(max(values.max() for values in found.values()), low + 1e-6)
    bins = np.linspace(low, high, _BINS + 1)
    for source, values in found.items():
        label, colour = _KINDS[source]
        share = np.full(len(values), 1 / len(values))
        axis.hist(values, bins, weights=share, histtype="step", color=colour, label=label)  # type: ignore
    axis.set(xlabel="learned reward of a frame", ylabel="share of the frames")


def _series(rows: Rows, name: str) -> np.ndarray:
    """A metric over updates, (count, 2)."""
    points = [(row["step"], row[name]) for row in rows if name in row]
    return np.array(points, dtype=float).reshape(-1, 2)
