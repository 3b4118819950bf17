# SPDX-License-Identifier: Apache-2.0
"""Rewards that people drew for episodes, in a folder beside the data.

The sketches of data/rated are data/rated.sketches/ANNOTATOR/episode-000003.json, a file for each
episode. `pureward studio` writes them; `read_episodes("data/rated.sketches")` reads them.
"""

import json
import os
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pureward.errors import InputError
from pureward.files import clear_leftovers, locked_folder, read_file, write_json

#: Ending of the folder's name.
SUFFIX = ".sketches"
#: Steps of a sketch; its file then stays below the size limit of JSON files.
MOST_STEPS = 200_000
_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
_FILE = re.compile(r"episode-(\d{6,9})\.json")
_WAIT = 5.0  # seconds for another process to finish writing


class ConflictError(Exception):
    """The stored sketch is newer than the one that a change is based on."""

    def __init__(self, stored: "Sketch"):
        super().__init__(f"revision {stored.revision} is stored")
        self.stored = stored


@dataclass(frozen=True, kw_only=True)
class Sketch:
    """What one person drew for an episode of T steps."""

    rewards: tuple[float | None, ...]
    """(T,), in [0, 1]; None where nothing is drawn. Entry t belongs to frame t + 1."""
    success: tuple[bool | None, ...]
    """(T,), marks of single steps; None where there is no mark."""
    outcome: str = ""
    """Mark of the whole episode: "success", "failure" or ""."""
    revision: int = 0
    """Counts the saves; 0 if it was never saved."""

    @property
    def drawn(self) -> bool:
        """Whether any reward is drawn."""
        return any(value is not None for value in self.rewards)

    def filled(self) -> np.ndarray:
        """Return the rewards with gaps closed by straight lines, float64 (T,); 0 if none is drawn.

        Before the first drawn step and after the last one their values continue.
        """
        at = [step for step, value in enumerate(self.rewards) if value is not None]
        if not at:
            return np.zeros(len(self.rewards))
        values = [value for value in self.rewards if value is not None]
        return np.interp(np.arange(len(self.rewards)), at, values)


def sidecar(dataset: Path) -> Path:
    """Return the folder of the sketches of a dataset."""
    whole = Path(os.path.abspath(dataset))  # "." has no name to add an ending to
    return whole.with_name(whole.name + SUFFIX)


def sketched_dataset(path: Path) -> Path | None:
    """Return the dataset of a folder of sketches, or of one person's in it; None for others."""
    for folder in (path, path.parent):
        if folder.name.endswith(SUFFIX) and folder.name != SUFFIX:
            return folder.with_name(folder.name.removesuffix(SUFFIX))
    return None


def check_annotator(name: str) -> str:
    """Refuse a name that is not one folder's."""
    if not _NAME.fullmatch(name):
        raise InputError(
            "an annotator's name must be 1 to 40 letters, digits, - or _, got "
            f"{name[:60]!r}; choose another"
        )
    return name


def annotators(folder: Path) -> list[str]:
    """Return the names of those who sketched, in order; links are left out."""
    _check_folder(folder)
    if not folder.is_dir():
        return []
    found = [p for p in folder.iterdir() if p.is_dir() and not p.is_symlink()]
    return sorted(path.name for path in found if _NAME.fullmatch(path.name))


def sketched_episodes(folder: Path, annotator: str) -> list[int]:
    """Return the numbers of the episodes that a person has saved, in order."""
    own = folder / check_annotator(annotator)
    _check_folder(folder, own)
    if not own.is_dir():
        return []
    return sorted(int(found[1]) for name in os.listdir(own) if (found := _FILE.fullmatch(name)))


def load_sketch(folder: Path, annotator: str, episode: int) -> Sketch | None:
    """Return a person's sketch of an episode; None if there is none."""
    path = _file(folder, annotator, episode)
    _check_folder(folder, path.parent)
    try:
        value = json.loads(read_file(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not a sketch ({error}); restore or delete it") from error
    return parse_sketch(value, str(path))


def save_sketch(folder: Path, annotator: str, episode: int, sketch: Sketch) -> Sketch:
    """Replace a sketch by one that is based on the stored revision.

    Args:
        folder: of the dataset's sketches; it is made if needed.
        annotator: name of the person.
        episode: its number in the dataset.
        sketch: the new one, with the revision that it is based on.

    Returns:
        The stored sketch, with its new revision.

    Raises:
        ConflictError: if another revision is stored.
    """
    path = _file(folder, annotator, episode)
    _check_folder(folder, path.parent)
    with locked_folder(path.parent, wait=_WAIT):
        clear_leftovers(path.parent)
        stored = load_sketch(folder, annotator, episode)
        nothing = (None,) * len(sketch.rewards)
        known = stored or Sketch(rewards=nothing, success=nothing)
        if known.revision != sketch.revision:
            raise ConflictError(known)
        saved = replace(sketch, revision=known.revision + 1)
        write_json(path, asdict(saved))
    return saved


def parse_sketch(value: Any, where: str) -> Sketch:
    """Return the sketch in a JSON value; refuse anything else."""
    if not isinstance(value, dict):
        raise InputError(f"{where}: a sketch must be a JSON object; restore or delete it")
    rewards, success = value.get("rewards"), value.get("success")
    outcome, revision = value.get("outcome", ""), value.get("revision", 0)
    if not (isinstance(rewards, list) and isinstance(success, list)) or not (
        0 < len(rewards) == len(success) <= MOST_STEPS
    ):
        raise InputError(
            f"{where}: rewards and success must be lists of one length, 1 to {MOST_STEPS:,}; "
            "draw the sketch again"
        )
    for reward in rewards:
        number = isinstance(reward, int | float) and not isinstance(reward, bool)
        if reward is not None and not (number and 0 <= reward <= 1):
            raise InputError(
                f"{where}: rewards must lie in [0, 1] or be null, got {str(reward)[:40]}; draw "
                "the sketch again"
            )
    for mark in success:
        if mark is not None and type(mark) is not bool:
            raise InputError(
                f"{where}: success must be true, false or null, got {str(mark)[:40]}; mark it again"
            )
    if outcome not in ("", "success", "failure"):
        raise InputError(
            f'{where}: outcome must be "success", "failure" or "", got {str(outcome)[:40]!r}; '
            "mark it again"
        )
    if type(revision) is not int or not 0 <= revision < 2**53:
        raise InputError(
            f"{where}: revision must be a count, got {str(revision)[:40]}; reload the page"
        )
    return Sketch(
        rewards=tuple(None if r is None else round(float(r), 4) for r in rewards),
        success=tuple(success),
        outcome=outcome,
        revision=revision,
    )


def _file(folder: Path, annotator: str, episode: int) -> Path:
    return folder / check_annotator(annotator) / f"episode-{episode:06d}.json"


def _check_folder(*folders: Path) -> None:
    """Refuse links: they may lead outside."""
    for folder in folders:
        if folder.is_symlink():
            raise InputError(f"{folder} must be a folder, and is a link; replace or delete it")
