# SPDX-License-Identifier: Apache-2.0
"""Sweeps: a TOML file of settings and of lists of values; every combination is a run.

task = "reach"
demonstrations = "data/demos"

[vary]
method = ["gail", "nn-pugail"]
seed = [0, 1, 2]
"""

import itertools
import math
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pureward.distributed.jobs import Executor, Job, Outcome, Printer, run_jobs
from pureward.distributed.training import Training
from pureward.envs.making import check_importable
from pureward.errors import InputError
from pureward.files import whole_file
from pureward.interval import half_width
from pureward.rewards.methods import METHODS, default_method
from pureward.runs.config import RunConfig
from pureward.runs.config_file import read_toml
from pureward.runs.directory import RunDirectory
from pureward.runs.log import read_metrics
from pureward.training.presets import preset
from pureward.training.supervision import check_supervision

_VARY = "vary."
_MOST_RUNS = 10_000
_TABLE_SECONDS = 5.0  # between two writings of the table
_SHOWN = ("return", "success")  # in the table, of a run's last evaluation


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """The runs of a sweep."""

    out: Path
    varied: tuple[str, ...]
    """Names of the settings that differ between runs."""
    runs: tuple[Training, ...]
    values: tuple[tuple[Any, ...], ...]
    """Of each run, the values of the varied settings."""


def read_sweep(path: Path, *, out: Path | None = None, device: str = "") -> Sweep:
    """Return the runs of a file; raises InputError for a bad setting in any of them.

    Args:
        path: the TOML file: settings as in `pureward train --config`, `preset`, and the table
            `vary` of settings with lists of values.
        out: folder of the runs; by default that of the file, or runs/ and the file's name.
        device: of the runs; by default that of the file.
    """
    settings = read_toml(path)
    varied = {k.removeprefix(_VARY): settings.pop(k) for k in list(settings) if k.startswith(_VARY)}
    for name, values in varied.items():
        if not isinstance(values, list) or not values:
            one = f"[{values!r}] for one" if values != [] else "at least one, or leave it out"
            raise InputError(f"vary.{name} must be a list of values, got {values!r}; write {one}")
    count = math.prod(map(len, varied.values())) if varied else 0
    if not 0 < count <= _MOST_RUNS:
        raise InputError(
            f"a sweep has a table [vary] of lists and at most {_MOST_RUNS:,} runs, got {count:,} "
            f"in {path}; add lists, such as seed = [0, 1, 2], or shorten them"
        )
    folder = Path(out or RunConfig(out=settings.get("out", f"runs/{path.stem}")).out)
    settings |= {"device": device} if device else {}
    # Seeds vary slowest, so that every combination has its first result early.
    names = sorted(varied, key=lambda name: name != "seed")
    runs, chosen = [], []
    for values in itertools.product(*(varied[name] for name in names)):
        own = dict(zip(names, values, strict=True))
        config = _config(settings | own, folder / _name(own))
        runs.append(Training(config=config))
        chosen.append(tuple(own[name] for name in varied))
    _check(path, runs)
    return Sweep(out=folder, varied=tuple(varied), runs=tuple(runs), values=tuple(chosen))


def _config(settings: Mapping[str, Any], out: Path) -> RunConfig:
    """The settings of a run, without data that its method does not use."""
    chosen = {**settings, "out": str(out)}
    task, name = chosen.pop("task", "walker"), chosen.pop("preset", "fast")
    method = chosen.setdefault("method", default_method(chosen))
    for data in ("demonstrations", "annotations"):
        if isinstance(method, str) and METHODS[method].positives != data:
            chosen.pop(data, None)
    return preset(task, name, **chosen)


def _name(own: Mapping[str, Any]) -> Path:
    """Folder of a run: its varied settings, and below it the seed."""
    words = []
    for name, value in own.items():
        text = "-".join(map(str, value)) if isinstance(value, list) else str(value)
        prefix = "" if name in ("task", "method") else f"{name.rpartition('.')[2]}-"
        words += [prefix + text] * (name != "seed")
    parts = ["-".join(words), f"seed-{own['seed']}" if "seed" in own else ""]
    return Path(*(re.sub(r"[^\w.+-]+", "_", part).strip("._")[:200] for part in parts if part))


def _check(path: Path, runs: Iterable[Training]) -> None:
    """Refuse two runs of one folder, and folders that hold a run with other settings."""
    seen: set[Path] = set()
    for run in runs:
        if run.out in seen:
            raise InputError(
                f"every run of a sweep has its own folder, and {path} has two for {run.out}; "
                "remove a value that is there twice"
            )
        seen.add(run.out)
        run.check_settings()


def check_data(sweep: Sweep) -> None:
    """Raise InputError if data of a run that is not finished is missing; only names are read."""
    left = [run.config for run in sweep.runs if not run.finished()]
    for config in {(c.demonstrations, c.annotations, c.failures): c for c in left}.values():
        check_supervision(config)


def run_sweep(sweep: Sweep, executor: Executor) -> list[Outcome]:
    """Run what is not finished; OUT/table.md shows all runs while they train, and at the end."""
    for run in sweep.runs:
        check_importable(run.config.task)
    watcher = _Writer(sweep)
    try:
        return run_jobs(sweep.runs, executor, watcher)
    finally:
        watcher.write()


class _Writer(Printer):
    """Keeps the table up to date."""

    def __init__(self, sweep: Sweep) -> None:
        super().__init__(sweep.out, sweep.runs)
        self.sweep, self.written = sweep, 0.0

    def on_poll(self, job: Job) -> None:
        if time.monotonic() - self.written > _TABLE_SECONDS:
            self.write()

    def write(self) -> None:
        """Write the table."""
        self.sweep.out.mkdir(parents=True, exist_ok=True)
        with whole_file(self.sweep.out / "table.md") as partial:
            partial.write_text(table(self.sweep, self.states), encoding="utf-8")
        self.written = time.monotonic()


def table(sweep: Sweep, states: Mapping[Path, str]) -> str:
    """Return all runs as a Markdown table, and means over seeds if these are varied.

    Args:
        sweep: whose run directories are read.
        states: of runs that are or were started, by their directory.
    """
    rows, returns = [], []
    for run, values in zip(sweep.runs, sweep.values, strict=True):
        path = RunDirectory(run.out).metrics
        metrics = read_metrics(path) if path.exists() else []
        last = next((row for row in reversed(metrics) if row["kind"] == "eval"), {})
        state = "finished" if run.finished() else states.get(run.out, "waiting")
        steps = f"{metrics[-1]['step'] if metrics else 0:,} of {run.config.env_steps:,}"
        numbers = ["–" if name not in last else f"{last[name]:.3g}" for name in _SHOWN]
        rows.append([*map(str, values), state, steps, *numbers])
        returns.append(last.get("return"))
    lines = _markdown([*sweep.varied, "state", "env steps", *_SHOWN], rows)
    if "seed" in sweep.varied:
        lines += ["", *_means(sweep, returns)]
    return "\n".join(lines) + "\n"


def _means(sweep: Sweep, returns: list[float | None]) -> list[str]:
    """A table of mean returns over seeds, with the 95% half-width."""
    seed = sweep.varied.index("seed")
    groups: dict[tuple[str, ...], list[float]] = {}
    for values, found in zip(sweep.values, returns, strict=True):
        others = tuple(str(v) for place, v in enumerate(values) if place != seed)
        groups.setdefault(others, []).extend([] if found is None else [found])
    rows = []
    for others, known in groups.items():
        mean = f"{np.mean(known):.1f}" if known else "–"
        mean += f" ± {half_width(np.array(known)):.1f}" if len(known) > 1 else ""
        rows.append([*others, str(len(known)), mean])
    others = [name for name in sweep.varied if name != "seed"]
    return _markdown([*others, "seeds", "mean return of the last evaluations, 95%"], rows)


def _markdown(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ([cell.ljust(w) for cell, w in zip(line, widths, strict=True)] for line in lines)
    return [f"| {' | '.join(cells)} |" for cells in padded]
