# SPDX-License-Identifier: Apache-2.0
"""Readers of datasets, one module a format, imported when a dataset of the format is read."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from pureward.data.reader import READERS, Reader
from pureward.data.readers import recognise
from pureward.errors import missing_extra

__all__ = ["READERS"]


def _late(name: str, extra: str = "data") -> Callable[..., Any]:
    """Return a function, MODULE:FUNCTION, whose module needs an extra and is imported at a call."""
    module, _, function = name.partition(":")

    def call(*arguments: Any) -> Any:
        try:
            found = import_module(f"pureward.data.{module}")
        except ModuleNotFoundError as error:
            raise missing_extra(error, extra) from error
        return getattr(found, function)(*arguments)

    return call


def _register(
    name: str, can_read: Callable[[Path], bool], extra: str = "data", **others: Any
) -> None:
    """Register the module of a name, which has a function `read` and needs an extra."""
    read = _late(f"readers.{name}:read", extra)
    READERS.register(name)(Reader(can_read=can_read, read=read, **others))


# The last one is asked first, so that a plugin's comes before ours. Folders of Minari and LeRobot
# datasets may also hold images and videos.
_register("images", recognise.holds(recognise.is_image_folder))
_register("arrays", recognise.holds(recognise.is_array))
_register("video", recognise.holds(recognise.is_video), extra="video")
_register(
    "robomimic",
    recognise.is_hdf5,
    copy=_late("writers.robomimic:copy_robomimic"),
    copy_suffix=".hdf5",
)
_register(
    "lerobot",
    recognise.is_lerobot,
    extra="lerobot",
    copy=_late("writers.lerobot:copy_lerobot", "lerobot"),
)
_register("minari", recognise.is_minari)
_register("sketches", recognise.is_sketches)
