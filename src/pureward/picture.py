# SPDX-License-Identifier: Apache-2.0
"""Images and videos of frames: contact sheets, mosaics, H.264. Files are written atomically."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import av
import numpy as np
from PIL import Image, ImageDraw
from torch import Tensor

from pureward.errors import InputError
from pureward.files import check_writable, whole_file

if TYPE_CHECKING:  # its import takes half a second
    from matplotlib.figure import Figure

_BORDER = 2  # pixels between the images of a sheet
_GAP, _LINE = 20, 4  # pixels between them, with a line, if there are several episodes in a row
_CAPTION = 14  # pixels of a line of text
# Metadata of each kind: no date, so that the same figure gives the same file.
_FIGURE_KINDS = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
_DOTS_PER_INCH = 130
_INK, _PAPER, _MARK = (30, 30, 30), (255, 255, 255), (200, 20, 20)


def contact_sheet(
    images: np.ndarray,
    rows: list[str],
    columns: list[str],
    *,
    episodes: np.ndarray | None = None,
    scale: int = 2,
) -> Image.Image:
    """Return a table of images with captions.

    Args:
        images: (row, column, height, width, 3).
        rows: captions.
        columns: captions.
        episodes: number of the episode of each image, int (row, column); before the first image of
            another one, a line and its number are drawn.
        scale: width and height of a pixel.
    """
    images = _enlarged(images, scale)
    height, width = images.shape[2:4]
    episodes = np.zeros(images.shape[:2], int) if episodes is None else episodes
    begins = np.diff(episodes, axis=1, prepend=episodes[:, :1]) != 0
    gap = _GAP if begins.any() else _BORDER
    margin = max((len(row) for row in rows), default=0) * 7 + 8
    size = (
        margin + len(columns) * (width + gap),
        _CAPTION + len(rows) * (height + _BORDER),
    )
    sheet = Image.new("RGB", size, _PAPER)
    draw = ImageDraw.Draw(sheet)
    if begins.any():
        draw.text((4, 1), "episode", fill=_MARK)
    for x, caption in enumerate(columns):
        draw.text((margin + x * (width + gap), 1), caption, fill=_INK)
    for y, caption in enumerate(rows):
        top = _CAPTION + y * (height + _BORDER)
        draw.text((4, top + height // 2 - 5), caption, fill=_INK)
        for x in range(len(columns)):
            left = margin + x * (width + gap)
            sheet.paste(Image.fromarray(images[y, x]), (left, top))
            if begins[y, x]:
                line = left - gap + 1
                draw.rectangle((line, top, line + _LINE - 1, top + height - 1), fill=_MARK)
                draw.text((line + _LINE + 1, top), str(episodes[y, x]), fill=_MARK)
    return sheet


def first_camera(frames: Tensor) -> np.ndarray:
    """Return images (count, height, width, 3) of frames (count, 3·cameras, height, width)."""
    return frames[:, :3].permute(0, 2, 3, 1).cpu().numpy()


def cameras(frames: Tensor) -> list[np.ndarray]:
    """Return images (count, h, w, 3) of each camera of frames (count, 3·cameras, h, w)."""
    return [first_camera(frames[:, start:]) for start in range(0, frames.shape[1], 3)]


def mosaic(images: np.ndarray, *, scale: int = 2) -> np.ndarray:
    """Return images (count, height, width, 3) as one image, in a near-square grid."""
    count, height, width = images.shape[:3]
    columns = int(np.ceil(np.sqrt(count)))
    rows = -(-count // columns)
    padded = np.pad(images, [(0, rows * columns - count), (0, 0), (0, 0), (0, 0)])
    grid = padded.reshape(rows, columns, height, width, 3).swapaxes(1, 2)
    return _enlarged(grid.reshape(1, rows * height, columns * width, 3), scale)[0]


def save_image(image: Image.Image, path: Path) -> None:
    """Write a PNG."""
    with whole_file(path) as partial:
        image.save(partial, format="PNG", optimize=True)


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure as PNG, PDF or SVG, by the path's suffix."""
    kind = check_figure(path)
    with whole_file(path) as partial:
        figure.savefig(partial, format=kind, dpi=_DOTS_PER_INCH, metadata=_FIGURE_KINDS[kind])


def check_figure(path: Path) -> str:
    """Return the kind of a figure, by its path's suffix; refuse a path that it cannot have."""
    kind = path.suffix.removeprefix(".").lower()
    if kind not in _FIGURE_KINDS:
        raise InputError(
            f"a plot's file must end in {', '.join('.' + k for k in _FIGURE_KINDS)}, "
            f"got {path.name!r}; rename it"
        )
    if path.is_dir():
        raise InputError(f"a plot's file must be a file, and {path} is a folder; rename it")
    check_writable(path.parent)
    return kind


@contextmanager
def video(path: Path, frames_per_second: float) -> Iterator[Callable[[np.ndarray], None]]:
    """Yield a function that adds RGB images (height, width, 3) of even size to an H.264 file."""
    with whole_file(path) as partial, av.open(str(partial), mode="w", format="mp4") as container:
        rate = Fraction(frames_per_second).limit_denominator(1000)
        stream = container.add_stream("libx264", rate=rate)
        stream.pix_fmt = "yuv420p"
        stream.options = {"crf": "18", "preset": "veryfast"}

        def write(image: np.ndarray) -> None:
            if not stream.codec_context.is_open:
                stream.height, stream.width = image.shape[:2]
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
            container.mux(stream.encode(frame))

        yield write
        container.mux(stream.encode())


def _enlarged(images: np.ndarray, scale: int) -> np.ndarray:
    """Repeat every pixel `scale` times; the last three axes are (h, w, 3)."""
    return images.repeat(scale, axis=-3).repeat(scale, axis=-2)
