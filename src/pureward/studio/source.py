# SPDX-License-Identifier: Apache-2.0
"""A dataset that the page shows: its episodes, and their frames as images without loss."""

import os
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from threading import RLock
from typing import Any

from pureward.data.dataset import read_episodes
from pureward.data.draw import Painter, painter_of
from pureward.data.episodes import Episode
from pureward.data.sketches import (
    Sketch,
    annotators,
    load_sketch,
    save_sketch,
    sidecar,
    sketched_dataset,
    sketched_episodes,
)
from pureward.errors import InputError
from pureward.studio.strips import Strips, to_png

_DRAWN = 4  # frames of one strip, if they must be drawn first: that takes long
_OPEN = 2  # episodes in memory
_KEPT = 512  # drawn strips in memory


def short_names(paths: Sequence[Path]) -> list[str]:
    """Return the shortest end of each path that tells it apart from the others."""
    parts = [Path(os.path.abspath(path)).parts for path in paths]
    names = []
    for own in parts:
        others, count = [one for one in parts if one != own], 1
        while any(one[-count:] == own[-count:] for one in others):
            count += 1
        names.append(str(Path(*own[-count:])))
    return names


class Source:
    """A dataset of any format; its files are read by one thread at a time."""

    def __init__(self, path: Path, images: tuple[str, ...] = ()) -> None:
        """Open a dataset; read no episode.

        Args:
            path: of the dataset.
            images: cameras to show, if it names several.
        """
        if not path.exists():
            raise InputError(f"{path} is no file or folder; check the path")
        if sketched_dataset(path) is not None:
            raise InputError(
                f"{path} holds sketches; name the dataset beside it, and they are shown with it"
            )
        self.path = path
        self._dataset = read_episodes(path, images=images, size=None)
        self._sidecar = sidecar(path)
        self._opened: OrderedDict[int, tuple[Episode, Strips]] = OrderedDict()
        self._drawn: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._painter: Painter | None = None
        self._lock = RLock()

    def describe(self) -> dict[str, Any]:
        """Return its path, the splits of its episodes, and those that each person has sketched."""
        names = annotators(self._sidecar)
        return {
            "path": str(self.path),
            "sidecar": str(self._sidecar),
            "task": self._dataset.task or "",
            "splits": self._dataset.splits,
            "annotators": {name: sketched_episodes(self._sidecar, name) for name in names},
        }

    def episode(self, number: int) -> dict[str, Any]:
        """Return what the page needs to show an episode, with the sketches of all people."""
        episode, strips = self._open(number)
        names = annotators(self._sidecar)
        found = {name: load_sketch(self._sidecar, name, number) for name in names}
        kept = {name: sketch for name, sketch in found.items() if sketch is not None}
        for name, sketch in kept.items():
            where = str(self._sidecar / name)
            self._check_length(sketch, number, where, "delete that sketch's file")
        return {
            "steps": len(episode),
            **asdict(strips),
            "split": episode.split,
            "policy": episode.policy,
            "rewards": episode.rewards.tolist() if episode.rated else None,
            "success": None if episode.success is None else episode.success.tolist(),
            "sketches": kept,
        }

    def strip(self, number: int, index: int) -> bytes:
        """Return the frames of a strip as a PNG, one below the other, cameras side by side."""
        with self._lock:
            if (number, index) in self._drawn:
                return self._drawn[number, index]
            episode, strips = self._open(number)
            rows = strips.rows(index)
            if episode.frames is not None:
                frames = episode.frames[rows.start : rows.stop]
            else:
                frames = self._drawing().frames(episode, rows)
        image = to_png(frames)
        if episode.frames is None:
            with self._lock:
                self._drawn[number, index] = image
                while len(self._drawn) > _KEPT:
                    self._drawn.popitem(last=False)
        return image

    def save(self, number: int, annotator: str, sketch: Sketch) -> Sketch:
        """Store a person's sketch beside the data.

        Raises:
            ConflictError: if another revision is stored.
            InputError: if the folder cannot be written.
        """
        self._check_length(sketch, number, "a sketch", "reload the page")
        try:
            return save_sketch(self._sidecar, annotator, number, sketch)
        except OSError as error:
            raise InputError(
                f"{self._sidecar} cannot be written ({error.strerror}); copy the dataset to a "
                "folder of your own, or make room"
            ) from error

    def _check_length(self, sketch: Sketch, number: int, where: str, remedy: str) -> None:
        steps = len(self._open(number)[0])
        if len(sketch.rewards) != steps:
            raise InputError(
                f"{where}: episode {number} has {steps} steps, got a sketch of "
                f"{len(sketch.rewards)}; the data was changed; {remedy}"
            )

    def _open(self, number: int) -> tuple[Episode, Strips]:
        with self._lock:
            if number not in self._opened:
                if not 0 <= number < len(self._dataset):
                    raise InputError(
                        f"episodes are 0 to {len(self._dataset) - 1}, got {number}; choose another"
                    )
                episode = self._dataset[number]
                if episode.frames is not None:
                    strips = Strips.of(len(episode) + 1, episode.frames.shape[1:])
                else:
                    shape = self._drawing().frame_shape
                    assert shape is not None, "made with cameras"
                    strips = Strips.of(len(episode) + 1, shape, _DRAWN)
                self._opened[number] = episode, strips
                while len(self._opened) > _OPEN:
                    self._opened.popitem(last=False)
            self._opened.move_to_end(number)
            return self._opened[number]

    def _drawing(self) -> Painter:
        """The painter of datasets that hold simulator states."""
        if self._painter is None:
            self._painter = painter_of(self._dataset, worlds=_DRAWN)
        return self._painter
