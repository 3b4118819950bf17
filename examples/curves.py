# SPDX-License-Identifier: Apache-2.0
"""Measurements of several runs in one JSON file, and their figure; the examples use it."""

from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from pureward.files import read_object, write_json


class Curves:
    """Rows of runs that differ in their seed; the file is rewritten whole after each run."""

    def __init__(self, path: Path, about: str) -> None:
        """Read the runs that are there already."""
        self._path = path
        packages = ("pureward", "torch", "gymnasium")
        versions = {name: version(name) for name in packages}
        self._file: dict[str, Any] = {"about": about, "versions": versions, "runs": []}
        if path.exists():
            self._file["runs"] = read_object(path)["runs"]

    def has(self, row: str, seed: int) -> bool:
        """Whether this run was measured."""
        return any((run["row"], run["seed"]) == (row, seed) for run in self._file["runs"])

    def add(self, row: str, seed: int, **facts: Any) -> None:
        """Add a run: `points` is a list of {"step": …, name: value}."""
        self._file["runs"].append({"row": row, "seed": seed, **facts})
        write_json(self._path, self._file)

    def draw(self, path: Path, names: dict[str, str]) -> None:
        """Draw mean and range over seeds by environment steps, one panel for each name."""
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        from pureward.picture import save_figure

        figure, panels = plt.subplots(1, len(names), figsize=(5.2 * len(names), 3.6), squeeze=False)
        for panel, (name, label) in zip(panels[0], names.items(), strict=True):
            for row in dict.fromkeys(run["row"] for run in self._file["runs"]):
                runs = [run["points"] for run in self._file["runs"] if run["row"] == row]
                steps = [point["step"] for point in runs[0]]
                values = np.array([[point[name] for point in points] for points in runs])
                (line,) = panel.plot(steps, values.mean(0), label=row)
                panel.fill_between(
                    steps, values.min(0), values.max(0), color=line.get_color(), alpha=0.15
                )
            panel.set(xlabel="environment steps", ylabel=label)
            panel.grid(alpha=0.3)
        panels[0][-1].legend(fontsize=7)
        figure.tight_layout()
        save_figure(figure, path)
