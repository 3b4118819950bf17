"""Run directories written by hand, for tests of what reads them."""

import json
from pathlib import Path

from pureward.runs.references import find_references


def write_run(
    path: Path, method: str, rows: list[dict], *, task: str = "reach", data: str = "", **settings
) -> Path:
    """A run directory with settings and metrics, and nothing else."""
    path.mkdir(parents=True)
    supervised = method.startswith(("prl", "pnrl", "purl", "nn-purl"))
    where = {"annotations" if supervised else "demonstrations": data}
    config = {"task": task, "method": method, "seed": 0, **where, **settings}
    (path / "config.json").write_text(json.dumps(config))
    (path / "references.json").write_text(json.dumps(find_references(where)))
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_card(
    folder: Path, *, train: float, failure: float, success_share: float | None = None
) -> str:
    """The card of a dataset whose best and mean episodes return the same."""
    folder.mkdir(parents=True)
    splits = {
        "train": {"return_mean": train, "return_max": train},
        "failure": {"return_mean": failure, "return_max": failure},
    }
    if success_share is not None:
        splits["train"]["success_share"] = success_share
    (folder / "card.json").write_text(json.dumps({"splits": splits}))
    return str(folder)


def course(final: float, *, steps: int = 1000, points: int = 5, **late: dict) -> list[dict]:
    """Evaluations that rise in a line from 0 to a return, and other kinds of row beside them."""
    rows = []
    for point in range(1, points + 1):
        at = {"step": steps * point // points, "seconds": 2.0 * point, "updates": point}
        rows.append({"kind": "eval", **at, "return": final * point / points})
        rows.extend({"kind": kind, **at, **values} for kind, values in late.items())
    return rows
