# SPDX-License-Identifier: Apache-2.0
"""Pictures of what `prior.py` measured: estimates against the truth, over time where it moves."""

from pathlib import Path

import numpy as np

from prior_digits import OURS


def picture(section: str, found, path: Path) -> None:
    """Draw a section's estimates beside the truth."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(6.4, 4.0))
    _DRAW[section](axis, found)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _draw_digits(axis, found: dict) -> None:
    for method in (m for m in next(iter(found.values())) if m != "interval"):
        shares = sorted(next(iter(found.values()))[method], key=float)
        means = [np.mean([rows[method][a] for rows in found.values()]) for a in shares]
        width = 2.5 if method == OURS else 1.0
        axis.plot([float(a) for a in shares], means, marker="o", ms=3, lw=width, label=method)
    _diagonal(axis, "share of positives among unlabeled digits", "mean estimate")


def _draw_mixtures(axis, rows: list[dict]) -> None:
    for shift, count in ((-0.008, 200), (0.008, 50)):
        part = [r for r in rows if r["demonstrations"] == count]
        value = np.array([r["value"] for r in part])
        below = np.maximum(0, value - [r["low"] for r in part])
        above = np.maximum(0, np.array([r["high"] for r in part]) - value)
        axis.errorbar(
            [r["share"] + shift for r in part], value, [below, above], fmt="o", ms=3, lw=0.8,
            label=f"{count} demonstrations",
        )  # fmt: skip
    _diagonal(axis, "share of success episodes in the buffer", "η̂ with 95% interval")


def _draw_drift(axis, courses: list[list[dict]]) -> None:
    for number, course in enumerate(courses):
        first = number == 0
        axis.plot([r["smoothed"] for r in course], color="C0", lw=1, label="η" if first else None)
        axis.plot([r["value"] for r in course], color="C1", lw=0.6, label="η̂" if first else None)
    axis.plot([r["share"] for r in courses[0]], "k--", lw=1, drawstyle="steps-mid", label="truth")
    axis.set(xlabel="times asked", ylabel="share of success episodes")


def _draw_gap(axis, looks: dict[str, list[list[dict]]]) -> None:
    for number, (look, courses) in enumerate(looks.items()):
        for course in courses:
            label = look if course is courses[0] else None
            axis.plot([r["smoothed"] for r in course], color=f"C{number}", lw=1, label=label)
    axis.axhline(0.5, color="k", ls="--", lw=1, label="truth")
    axis.axhline(0.1, color="k", ls=":", lw=1, label="floor")
    axis.set(xlabel="times asked", ylabel="η", ylim=(0, 1))


def _draw_others(axis, rows: list[dict]) -> None:
    kinds = list(dict.fromkeys((r["prior_name"], r["mixup_weight"]) for r in rows))
    for number, (name, weight) in enumerate(kinds):
        part = [r for r in rows if (r["prior_name"], r["mixup_weight"]) == (name, weight)]
        shift = 0.012 * (number - len(kinds) // 2)
        label = f"vpu, λ = {weight}" if name == "vpu" else name
        shares, values = [r["share"] + shift for r in part], [r["value"] for r in part]
        axis.plot(shares, values, "o", ms=4, label=label)
    _diagonal(axis, "share of success episodes in the buffer", "η̂")


def _diagonal(axis, x: str, y: str) -> None:
    axis.plot([0, 1], [0, 1], "k--", lw=0.8)
    axis.set(xlabel=x, ylabel=y)


_DRAW = {
    "digits": _draw_digits,
    "mixtures": _draw_mixtures,
    "drift": _draw_drift,
    "gap": _draw_gap,
    "others": _draw_others,
}
