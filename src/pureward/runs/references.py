# SPDX-License-Identifier: Apache-2.0
"""The returns to compare a run with: those in the card of its data, copied to its directory."""

import sys
from pathlib import Path
from typing import Any

from pureward.data.sketches import sketched_dataset
from pureward.files import read_object, write_json
from pureward.runs.config import RunConfig
from pureward.runs.directory import RunDirectory

#: Setting that names the data → label of the best return, and its name in the card.
_BEST = {
    "demonstrations": ("expert", "return_mean"),
    "annotations": ("best annotated", "return_max"),
}
_NUMBERS = ("expert", "failure", "demonstrated")


def write_references(directory: RunDirectory, config: RunConfig) -> None:
    """Write the returns in the card of a run's data, if it has one, to the run's directory."""
    found = find_references({name: str(getattr(config, name) or "") for name in _BEST})
    if found:
        write_json(directory.references, found)


def find_references(data: dict[str, str]) -> dict[str, Any]:
    """Return the returns in the first card of a run's data; {} without a card.

    Args:
        data: setting (`demonstrations`, `annotations`) → folder, or "".

    Returns:
        `expert`, `expert_label`, `failure` and `demonstrated`, as in `History`.
    """
    for setting, (label, best) in _BEST.items():
        folder = data.get(setting)
        if not folder:
            continue
        dataset = sketched_dataset(Path(folder)) or Path(folder)
        known = {
            "expert": card_number(dataset, "train", best),
            "failure": card_number(dataset, "failure", "return_mean"),
            "demonstrated": card_number(dataset, "train", "success_share"),
        }
        numbers = {name: value for name, value in known.items() if value is not None}
        if numbers:
            return {"expert_label": label, **numbers}
    return {}


def read_references(directory: RunDirectory) -> dict[str, Any]:
    """Return what `write_references` wrote; values that are damaged are left out."""
    saved = read_object(directory.references)
    labels = [label for label, _ in _BEST.values()]
    label = {"expert_label": saved["expert_label"]} if saved.get("expert_label") in labels else {}
    return label | {name: saved[name] for name in _NUMBERS if is_number(saved.get(name))}


def card_number(folder: Path, split: str, name: str) -> float | None:
    """Return a number of a split from the card of a dataset; None if the card has none."""
    splits = read_object(folder / "card.json").get("splits")
    values = splits.get(split) if isinstance(splits, dict) else None
    value = values.get(name) if isinstance(values, dict) else None
    return value if is_number(value) else None


def is_number(value: Any) -> bool:
    """Whether it is a finite number that fits a float; JSON has integers of any size."""
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max
