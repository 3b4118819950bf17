# SPDX-License-Identifier: Apache-2.0
"""A dataset that the page shows: its episodes, and their frames as images without loss."""

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from pureward.data.dataset import read_episodes
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
from pureward.studio.strips import frames_per_strip, to_png

if TYPE_CHECKING:
    from pureward.data.draw import Painter

_DRAWN = 4  # frames of one strip, if they must be drawn first: that takes long
_OPEN = 2  # episodes in memory
_KEPT = 512  # drawn strips in memory


@dataclass(frozen=True, kw_only=True)
class Opened:
    """An episode, and how its frames are cut into strips."""

    episode: Episode
    count: int
    height: int
    width: int
    """Of one camera."""
    cameras: int

    @property
    def per_strip(self) -> int:
        """Frames of one strip."""
        fit = frames_per_strip((3 * self.cameras, self.height, self.width))
        return min(_DRAWN, fit) if self.episode.frames is None else fit


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
        self._opened: OrderedDict[int, Opened] = OrderedDict()
        self._drawn: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._painter: Painter | None = None
        self._lock = RLock()

    def describe(self) -> dict[str, Any]:
        """Return its name and the splits of its episodes."""
        return {
            "name": self.path.name or str(self.path),
            "path": str(self.path),
            "sidecar": str(self._sidecar),
            "task": self._dataset.task or "",
            "splits": self._dataset.splits,
            "annotators": self._progress(),
        }

    def _progress(self) -> dict[str, list[int]]:
        """The episodes that each person has sketched."""
        names = annotators(self._sidecar)
        return {name: sketched_episodes(self._sidecar, name) for name in names}

    def episode(self, number: int) -> dict[str, Any]:
        """Return what the page needs to show an episode, with the sketches of all people."""
        opened = self._open(number)
        episode = opened.episode
        names = annotators(self._sidecar)
        found = {name: load_sketch(self._sidecar, name, number) for name in names}
        kept = {name: sketch for name, sketch in found.items() if sketch is not None}
        for name, sketch in kept.items():
            where = str(self._sidecar / name)
            self._check_length(sketch, number, where, "delete that sketch's file")
        return {
            "steps": len(episode),
            "count": opened.count,
            "height": opened.height,
            "width": opened.width,
            "cameras": opened.cameras,
            "per_strip": opened.per_strip,
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
            opened = self._open(number)
            start = index * opened.per_strip
            stop = min(start + opened.per_strip, opened.count)
            if not 0 <= start < stop:
                raise InputError(
                    f"strips are 0 to {(opened.count - 1) // opened.per_strip}, got {index}; "
                    "ask for one of these"
                )
            frames = self._frames(opened.episode, range(start, stop))
        image = to_png(frames)
        if opened.episode.frames is None:
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
        steps = len(self._open(number).episode)
        if len(sketch.rewards) != steps:
            raise InputError(
                f"{where}: episode {number} has {steps} steps, got a sketch of "
                f"{len(sketch.rewards)}; the data was changed; {remedy}"
            )

    def _open(self, number: int) -> Opened:
        with self._lock:
            if number not in self._opened:
                if not 0 <= number < len(self._dataset):
                    raise InputError(
                        f"episodes are 0 to {len(self._dataset) - 1}, got {number}; choose another"
                    )
                episode = self._dataset[number]
                shape = self._shape(episode)
                opened = Opened(
                    episode=episode,
                    count=len(episode) + 1,
                    cameras=shape[0] // 3,
                    height=shape[1],
                    width=shape[2],
                )
                self._opened[number] = opened
                while len(self._opened) > _OPEN:
                    self._opened.popitem(last=False)
            self._opened.move_to_end(number)
            return self._opened[number]

    def _shape(self, episode: Episode) -> tuple[int, ...]:
        if episode.frames is not None:
            return tuple(episode.frames.shape[1:])
        shape = self._drawing().frame_shape
        assert shape is not None, "made with cameras"
        return shape

    def _frames(self, episode: Episode, rows: range) -> Any:
        if episode.frames is not None:
            return episode.frames[rows.start : rows.stop]
        return self._drawing().frames(episode, rows)

    def _drawing(self) -> "Painter":
        """The painter of datasets that hold simulator states."""
        if self._painter is None:
            from pureward.data.draw import Painter  # needs the simulator

            if not self._dataset.task:
                raise InputError(f"{self.path} has no frames, and names no task to draw them from")
            self._painter = Painter(self._dataset.task, worlds=_DRAWN)
        return self._painter
