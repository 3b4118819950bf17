# SPDX-License-Identifier: Apache-2.0
"""Pictures of a fit and of a leak check."""

from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from pureward.diagnostics.history import read_history
from pureward.diagnostics.lines import lines
from pureward.diagnostics.plot import PRIOR, SOURCE_COLOURS, SUCCESS, draw_shares
from pureward.diagnostics.probe import SOURCES
from pureward.offline.fitter import Fitter
from pureward.offline.leak import LEAST_SPREAD, LeakReport
from pureward.offline.verdict import LOGS
from pureward.picture import cameras, save_figure

_LABELS = SOURCES | {"replay": LOGS}
_BINS = 30
_LONGEST_NAME = 28  # characters of a title
_MOST_SIGMA = 3.0  # end of the colour scale


def draw_fit(fitter: Fitter, path: Path) -> None:
    """Write the picture of a fit.

    Args:
        fitter: after the last update.
        path: of the PNG file, in the folder of the fit.
    """
    (line,) = lines([read_history(path.parent)])
    shown = [SUCCESS] if fitter.has_discriminator else []
    shown += [PRIOR] if line.series("train", "prior/value") else []
    figure = Figure(figsize=(4.2 * (len(shown) + 1), 3.2), layout="constrained")
    *axes, last = figure.subplots(1, len(shown) + 1, squeeze=False)[0]
    for axis, metric in zip(axes, shown, strict=True):
        draw_shares(axis, line, metric, labels=_LABELS | {"replay": fitter.probed_logs})
        label = "P(success)" if metric == SUCCESS else "share of the logs"
        axis.set(xlabel="updates of D", ylabel=label)
    _draw_rewards(last, fitter)
    for axis in figure.axes:
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(fontsize=7, frameon=False)
    save_figure(figure, path)


def _draw_rewards(axis: Axes, fitter: Fitter) -> None:
    found = {source: values.cpu().numpy() for source, values in fitter.rewards().items()}
    low = min(values.min() for values in found.values())
    high = max(max(values.max() for values in found.values()), low + 1e-6)
    bins = np.linspace(low, high, _BINS + 1)
    for source, values in found.items():
        share, style = np.full(len(values), 1 / len(values)), {"histtype": "step"}
        style |= {"color": SOURCE_COLOURS[source], "label": _LABELS[source]}
        axis.hist(values, bins, weights=share, **style)  # type: ignore
    axis.set(xlabel="learned reward of a frame", ylabel="share of the frames")


def draw_leak(leak: LeakReport, names: tuple[str, str], path: Path) -> None:
    """Write what a leak check looked at.

    A frame of either side; the pixels where their means differ, in standard deviations; where
    differences of neighbours differ, as after compression; and the held-out scores.

    Args:
        leak: the report.
        names: of both sides.
        path: of the PNG file.
    """
    figure = Figure(figsize=(14.5, 3.1), layout="constrained")
    axes = list(figure.subplots(1, 5, width_ratios=(1, 1, 1.2, 1.2, 1.3)))
    for axis, frames, name in zip(axes, leak.frames, names, strict=False):
        axis.imshow(np.concatenate(cameras(frames[:1]), axis=2)[0])
        axis.set_title(
            name if len(name) < _LONGEST_NAME else f"…{name[-_LONGEST_NAME:]}", fontsize=9
        )
    first, second = (frames.float() for frames in leak.frames)
    for axis, pair, title in (
        (axes[2], (first, second), "difference of the means, in σ"),
        (axes[3], (_rough(first), _rough(second)), "difference of fine detail, in σ"),
    ):
        shown = axis.imshow(_effect(*pair), cmap="magma", vmin=0, vmax=_MOST_SIGMA)
        axis.set_title(title, fontsize=9)
        figure.colorbar(shown, ax=axis, shrink=0.8)
    for axis in axes[:4]:
        axis.set_axis_off()
    best, count = leak.cues[0], len(first)
    scores = best.scores.numpy()
    bins = np.linspace(scores.min(), scores.max() + 1e-9, 25)
    for values, name in ((scores[:count], names[0]), (scores[count:], names[1])):
        axes[4].hist(values, bins, alpha=0.6, label=name[-_LONGEST_NAME:])  # type: ignore
    axes[4].set_title(f"held-out scores by {best.name}: AUC {best.auc:.2f}", fontsize=9)
    axes[4].legend(fontsize=7, frameon=False)
    verdict = f"leak by {best.name}" if leak.found else "no leak found"
    figure.suptitle(f"{verdict} (AUC {best.auc:.2f}, by chance at most {best.chance:.2f})")
    save_figure(figure, path)


def _rough(frames: Tensor) -> Tensor:
    """Size of the second differences at each pixel."""
    across = frames[..., 1:-1, 2:] - 2 * frames[..., 1:-1, 1:-1] + frames[..., 1:-1, :-2]
    down = frames[..., 2:, 1:-1] - 2 * frames[..., 1:-1, 1:-1] + frames[..., :-2, 1:-1]
    return across.abs() + down.abs()


def _effect(first: Tensor, second: Tensor) -> np.ndarray:
    """Difference of the means of each pixel in standard deviations, cameras side by side."""
    spread = ((first.var(0) + second.var(0)) / 2 + LEAST_SPREAD**2).sqrt()
    effect = ((first.mean(0) - second.mean(0)).abs() / spread).unflatten(0, (-1, 3)).amax(1)
    return torch.cat(list(effect), dim=1).numpy()
