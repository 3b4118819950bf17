# SPDX-License-Identifier: Apache-2.0
"""A figure in numbers: a table of its lines and of the paper's claims, as Markdown and JSON."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pureward.files import whole_file, write_json
from pureward.interval import bootstrap, interquartile_mean
from pureward.paper.figures import Figure
from pureward.paper.results import Mean, Results, UnmeasuredError, mean_of

#: Formats of the columns of the Markdown table that need one.
_FORMATS = {
    "env_steps": "{:,.0f}",
    "of_expert": "{:.0%}",
    "way": "{0.value:.0%}",
    "solved": "{0.value:.0%}",
    "training_seconds": "{:.0f} s",
}
_NOTES = (
    "Return: true, greedy, mean over the last quarter of a run, then over seeds, ± 95% interval "
    "(Student's t). IQM: the mean over seeds without the lowest and the highest quarter, with its "
    "95% bootstrap interval; of fewer than four seeds it is the mean. Solved: share of greedy "
    "episodes over the same quarter. Way: from the mean return of failures (0%) to the expert's "
    "(100%). Area: mean return over the env steps where every run was evaluated, of the lines that "
    "came to their end where some did. Reward error: predicted minus true return of an episode."
)


def line_rows(results: Results, folder: Path) -> list[dict[str, Any]]:
    """Return the numbers of every line; None if not measured. Paths are relative to the folder."""
    rows = []
    for group in results.groups:
        expert, returns = group.runs[0].expert, _mean(group.returns)
        curves = (group.series("eval", "return", by) for by in ("step", "seconds"))
        steps, seconds = ([curve[-1, 0] for curve in own] for own in curves)
        row = {
            "task": group.task,
            "line": group.label,
            "runs": [os.path.relpath(run.path, folder) for run in group.runs],
            "seeds": len(group.runs),
            "env_steps": float(np.mean(steps)) if steps else None,
            "return": returns,
            "iqm": _middle(np.array(returns["each"])) if returns else None,
            "solved": _mean(lambda group=group: group.late("success", ("eval",))),
            "expert": expert,
            "of_expert": returns["mean"] / expert if returns and expert else None,
            "way": _mean(group.ways),
            "area": _mean(lambda group=group: group.area(results.span(group.task))),
            "reward_error": _mean(lambda group=group: group.late("reward_error")),
            "training_seconds": float(np.mean(seconds)) if seconds else None,
        }
        rows.append(row)
    return rows


def claim_rows(figure: Figure, results: Results) -> list[dict[str, str]]:
    """Return every claim of the paper on every task, with its outcome."""
    rows = []
    for task in results.tasks:
        shares = {group.label: group.progress() for group in results.of(task)}
        behind = (f"; {k} made {s:.0%} of its env steps" for k, s in shares.items() if s < 1)
        note = "".join(behind)
        for claim in figure.claims_for(task):
            outcome, numbers = claim.rule.apply(results, task)
            row = {
                "claim": claim.paper,
                "task": task if task in figure.tasks else f"{task} (not in the paper)",
                "rule": claim.rule.text,
                "outcome": outcome,
                "numbers": numbers + note,
            }
            rows.append(row)
    return rows


def write_table(
    path: Path, figure: Figure, results: Results, facts: dict[str, Any]
) -> tuple[Path, Path]:
    """Write PATH.md for people and PATH.json for programs, both with further facts."""
    page, data = (path.with_name(f"{path.name}.{kind}") for kind in ("md", "json"))
    lines, claims = line_rows(results, path.parent), claim_rows(figure, results)
    write_json(data, {"figure": figure.name, **facts, "lines": lines, "claims": claims})
    columns = [name for name in lines[0] if name not in ("runs", "expert")]
    head = [
        name.removesuffix("_seconds").replace("_", " ").replace("iqm", "IQM") for name in columns
    ]
    text = [
        *(f"# {figure.name}: {figure.shows}", ""),
        *_markdown(head, ([_cell(row, name) for name in columns] for row in lines)),
        *("", _NOTES, "", "## What the paper says, and what these runs say", ""),
        *_markdown(("claim", "task", "rule", "outcome", "numbers"), (c.values() for c in claims)),
        "",
        *(f"- {name}: {_fact(value)}" for name, value in facts.items()),
    ]
    with whole_file(page) as partial:
        partial.write_text("\n".join(text) + "\n", encoding="utf-8")
    return page, data


def _mean(values: Callable[[], np.ndarray]) -> dict[str, Any] | None:
    try:
        known = values()
    except UnmeasuredError:
        return None
    mean = mean_of(known)
    return {"mean": mean.value, "ci95": mean.half_width, "each": known.tolist()}


def _middle(values: np.ndarray) -> dict[str, float]:
    low, high = bootstrap(values)
    return {"value": float(interquartile_mean(values)), "low": low, "high": high}


def _cell(row: dict[str, Any], name: str) -> str:
    value = row[name]
    if name == "iqm" and value:
        return "{value:.1f} [{low:.1f}, {high:.1f}]".format_map(value)
    if isinstance(value, dict):
        value = Mean(value["mean"], value["ci95"])
    return "–" if value is None else _FORMATS.get(name, "{}").format(value)


def _fact(value: Any) -> str:
    """A value as text; lists and mappings as their items."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    if isinstance(value, list):
        return "; ".join(map(_fact, value)) or "none"
    return str(value)


def _markdown(head: Sequence[str], body: Iterable[Iterable[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *body]
    return [f"| {' | '.join(cells)} |" for cells in lines]
