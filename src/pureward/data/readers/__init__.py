# SPDX-License-Identifier: Apache-2.0
"""Readers of datasets, one module a format, imported when a dataset of the format is read."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from pureward.data.reader import READERS, Reader
from pureward.data.readers.recognise import (
    holds,
    is_array,
    is_hdf5,
    is_image_folder,
    is_lerobot,
    is_minari,
    is_sketches,
    is_video,
)
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


_BUILT_IN = {
    "images": Reader(can_read=holds(is_image_folder), read=_late("readers.images:read")),
    "arrays": Reader(can_read=holds(is_array), read=_late("readers.arrays:read")),
    "video": Reader(can_read=holds(is_video), read=_late("readers.video:read", "video")),
    "robomimic": Reader(
        can_read=is_hdf5,
        read=_late("readers.robomimic:read"),
        copy=_late("writers.robomimic:copy_robomimic"),
        copy_suffix=".hdf5",
    ),
    "lerobot": Reader(
        can_read=is_lerobot,
        read=_late("readers.lerobot:read", "lerobot"),
        copy=_late("writers.lerobot:copy_lerobot", "lerobot"),
    ),
    "minari": Reader(can_read=is_minari, read=_late("readers.minari:read")),
    "sketches": Reader(can_read=is_sketches, read=_late("readers.sketches:read")),
}
# The last one is asked first, so that a plugin's comes before ours. Folders of Minari and LeRobot
# datasets may also hold images and videos.
for _name, _reader in _BUILT_IN.items():
    READERS.register(_name)(_reader)
