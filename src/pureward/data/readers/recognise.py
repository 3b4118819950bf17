# SPDX-License-Identifier: Apache-2.0
"""Which format a path holds: by names of files alone, without any optional package."""

import os
import re
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path

from pureward.data.episodes import SPLITS
from pureward.data.sketches import sketched_dataset
from pureward.errors import InputError

#: Suffix → FFmpeg's demuxer. It is named so that no file can choose one that opens other files,
#: such as a playlist.
DEMUXERS = {
    **dict.fromkeys((".mp4", ".m4v", ".mov"), "mov"),
    **dict.fromkeys((".mkv", ".webm"), "matroska"),
    **dict.fromkeys((".mpg", ".mpeg"), "mpeg"),
    ".avi": "avi",
    ".gif": "gif",
    ".ts": "mpegts",
}


def minari_folder(path: Path) -> Path | None:
    """Return the folder with the data of a path, or of an id in the local cache, or None."""
    for folder in (path / "data", path):
        # Either: a copy that was stopped has one of them, and its reader says which is missing.
        if any((folder / name).is_file() for name in ("metadata.json", "main_data.hdf5")):
            return folder
    root = Path(os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari/datasets")
    cached = root / path / "data"  # NAMESPACE/NAME-v0 is a folder of this name
    is_id = not path.is_absolute() and ".." not in path.parts and not os.path.lexists(path)
    return cached if is_id and (cached / "metadata.json").is_file() else None


def is_minari(path: Path) -> bool:
    """Whether it is a Minari dataset, or the id of one in the local cache."""
    return minari_folder(path) is not None


def is_lerobot(path: Path) -> bool:
    """Whether it is the folder of a LeRobot dataset."""
    return (path / "meta" / "info.json").is_file()


def is_sketches(path: Path) -> bool:
    """Whether it is a folder of sketches, or that of one person in it."""
    return sketched_dataset(path) is not None and path.is_dir()


def _is_file(suffixes: Collection[str], path: Path) -> bool:
    return path.suffix.lower() in suffixes and path.is_file()


is_hdf5 = partial(_is_file, (".hdf5", ".h5"))
is_video = partial(_is_file, DEMUXERS)
is_array = partial(_is_file, (".npy", ".npz"))


def is_image(path: Path) -> bool:
    """Whether it is an image."""
    hidden = path.name.startswith(".")  # such as what macOS leaves beside copied files
    return not hidden and _is_file((".png", ".jpg", ".jpeg"), path)


def is_image_folder(path: Path) -> bool:
    """Whether it is a folder with an image in it."""
    return path.is_dir() and any(map(is_image, path.iterdir()))


def holds(is_episode: Callable[[Path], bool]) -> Callable[[Path], bool]:
    """Return whether a path is an episode, or a folder of episodes or of splits of them."""

    def found(path: Path) -> bool:
        folders = _folders(path) if path.is_dir() else []
        inside = (inner for folder in folders for inner in _listed(folder))
        return is_episode(path) or any(map(is_episode, inside))

    return found


def list_episodes(path: Path, is_episode: Callable[[Path], bool]) -> list[tuple[Path, str]]:
    """Return the episodes of a path in order of their names, each with its split, or "".

    A folder named after a split holds the episodes of that split.
    """
    if is_episode(path):
        return [(path, "")]
    found: list[tuple[Path, str]] = []
    for folder in _folders(path):
        split = "" if folder == path else folder.name
        if not (split and is_episode(folder)):
            inside = sorted(_listed(folder), key=in_order)
            found += [(inner, split) for inner in inside if is_episode(inner)]
    named = {bool(split) for _, split in found}
    if len(named) > 1:
        raise InputError(
            f"{path}: all episodes must be in folders of splits, or none, and some are beside "
            "them; move those"
        )
    if True in named:
        _check_others(path, is_episode)
    return found


def _check_others(path: Path, is_episode: Callable[[Path], bool]) -> None:
    """Refuse folders beside those of splits with episodes, which would not be read."""
    others = [one for one in _listed(path) if one.is_dir() and one.name not in SPLITS]
    unread = sorted(one.name for one in others if any(map(is_episode, _listed(one))))
    if unread:
        raise InputError(
            f"{path}: folders of splits are {', '.join(SPLITS[:-1])} and {SPLITS[-1]}, got "
            f"{', '.join(unread)}; rename or move what has another name"
        )


def in_order(path: Path) -> list[tuple[int, str]]:
    """Return a key that sorts names by the numbers in them: frame_2 comes before frame_10."""
    parts = re.split(r"(\d{1,18})", path.name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _folders(path: Path) -> list[Path]:
    """A folder, and those of splits in it."""
    splits = (path / split for split in SPLITS)
    return [path, *(folder for folder in splits if folder.is_dir() and not folder.is_symlink())]


def _listed(folder: Path) -> Iterator[Path]:
    """What a folder holds without hidden files and links to folders, which may lie elsewhere."""
    for path in folder.iterdir():
        if not path.name.startswith(".") and not (path.is_symlink() and path.is_dir()):
            yield path
