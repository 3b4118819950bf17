# SPDX-License-Identifier: Apache-2.0
"""Readers of datasets, one module a format, imported when a dataset of the format is read."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from pureward.data.dataset import READERS, Dataset, Options, Reader
from pureward.data.readers import recognise
from pureward.errors import missing_extra

__all__ = ["READERS"]


def _register(name: str, can_read: Callable[[Path], bool], extra: str = "data") -> None:
    """Register the module of a name, which has a function `read` and needs an extra."""

    def read(path: Path, options: Options) -> Dataset:
        try:
            module = import_module(f"pureward.data.readers.{name}")
        except ModuleNotFoundError as error:
            raise missing_extra(error, extra) from error
        return module.read(path, options)

    READERS.register(name)(Reader(can_read=can_read, read=read))


# The last one is asked first, so that a plugin's comes before ours. Folders of Minari and LeRobot
# datasets may also hold images and videos.
_register("images", recognise.holds(recognise.is_image_folder))
_register("arrays", recognise.holds(recognise.is_array))
_register("video", recognise.holds(recognise.is_video), extra="video")
_register("robomimic", recognise.is_hdf5)
_register("lerobot", recognise.is_lerobot, extra="lerobot")
_register("minari", recognise.is_minari)
_register("sketches", recognise.is_sketches)
