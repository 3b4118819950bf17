# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: everything a run needs to go on, in folders that are whole or not there.

A checkpoint is a folder `step-N` with `state.safetensors` and `facts.json`. It is written under
another name, flushed to the disk and renamed, so that a kill at any moment leaves the one before.
Nothing in it can execute code.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

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
    """What was read back; tensors are read when they are asked for."""

    path: Path
    facts: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]
    """Of the tensors, from the header of their file."""

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """Every tensor by name."""
        try:
            with open_tensors(self.path / _TENSORS) as file:
                return {name: file.get_tensor(name) for name in self.shapes}
        except SafetensorError as error:
            raise _unreadable(self.path, error) from error


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
        with open_tensors(path / _TENSORS) as file:
            return Checkpoint(path=path, facts=facts, shapes=shapes_in(file))
    except SafetensorError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> InputError:
    return InputError(
        f"checkpoint {path} cannot be read ({error}); delete it to go on from an older one"
    )


def best(folder: Path) -> Path | None:
    """The complete checkpoint with the highest return of its own; the newest of several equal.

    Derived from the checkpoints themselves, so that no kill can lose it.
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
    spared = best(folder)
    for path in sorted(_complete(folder))[:-keep]:
        if path != spared:
            delete_whole(path)
    clear_leftovers(folder)


def _complete(folder: Path) -> Iterable[Path]:
    """Checkpoints whose two files are there in full."""
    for path in kept_steps(folder):
        tensors, size = path / _TENSORS, read_object(path / _FACTS).get("bytes")
        if tensors.is_file() and not tensors.is_symlink() and tensors.stat().st_size == size:
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
