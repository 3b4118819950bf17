# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: everything a run needs to go on, in folders that are whole or not there.

A checkpoint is a folder `step-N` with `state.safetensors` and `facts.json`. It is written under
another name, flushed to the disk and renamed, so that a kill at any moment leaves the one before.
Nothing in it can execute code.
"""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from pureward.errors import InputError
from pureward.files import PARTIAL, read_object, whole_folder, write_json, write_tensors
from pureward.run.directory import kept_steps, step_name

FORMAT = 1

_TENSORS, _FACTS, _BEST = "state.safetensors", "facts.json", "best.json"


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """What was read back."""

    path: Path
    tensors: dict[str, Tensor]
    facts: dict[str, Any]


def write(folder: Path, step: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> Path:
    """Write the checkpoint of a step; returns its folder."""
    path = folder / step_name(step)
    # A finished run that is resumed writes its last step again.
    with whole_folder(path, again=True) as partial:
        write_tensors(partial / _TENSORS, tensors)
        size = (partial / _TENSORS).stat().st_size
        write_json(partial / _FACTS, {**facts, "format": FORMAT, "step": step, "bytes": size})
    return path


def read_newest(folder: Path) -> Checkpoint | None:
    """The newest complete checkpoint, or None; unfinished ones are passed over."""
    for path in sorted(_complete(folder), reverse=True):
        return read(path)
    return None


def read(path: Path) -> Checkpoint:
    """Read one checkpoint."""
    facts = read_object(path / _FACTS)
    if facts.get("format") != FORMAT:
        raise InputError(
            f"checkpoint {path} has format {facts.get('format')}, this version reads {FORMAT}; "
            "use the version of pureward that wrote it"
        )
    try:
        return Checkpoint(path=path, tensors=load_file(path / _TENSORS), facts=facts)
    except SafetensorError as error:
        raise InputError(
            f"checkpoint {path} cannot be read ({error}); delete it to go on from an older one"
        ) from error


def mark_best(folder: Path, path: Path, score: float) -> None:
    """Remember the checkpoint with the best score, which pruning then spares."""
    if score >= best_score(folder):
        write_json(folder / _BEST, {"checkpoint": path.name, "score": score})


def best_score(folder: Path) -> float:
    """Score of the best checkpoint so far; minus infinity before the first."""
    score = read_object(folder / _BEST).get("score")
    return score if isinstance(score, float) else float("-inf")


def best(folder: Path) -> Path | None:
    """The checkpoint with the best score, if one was marked and is still there."""
    name = read_object(folder / _BEST).get("checkpoint")
    return folder / name if isinstance(name, str) and (folder / name).exists() else None


def prune(folder: Path, keep: int) -> None:
    """Delete all but the newest `keep` checkpoints and the best, and any unfinished ones."""
    spared = best(folder)
    for path in sorted(_complete(folder))[:-keep]:
        if path != spared:
            shutil.rmtree(path)
    for path in folder.glob(f"{PARTIAL}*"):
        shutil.rmtree(path, ignore_errors=True)


def _complete(folder: Path) -> Iterable[Path]:
    """Checkpoints whose two files are there in full."""
    for path in kept_steps(folder):
        tensors, size = path / _TENSORS, read_object(path / _FACTS).get("bytes")
        if tensors.is_file() and tensors.stat().st_size == size:
            yield path


def flattened(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under PREFIX/NAME."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors that `flattened` put under the prefix."""
    start = f"{prefix}/"
    return {
        name.removeprefix(start): tensor
        for name, tensor in tensors.items()
        if name.startswith(start)
    }
