# SPDX-License-Identifier: Apache-2.0
"""Reads folders of PNG or JPEG images, one folder for each episode."""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pureward.data.arrays import make_episode
from pureward.data.episodes import Episode
from pureward.data.guard import check_file, check_pixels, guarding
from pureward.data.lazy import LazyEpisodes, LazyFrames, decoded_images
from pureward.data.reader import Dataset, Options
from pureward.data.readers.recognise import in_order, is_image, is_image_folder, list_episodes
from pureward.errors import InputError

_ORIENTATION = 0x0112  # in EXIF, as of a phone that was held upright
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_DECIMAL = re.compile(r"\d+(\.\d+)?")
_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_DEPTH = 24  # offset of the bit depth: 8 bytes of signature, then the chunk IHDR


def read(path: Path, options: Options) -> Dataset:
    """Open a folder of images, or a folder of such folders."""
    if options.images is not None:
        raise InputError(f"{path}: folders of images have no names of images; leave out images")
    folders = list_episodes(path, is_image_folder)
    splits = options.fill([split for _, split in folders])

    def episode(index: int) -> Episode:
        folder = folders[index][0]
        with guarding(folder):
            return _episode(folder, path, splits[index], options)

    with guarding(folders[0][0]):
        lossy = not all(map(_is_png, _files(folders[0][0])))
    episodes = LazyEpisodes(splits, episode)
    return Dataset(path=path, lossy=lossy, states_ends=False, episodes=episodes)


def _episode(folder: Path, root: Path, split: str, options: Options) -> Episode:
    files = _files(folder)

    def decoded(rows: Sequence[int]) -> Iterator[NDArray]:
        for row in rows:
            check_file(files[row], root)
            with guarding(files[row]), files[row].open("rb") as stream:
                yield decode(stream)

    camera = decoded_images(len(files), decoded)
    return make_episode(LazyFrames([camera], where=str(folder), size=options.size), {}, split=split)


def _files(folder: Path) -> list[Path]:
    """The images of an episode in order; refuse names that have two, as 1.9 and 1.10."""
    files = sorted(filter(is_image, folder.iterdir()), key=in_order)
    if all(_DECIMAL.fullmatch(file.stem) for file in files):
        for one, after in pairwise(files):
            if Decimal(one.stem) > Decimal(after.stem):
                raise InputError(
                    "names that are decimals must all have as many digits after the point, got "
                    f"{one.name} and {after.name}, whose order is unclear; rename the images"
                )
    return files


def _is_png(file: Path) -> bool:
    """Whether it is a PNG by its first bytes: JPEGs may be named so. Links are not followed yet."""
    if file.is_symlink():
        return file.suffix.lower() == ".png"
    with file.open("rb") as stream:
        return stream.read(len(_PNG)) == _PNG


def decode(stream: IO[bytes] | BytesIO) -> NDArray:
    """Return a PNG or JPEG as it is shown, uint8 (height, width, 3); alpha is dropped."""
    # Pillow would pass other formats to other programs.
    with Image.open(stream, formats=("PNG", "JPEG")) as image:
        check_pixels(image.height, image.width)
        if image.mode.startswith(("I", "F")) or _bits(image, stream) > 8:
            raise InputError(
                "images must have 8 bits per channel, got 16, as of a depth camera; convert them"
            )
        turn = _TURNS.get(image.getexif().get(_ORIENTATION, 1))
        colours = image.convert("RGB")
        return np.asarray(colours if turn is None else colours.transpose(turn))


def _bits(image: Image.Image, stream: IO[bytes] | BytesIO) -> int:
    """Bits per channel of a PNG; Pillow opens 16 bits of colour as 8 and drops the others."""
    if image.format != "PNG":
        return 8
    place = stream.tell()
    stream.seek(_PNG_DEPTH)
    depth = stream.read(1)[0]
    stream.seek(place)
    return depth
