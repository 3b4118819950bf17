# SPDX-License-Identifier: Apache-2.0
"""Real files of the formats that `read_episodes` takes, and damage that leaves them well-formed."""

import io
import random
import shutil
import zipfile
from pathlib import Path
from typing import Any

import av
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image

import pureward
from pureward.data.sketches import Sketch, save_sketch

#: Folders of the material, by format.
ARRAYS, IMAGES, VIDEOS = Path("arrays"), Path("images"), Path("videos")
ROBOMIMIC, FILMS, PICTURES = Path("robomimic"), Path("films"), Path("pictures")
SKETCHES = Path("arrays.sketches")
_LEROBOT = Path(__file__).parents[2] / "tests/data/lerobot"


def write_formats() -> None:
    """Write a dataset of each format to the working directory."""
    images = np.random.default_rng(0).integers(0, 256, (6, 48, 64, 3), dtype=np.uint8)
    for folder in (ARRAYS, VIDEOS, ROBOMIMIC, IMAGES / "one"):
        folder.mkdir(parents=True)
    np.save(ARRAYS / "a.npy", images)
    columns = {"rewards": np.arange(5.0), "success": np.arange(5) > 3, "state": np.ones((6, 2))}
    np.savez_compressed(ARRAYS / "b.npz", frames=images, **columns)
    for number, image in enumerate(images):
        suffix = "jpg" if number % 2 else "png"
        Image.fromarray(image).save(IMAGES / "one" / f"{number}.{suffix}")
    for name, codec, layout in (
        ("a.mp4", "libx264", "yuv420p"),
        ("b.mkv", "ffv1", "bgr0"),
        ("c.webm", "libvpx-vp9", "yuv420p"),
        ("d.avi", "mpeg4", "yuv420p"),
        ("e.gif", "gif", "rgb8"),
        ("f.ts", "mpeg2video", "yuv420p"),
    ):
        _write_video(VIDEOS / name, images, codec, layout)
    with h5py.File(ROBOMIMIC / "demos.hdf5", "w") as file:
        for demo in ("demo_0", "demo_1"):
            file.create_dataset(f"data/{demo}/obs/image", data=images, compression="gzip")
            file[f"data/{demo}/next_obs/image"] = images
            file[f"data/{demo}/actions"] = np.zeros((6, 2))
            file[f"data/{demo}/rewards"], file[f"data/{demo}/dones"] = np.zeros(6), np.zeros(6)
            file[f"data/{demo}/states"] = np.zeros((6, 3))
        file["mask/train"], file["mask/valid"] = np.array([b"demo_0"]), np.array([b"demo_1"])
    for number in range(2):
        sketch = Sketch(rewards=(0.0, None, 0.5, None, 1.0), success=(None,) * 5)
        save_sketch(SKETCHES, "me", number, sketch)
    for name in (FILMS, PICTURES):
        shutil.copytree(_LEROBOT / name, name)


def _write_video(path: Path, images: np.ndarray, codec: str, layout: str) -> None:
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=10)
        stream.height, stream.width, stream.pix_fmt = *images.shape[1:3], layout
        for image in images:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())


def read_format(file: Path) -> list[torch.Tensor]:
    """Open the dataset of a file, and read the beginning of its first episodes."""
    source = ROBOMIMIC / "demos.hdf5" if file.parts[0] == str(ROBOMIMIC) else Path(file.parts[0])
    parts: list[torch.Tensor] = []
    dataset = pureward.read_episodes(source, images="front" if source == FILMS else None)
    for episode in dataset[:20]:
        assert episode.frames is not None
        frames = episode.frames[: min(50, len(episode))]
        columns = (episode.rewards, episode.actions, episode.state, episode.success, frames)
        parts += [part for part in columns if part is not None]
    return parts


def change_array(path: Path, outside: Path, chance: random.Random) -> str:
    """Change the header of an .npy file, or of one in an .npz file: shape, type, order."""
    if path.suffix == ".npy":
        written, told = _changed_array(path.read_bytes(), chance)
        path.write_bytes(written)
        return told
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = chance.choice(list(members))
    members[name], told = _changed_array(members[name], chance)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    if chance.random() < 0.3:  # sizes in the headers of the archive
        data, size = path.read_bytes(), len(members[name]).to_bytes(4, "little")
        path.write_bytes(
            data.replace(size, chance.choice((2**31, 2**32 - 1, 0)).to_bytes(4, "little"))
        )
        told += "; declared size changed"
    return f"{name}: {told}"


def _changed_array(data: bytes, chance: random.Random) -> tuple[bytes, str]:
    array = np.load(io.BytesIO(data))
    shapes = ((10**9, *array.shape[1:]), (), (0,), array.shape[::-1], (-1, 4), (2**62, 2**62))
    header = {
        "shape": chance.choice((*shapes, array.shape)),
        "descr": chance.choice(("|u1", "<f8", "|O", "<U9", "|V7", "|b1", ">i4", "<c16", "|S0")),
        "fortran_order": chance.random() < 0.2,
    }
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + array.tobytes(), str(header)


def change_parquet(path: Path, outside: Path, chance: random.Random) -> str:
    """Change a column of a parquet file: its values, type, name, or the number of rows."""
    table = pq.read_table(path)
    name = chance.choice([n for n in table.column_names if not n.startswith("stats/")])
    at, rows = table.column_names.index(name), len(table)
    how = chance.choice(("values", "type", "missing", "rows", "many rows", "gap", "order"))
    odd = chance.choice((0, 1, -1, 99_999, 2**62, -(2**62), 1e300, float("nan"), float("inf"), "x"))
    if how == "values":
        table = table.set_column(at, name, pa.array([odd] * rows))
    elif how == "type":
        other = chance.choice(
            (pa.null(), pa.binary(), pa.list_(pa.int8()), pa.struct([("a", pa.int8())]))
        )
        table = table.set_column(at, name, pa.nulls(rows, other))
    elif how == "missing":
        table = table.drop_columns([name])
    elif how == "rows":
        table = table.slice(chance.randrange(rows), chance.randrange(rows + 1))
    elif how == "many rows":
        indices = pa.array(np.zeros(300_000, np.int32))
        kept = [n for n in table.column_names if not n.startswith("stats/")]
        table = table.select(kept).take(indices)
    elif how == "gap":
        values = table.column(name).to_pylist()
        table = table.set_column(
            at, name, pa.array([None, *values[1:]], table.schema.field(at).type)
        )
    else:
        table = table.take(pa.array(np.random.default_rng(chance.randrange(99)).permutation(rows)))
    pq.write_table(table, path, compression=chance.choice(("snappy", "zstd", "none")))
    return f"{name}: {how} {odd}"
