# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: everything that is needed to resume a run, written atomically.

A checkpoint is a folder `step-N` with `state.safetensors` and `facts.json`. It is written under a
temporary name, flushed to disk and renamed, so a kill at any time leaves the previous one intact.
Nothing in it can execute code.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from torch import Tensor

from pureward.errors import InputError
from pureward.files import (
    clear_leftovers,
    delete_whole,
    open_tensors,
    read_object,
    shapes_in,
    whole_folder,
    write_json,
    write_tensors,
)
from pureward.runs.directory import kept_steps, step_name

FORMAT = 1

_TENSORS, _FACTS = "state.safetensors", "facts.json"


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A checkpoint on disk; its tensors are loaded on first access."""

    path: Path
    facts: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]
    """Shapes of the tensors, from the header of their file."""

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """Every tensor by name.

        Raises:
            InputError: if the file is not as it was written.
        """
        with _opened(self.path) as file:
            found = _sum(self.path / _TENSORS)
            if self.facts.get("sum", found) != found:  # the first checkpoints have none
                raise InputError(
                    f"checkpoint {self.path} is damaged: {_TENSORS} is not as it was written; "
                    "delete it to resume from an older one"
                )
            return {name: file.get_tensor(name) for name in self.shapes}


def write(folder: Path, step: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> Path:
    """Write the checkpoint of a step to FOLDER/step-N and return that path."""
    path = folder / step_name(step)
    # A finished run that is resumed writes its last step again.
    with whole_folder(path, again=True) as partial:
        write_tensors(partial / _TENSORS, tensors)
        size, total = (partial / _TENSORS).stat().st_size, _sum(partial / _TENSORS)
        own = {"format": FORMAT, "step": step, "bytes": size, "sum": total}
        write_json(partial / _FACTS, {**facts, **own})
    return path


def _sum(path: Path) -> int:
    """Return the sum of a file's 64-bit words, which a flipped bit changes.

    A replay has gigabytes, and a sum is several times as fast as a CRC or a hash.
    """
    file = np.memmap(path, np.uint8, "r")
    words = len(file) // 8 * 8
    return int(file[:words].view(np.uint64).sum()) + int.from_bytes(file[words:].tobytes())


def read_newest(folder: Path) -> Checkpoint | None:
    """Return the newest complete checkpoint, or None."""
    newest = max(_complete(folder), default=None)
    return None if newest is None else read(newest)


def read(path: Path) -> Checkpoint:
    """Read one checkpoint.

    Raises:
        InputError: if its format is unknown, or its tensors cannot be read.
    """
    facts = read_object(path / _FACTS)
    if facts.get("format") != FORMAT:
        raise InputError(
            f"checkpoint {path} has format {facts.get('format')}, this version reads {FORMAT}; "
            "use the version of pureward that wrote it"
        )
    with _opened(path) as file:
        return Checkpoint(path=path, facts=facts, shapes=shapes_in(file))


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with open_tensors(path / _TENSORS) as file:
            yield file
    except SafetensorError as error:
        raise InputError(
            f"checkpoint {path} cannot be read ({error}); delete it to resume from an older one"
        ) from error


def best(folder: Path) -> Path | None:
    """Return the complete checkpoint with the highest return, the newest of several equal.

    It is computed from the checkpoints themselves, so a kill cannot lose it.
    """
    scored = [(score, path) for path in _complete(folder) if (score := _score(path)) is not None]
    return max(scored)[1] if scored else None


def _score(path: Path) -> float | None:
    """Return of the policy in a checkpoint; None if the last evaluation was of an earlier one."""
    facts = read_object(path / _FACTS)
    evaluation = facts.get("evaluation")
    if not isinstance(evaluation, dict) or facts.get("evaluated_at") != facts.get("step"):
        return None
    score = evaluation.get("return")
    return score if isinstance(score, int | float) and score == score else None


def prune(folder: Path, keep: int) -> None:
    """Delete all but the newest `keep` checkpoints and the best, and any unfinished ones."""
    kept = best(folder)
    for path in sorted(_complete(folder))[:-keep]:
        if path != kept:
            delete_whole(path)
    clear_leftovers(folder)


def _complete(folder: Path) -> Iterator[Path]:
    """Yield the checkpoints that have both files in full length."""
    for path in kept_steps(folder):
        tensors, size = path / _TENSORS, read_object(path / _FACTS).get("bytes")
        if tensors.is_file() and not tensors.is_symlink() and tensors.stat().st_size == size:
            yield path


def flattened(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors with the names PREFIX/NAME."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors named PREFIX/NAME, without the prefix."""
    start = f"{prefix}/"
    return {name[len(start) :]: value for name, value in tensors.items() if name.startswith(start)}
