# SPDX-License-Identifier: Apache-2.0
"""A run read back: its settings, its metrics, and the returns to compare it with."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pureward.diagnostics.verdict import Verdict, find_verdict
from pureward.errors import InputError
from pureward.files import read_object
from pureward.rewards.methods import METHODS
from pureward.runs.config_file import read_settings
from pureward.runs.directory import RunDirectory
from pureward.runs.log import read_metrics


@dataclass(frozen=True, kw_only=True)
class History:
    """What a run directory holds; settings are plain JSON, so that older runs can be read."""

    path: Path
    task: str
    method: str
    config: dict[str, Any]
    rows: list[dict[str, Any]]
    """The lines of metrics.jsonl, with finite numbers only."""
    expert: float | None = None
    """Return of the best behaviour in the run's data, if the dataset's card has it."""
    expert_label: str = "expert"
    """Whose return that is, for plots: an expert's or that of the best annotated episode."""
    failure: float | None = None
    """Mean return of the failures in the data, if there are any."""
    demonstrated: float | None = None
    """Share of successes among the frames of the demonstrations, if their card has it."""
    missing_data: str | None = None
    """Where the run's data was, if it is no longer there."""

    def series(self, kind: str, name: str, by: str = "step") -> np.ndarray:
        """Values of a metric over time, (count, 2): env steps or seconds, and values."""
        rows = [row for row in self.rows if row["kind"] == kind]
        points = [(row.get(by), row.get(name)) for row in rows]
        known = [point for point in points if all(map(_is_number, point))]
        return np.array(known, dtype=float).reshape(-1, 2)

    def verdict(self) -> Verdict:
        """What its metrics mean for its reward."""
        found = find_verdict(
            self.rows, method=self.method, expert=self.expert, failure=self.failure
        )
        if self.expert is not None or self.missing_data is None:
            return found
        note = f"there is no expert to compare with: its data is not at {self.missing_data}"
        return replace(found, sentence=f"{found.sentence} ({note})")


def read_history(run: Path) -> History:
    """Read a run directory, finished or still running."""
    directory = RunDirectory(run)
    config = read_settings(directory, _check_settings)
    rows = read_metrics(directory.metrics) if directory.metrics.is_file() else []
    kept = [{k: v for k, v in row.items() if k == "kind" or _is_number(v)} for row in rows]
    return History(
        path=run,
        task=str(config["task"]),
        method=str(config["method"]),
        config=config,
        rows=[row for row in kept if "step" in row],
        **_references(config),
    )


def read_histories(runs: Sequence[Path]) -> list[History]:
    """Read several run directories, each once, even if it is named several times."""
    if not runs:
        raise InputError("at least one run directory is needed, got none; name some")
    unique: dict[str, Path] = {}
    for run in runs:
        unique.setdefault(os.path.realpath(run), run)
    return [read_history(run) for run in unique.values()]


def against_demonstrations(run: History, folder: Path) -> History:
    """Return the run with the expert and the failures of a dataset to compare with."""
    return replace(
        run,
        expert=card_number(folder, "train", "return_mean"),
        expert_label="expert",
        failure=card_number(folder, "failure", "return_mean"),
    )


def card_number(folder: Path, split: str, name: str) -> float | None:
    """Return a number of a split from the card of a dataset; None if the card has none."""
    values = _splits(folder).get(split)
    value = values.get(name) if isinstance(values, dict) else None
    return value if _is_number(value) else None


def trained_for(run: History) -> tuple[int, float]:
    """Return the env steps and the seconds of training of a run so far."""
    steps = max((row["step"] for row in run.rows), default=0)
    return int(steps), float(max((row.get("seconds", 0.0) for row in run.rows), default=0.0))


def _check_settings(config: Any) -> dict[str, Any]:
    """Check that settings are a run's; an older run may have settings that no longer exist."""
    if not isinstance(config, dict) or not {"task", "method"} <= config.keys():
        raise InputError("it must name a task and a method; it is not the config of a run")
    METHODS[str(config["method"])]
    return config


def _references(config: dict[str, Any]) -> dict[str, Any]:
    """The returns to compare a run with, from the card of its data."""
    missing = None
    labels = {
        "demonstrations": ("expert", "return_mean"),
        "annotations": ("best annotated", "return_max"),
    }
    for setting, (label, best) in labels.items():
        folder = config.get(setting)
        if not folder or not isinstance(folder, str):
            continue
        data = Path(folder)
        if _splits(data):
            failure = card_number(data, "failure", "return_mean")
            known = {"expert_label": label, "expert": card_number(data, "train", best)}
            shown = card_number(data, "train", "success_share")
            return known | {"failure": failure, "demonstrated": shown}
        missing = missing if data.exists() else folder
    return {"missing_data": missing}


def _splits(folder: Path) -> dict[str, Any]:
    """The splits in the card of a dataset; empty without a card, as for foreign datasets."""
    splits = read_object(folder / "card.json").get("splits")
    return splits if isinstance(splits, dict) else {}


def _is_number(value: Any) -> bool:
    """Whether it is a finite number that fits a float; JSON has integers of any size."""
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max
