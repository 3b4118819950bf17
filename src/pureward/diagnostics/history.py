# SPDX-License-Identifier: Apache-2.0
"""A run read back: settings, metrics, its η, and the returns to compare it with."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pureward.diagnostics.verdict import Verdict, find_verdict
from pureward.errors import InputError
from pureward.rewards.methods import METHODS
from pureward.runs.config_file import read_settings
from pureward.runs.directory import RunDirectory
from pureward.runs.log import read_metrics
from pureward.runs.references import find_references, is_number, read_references


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
    """Return of the best behaviour in the run's data, if its card had it."""
    expert_label: str = "expert"
    """Whose return that is, for plots: an expert's or that of the best annotated episode."""
    failure: float | None = None
    """Mean return of the failures in the data, if there are any."""
    demonstrated: float | None = None
    """Share of successes among the frames of the demonstrations, if their card has it."""

    def series(self, kind: str, name: str, by: str = "step") -> np.ndarray:
        """Values of a metric over time, (count, 2): env steps or seconds, and values."""
        points = [(row.get(by), row.get(name)) for row in self.rows if row["kind"] == kind]
        known = [point for point in points if all(map(is_number, point))]
        return np.array(known, dtype=float).reshape(-1, 2)

    def verdict(self) -> Verdict:
        """What its metrics mean for its reward."""
        return find_verdict(self.rows, self.method, self.expert, self.failure)


@dataclass(frozen=True, kw_only=True)
class Eta:
    """η at the end of a run: used, estimated, and by the simulator.

    Demonstrations also hold frames before success. If a share η of the agent's frames is like the
    demonstrations and the rest are not successes, then the share of successes among the agent's
    frames is η times that among the demonstrations. So η is the ratio of the two shares.
    """

    sentence: str
    numbers: dict[str, float]
    """`used`; `estimate`, `low` and `high` of its 95% interval, if η is estimated; `true`,
    `agent_success` and `demonstrated_success`, if known."""


def read_history(run: Path) -> History:
    """Read a run directory, finished or still running."""
    directory = RunDirectory(run)
    config = read_settings(directory, _check_settings)
    rows = read_metrics(directory.metrics) if directory.metrics.is_file() else []
    kept = [{k: v for k, v in row.items() if k == "kind" or is_number(v)} for row in rows]
    return History(
        path=run,
        task=str(config["task"]),
        method=str(config["method"]),
        config=config,
        rows=[row for row in kept if "step" in row],
        **read_references(directory),
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
    found = find_references({"demonstrations": str(folder)})
    best, failure = found.get("expert"), found.get("failure")
    return replace(run, expert=best, expert_label="expert", failure=failure)


def trained_for(run: History) -> tuple[int, float]:
    """Return the env steps and the seconds of training of a run so far."""
    steps = max((row["step"] for row in run.rows), default=0)
    return int(steps), float(max((row.get("seconds", 0.0) for row in run.rows), default=0.0))


def read_eta(run: History) -> Eta | None:
    """Return η at the end of a run; None for methods without η, and before the first line."""
    rows = [row for row in run.rows if row["kind"] == "train" and "prior" in row]
    if not rows or not METHODS[run.method].takes_prior:
        return None
    last = rows[-1]
    sentence, side = f"η is {last['prior']:.2f}", ""
    agent, shown, truth = last.get("true_success"), run.demonstrated, true_eta(run)
    true = None if agent is None or not len(truth) else float(truth[-1, 1])
    value, low, high = (last.get(f"prior/{name}") for name in ("value", "low", "high"))
    if value is not None and low is not None and high is not None:
        sentence = f"η̂ is {value:.2f} (95% interval {low:.2f} to {high:.2f}) and {sentence}"
        if true is not None:
            side = f", {'inside' if low <= true <= high else 'outside'} the interval"
    successes = "" if agent is None else f"{agent:.0%} of the agent's frames are successes"
    if METHODS[run.method].needs_annotations:
        sentence += "; the true η is unknown, since annotated episodes may fail"
    elif agent is None:
        sentence += "; the run has not logged the true share of successes"
    elif true is None:
        sentence += f"; {successes}; the demonstrations' card has no share of successes"
    else:
        sentence += f"; by the simulator it is {true:.2f}{side} "
        sentence += f"({successes}, {shown:.0%} of the demonstrations')"
    numbers = {"used": last["prior"], "true": true, "agent_success": agent}
    numbers |= {"demonstrated_success": shown, "estimate": value, "low": low, "high": high}
    known = {name: number for name, number in numbers.items() if number is not None}
    return Eta(sentence=sentence, numbers=known)


def true_eta(run: History, by: str = "step") -> np.ndarray:
    """Return η by the simulator over a run, (count, 2); empty if it is not known."""
    if not run.demonstrated or METHODS[run.method].needs_annotations:
        return np.empty((0, 2))
    series = run.series("train", "true_success", by)
    series[:, 1] = np.minimum(1.0, series[:, 1] / run.demonstrated)
    return series


def _check_settings(config: Any) -> dict[str, Any]:
    """Check that settings are a run's; an older run may have settings that no longer exist."""
    if not isinstance(config, dict) or not {"task", "method"} <= config.keys():
        raise InputError("it must name a task and a method; it is not the config of a run")
    METHODS[str(config["method"])]
    return config
