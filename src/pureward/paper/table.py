# SPDX-License-Identifier: Apache-2.0
"""A figure in numbers: a table of its lines, and what became of the paper's claims."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pureward.files import whole_file, write_json
from pureward.paper.figure import Figure
from pureward.paper.numbers import Group, Results, UnmeasuredError, mean_of

_HEAD = (
    *("task", "line", "seeds", "env steps", "return", "of expert", "way", "area"),
    *("reward error", "training"),
)
_NOTES = (
    "Return: true, greedy, mean over the last quarter of a run, then over seeds, ± 95% interval "
    "(Student's t). Way: from the mean return of failures (0%) to the expert's (100%). Area: mean "
    "return over the env steps where every run was evaluated, of the lines that came to their end "
    "where some did. Reward error: predicted minus true return of an episode."
)


def rows(results: Results, folder: Path) -> list[dict[str, Any]]:
    """The numbers of every line; None where they were not measured. Paths are the folder's."""
    return [_row(results, group, folder) for group in results.groups]


def judged(figure: Figure, results: Results) -> list[dict[str, str]]:
    """Every claim of the paper on every task it is made for, with what was found."""
    found = []
    for task in results.tasks:
        ways = {group.label: group.progress() for group in results.of(task)}
        behind = [
            f"{label} had come {way:.0%} of its way" for label, way in ways.items() if way < 1
        ]
        early = "".join(f"; {line}" for line in behind)
        for claim in figure.claims_for(task):
            finding = claim.judge(results, task)
            found.append(
                {
                    "claim": claim.paper,
                    "task": task if task in claim.tasks else f"{task} (the paper has not)",
                    "rule": claim.rule.says,
                    "outcome": finding.outcome,
                    "numbers": finding.told + early,
                }
            )
    return found


def write_table(path: Path, figure: Figure, results: Results, facts: dict[str, Any]) -> None:
    """Write PATH.md for people and PATH.json for programs."""
    lines, claims = rows(results, path.parent), judged(figure, results)
    write_json(
        path.with_name(f"{path.name}.json"),
        {"figure": figure.name, **facts, "lines": lines, "claims": claims},
    )
    page = [f"# {figure.name}: {figure.shows}", "", *_table(_HEAD, map(_told, lines)), "", _NOTES]
    page += ["", "## What the paper says, and what these runs say", ""]
    head = ("claim", "task", "rule", "outcome", "numbers")
    page += _table(head, [[row[name] for name in head] for row in claims])
    page += ["", *(f"- {name}: {_fact(value)}" for name, value in facts.items())]
    with whole_file(path.with_name(f"{path.name}.md")) as partial:
        partial.write_text("\n".join(page) + "\n", encoding="utf-8")


def _fact(value: Any) -> str:
    """A number, or what a list holds, for people."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    if isinstance(value, list):
        return "; ".join(map(_fact, value)) or "none"
    return str(value)


def _row(results: Results, group: Group, folder: Path) -> dict[str, Any]:
    expert = group.runs[0].expert
    steps, seconds = group.trained()
    returns = _mean(group.returns)
    return {
        "task": group.task,
        "line": group.label,
        "runs": [os.path.relpath(run.path, folder) for run in group.runs],
        "seeds": len(group.runs),
        "env_steps": float(steps.mean()) if len(steps) else None,
        "return": returns,
        "expert": expert,
        "of_expert": returns["mean"] / expert if returns and expert else None,
        "way": _mean(group.ways),
        "area": _mean(lambda: group.area(results.span(group.task))),
        "reward_error": _mean(lambda: group.late("reward_error")),
        "training_seconds": float(seconds.mean()) if len(seconds) else None,
    }


def _mean(values: Callable[[], np.ndarray]) -> dict[str, Any] | None:
    try:
        known = values()
    except UnmeasuredError:
        return None
    mean = mean_of(known)
    return {"mean": mean.value, "ci95": mean.half_width, "each": known.tolist()}


def _told(row: dict[str, Any]) -> list[str]:
    return [
        row["task"],
        row["line"],
        str(row["seeds"]),
        _or_dash(row["env_steps"], "{:,.0f}"),
        _interval(row["return"]),
        _or_dash(row["of_expert"], "{:.0%}"),
        _or_dash(row["way"] and row["way"]["mean"], "{:.0%}"),
        _interval(row["area"]),
        _interval(row["reward_error"]),
        _or_dash(row["training_seconds"], "{:.0f} s"),
    ]


def _interval(value: dict[str, Any] | None) -> str:
    if value is None:
        return "–"
    spread = "" if value["ci95"] is None else f" ± {value['ci95']:.1f}"
    return f"{value['mean']:.1f}{spread}"


def _or_dash(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def _table(head: Sequence[str], body) -> list[str]:
    lines = [head, ["---"] * len(head), *body]
    return [f"| {' | '.join(cells)} |" for cells in lines]
