# SPDX-License-Identifier: Apache-2.0
"""A run read back: its settings, what it measured, and the returns to measure it against."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pureward.diagnostics.verdict import Facts, Verdict, judge
from pureward.errors import InputError
from pureward.files import read_object
from pureward.rewards.methods import METHODS
from pureward.runs.config_file import read_settings
from pureward.runs.directory import RunDirectory
from pureward.runs.log import read_metrics


@dataclass(frozen=True, kw_only=True)
class History:
    """What a run directory tells; settings are plain JSON, so that older runs can be read."""

    path: Path
    config: dict[str, Any]
    rows: list[dict[str, Any]]
    """The lines of metrics.jsonl, their numbers finite."""
    expert: float | None
    """Return of the best behaviour in the run's data, where its card says so."""
    expert_label: str = "expert"
    """Whose return that is, for pictures: of an expert, or of the best annotated episode."""
    failure: float | None
    """Mean return of the failures in it, where there are any."""
    demonstrated: float | None = None
    """Share of successes among the frames of its demonstrations, where their card says so."""
    lost: str | None = None
    """Where data was that it learned from, and is no longer."""

    @property
    def task(self) -> str:
        """The task's name."""
        return str(self.config["task"])

    @property
    def method(self) -> str:
        """The method's name."""
        return str(self.config["method"])

    @property
    def seed(self) -> int:
        """The run's seed."""
        seed = self.config.get("seed", 0)
        return seed if isinstance(seed, int) else 0

    def series(self, kind: str, name: str, by: str = "step") -> np.ndarray:
        """A metric's course, (count, 2): env steps or seconds, and values."""
        rows = [row for row in self.rows if row["kind"] == kind]
        points = [(row.get(by), row.get(name)) for row in rows]
        known = [point for point in points if all(map(_is_number, point))]
        return np.array(known, dtype=float).reshape(-1, 2)

    def verdict(self) -> Verdict:
        """What became of its reward."""
        facts = Facts(method=self.method, expert=self.expert, failure=self.failure)
        told = judge(facts, self.rows)
        if self.expert is not None or self.lost is None:
            return told
        unheld = f"its data is not at {self.lost}, so that its return is held against nothing"
        return replace(told, sentence=f"{told.sentence} ({unheld})")


def read_history(run: Path) -> History:
    """Read a run directory, finished or still at work."""
    directory = RunDirectory(run)
    config = read_settings(directory, _of_a_run)
    rows = read_metrics(directory.metrics) if directory.metrics.is_file() else []
    return History(path=run, config=config, rows=_sound(rows), **_references(config))


def read_histories(runs: Sequence[Path]) -> list[History]:
    """Read several run directories, each once, by whatever names it is given."""
    if not runs:
        raise InputError("at least one run directory is needed, got none; name some")
    named: dict[str, Path] = {}
    for run in runs:
        named.setdefault(os.path.realpath(run), run)
    return [read_history(run) for run in named.values()]


def against_demonstrations(run: History, folder: Path) -> History:
    """The same run, held against the expert of a dataset, whatever it learned from."""
    splits = _card_splits(str(folder))
    return replace(
        run,
        expert=_number(splits, "train", "return_mean"),
        expert_label="expert",
        failure=_number(splits, "failure", "return_mean"),
    )


def _of_a_run(config: Any) -> dict[str, Any]:
    """Settings as they are, if they are a run's: an older one may have others than today's."""
    if not isinstance(config, dict) or not {"task", "method"} <= config.keys():
        raise InputError("it must name a task and a method; it is no run's")
    METHODS[str(config["method"])]
    return config


def _sound(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines without what is NaN or infinite; one with such a step has no place in a course."""
    kept = [{k: v for k, v in row.items() if k == "kind" or _is_number(v)} for row in rows]
    return [row for row in kept if "step" in row]


def _references(config: dict[str, Any]) -> dict[str, Any]:
    """What to hold a run against, from the card of the data that was learned from."""
    lost = None
    for setting, best, label in (
        ("demonstrations", "return_mean", "expert"),
        ("annotations", "return_max", "best annotated"),
    ):
        folder = config.get(setting)
        splits = _card_splits(folder)
        if splits:
            return {
                "expert": _number(splits, "train", best),
                "expert_label": label,
                "failure": _number(splits, "failure", "return_mean"),
                "demonstrated": _number(splits, "train", "success_share"),
            }
        if folder and isinstance(folder, str) and not Path(folder).exists():
            lost = folder
    return {"expert": None, "failure": None, "lost": lost}


def _card_splits(folder: Any) -> dict[str, Any]:
    """The splits of a dataset's card; none where there is no card of ours, which is no fault."""
    if not folder or not isinstance(folder, str):
        return {}
    splits = read_object(Path(folder) / "card.json").get("splits")
    return splits if isinstance(splits, dict) else {}


def card_number(folder: Path, split: str, name: str) -> float | None:
    """A number that the card of a dataset tells of a split; None if it has none such."""
    return _number(_card_splits(str(folder)), split, name)


def _number(splits: dict[str, Any], split: str, name: str) -> float | None:
    """A number that a card tells of a split, or None."""
    told = splits.get(split)
    value = told.get(name) if isinstance(told, dict) else None
    return value if _is_number(value) else None


def _is_number(value: Any) -> bool:
    """Whether it is a number, and none beyond what a float holds: JSON has integers of any size."""
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max
