# SPDX-License-Identifier: Apache-2.0
"""Opens and reads datasets of 100,000 frames in every format, each in a process of its own.

    python benchmarks/readers.py

Prints the seconds to open a dataset, the frames read per second, and the peak memory beyond that
of reading one frame. All frames together are 1.2 GB in memory. The last row is a plain loop of
PyAV over the same video, which keeps nothing.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import av
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import tyro
from PIL import Image

from pureward.data.episodes import Episode
from pureward.data.writing import write_episodes

# In a process of its own: what it prints is a row of the table.
MEASURE = """
import json, sys, time
import torch, pureward
torch.set_num_threads(1)
def peak():  # getrusage would include the peak of the process that started this one
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e3
began = time.perf_counter()
dataset = pureward.read_episodes(sys.argv[1], size=None)
opened = time.perf_counter() - began
dataset[0].frames[:1]
before, began, frames = peak(), time.perf_counter(), 0
for episode in dataset:
    clips = episode.frames.clips() if hasattr(episode.frames, "clips") else [episode.frames]
    frames += sum(len(clip) for clip in clips)
seconds = time.perf_counter() - began
print(json.dumps({"open": opened, "rate": frames / seconds, "peak": peak() - before}))
"""
PLAIN = """
import json, sys, time, av
began, frames = time.perf_counter(), 0
with av.open(sys.argv[1]) as container:
    container.streams.video[0].thread_type = "AUTO"
    for frame in container.decode(video=0):
        frames += len(frame.to_ndarray(format="rgb24")) > 0
print(json.dumps({"open": 0.0, "rate": frames / (time.perf_counter() - began), "peak": 0.0}))
"""


@dataclass(frozen=True, kw_only=True)
class Args:
    """How much to read."""

    frames: int = 100_000
    """Of each dataset."""
    formats: tuple[str, ...] = ()
    """Names of rows of the table; all of them if there are none."""
    length: int = 1000
    """Frames of an episode, in formats of several episodes."""


def images(start: int, count: int) -> np.ndarray:
    """Images (count, 64, 64, 3) of a bar that moves, on a background that changes."""
    rows = np.arange(start, start + count, dtype=np.int64)[:, None, None, None]
    columns = np.arange(64)[None, None, :, None]
    shown = np.where((columns - rows) % 64 < 8, 255, (rows // 7 + columns) % 200)
    return np.broadcast_to(shown, (count, 64, 64, 3)).astype(np.uint8)


def episodes(args: Args) -> Iterator[tuple[int, np.ndarray]]:
    for number in range(args.frames // args.length):
        yield number, images(number * args.length, args.length)


def write_npy(path: Path, args: Args) -> Path:
    shape = (args.frames, 64, 64, 3)
    array = np.lib.format.open_memmap(path / "x.npy", "w+", np.uint8, shape)
    for number, part in episodes(args):
        array[number * args.length : (number + 1) * args.length] = part
    array.flush()
    return path / "x.npy"


def write_npz(path: Path, args: Args) -> Path:
    for number, part in episodes(args):
        np.savez_compressed(path / f"{number}.npz", frames=part)
    return path


def write_png(path: Path, args: Args) -> Path:
    for number, part in episodes(args):
        (path / str(number)).mkdir()
        for row, image in enumerate(part):
            Image.fromarray(image).save(path / str(number) / f"{row}.png", compress_level=1)
    return path


def write_mp4(path: Path, args: Args) -> Path:
    with av.open(str(path / "x.mp4"), "w") as container:
        stream = container.add_stream(
            "libx264", rate=50, options={"preset": "ultrafast", "g": "50"}
        )
        stream.height, stream.width, stream.pix_fmt = 64, 64, "yuv420p"
        for _, part in episodes(args):
            for image in part:
                container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())
    return path / "x.mp4"


def write_robomimic(path: Path, args: Args) -> Path:
    with h5py.File(path / "x.hdf5", "w") as file:
        for number, part in episodes(args):
            group = file.create_group(f"data/demo_{number}")
            chunks = (50, 64, 64, 3)
            group.create_dataset("obs/image", data=part, chunks=chunks, compression="lzf")
            group["rewards"] = np.zeros(len(part))
    return path / "x.hdf5"


def write_lerobot(path: Path, args: Args) -> Path:
    """One video and one parquet file; its episodes are a tenth as long."""
    length, key = args.length // 10, "observation.images.front"
    count = args.frames // length
    (path / f"videos/{key}/chunk-000").mkdir(parents=True)
    write_mp4(path, args).rename(path / f"videos/{key}/chunk-000/file-000.mp4")
    told = {
        "codebase_version": "v3.0",
        "fps": 50,
        "total_episodes": count,
        "total_frames": args.frames,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
        "features": {key: {"dtype": "video"}, "next.reward": {"dtype": "float32"}},
    }
    numbers, zeros = np.arange(count), np.zeros(count, np.int64)
    listed = {"episode_index": numbers, "length": np.full(count, length)}
    places = ("data/chunk_index", "data/file_index")
    places += (f"videos/{key}/chunk_index", f"videos/{key}/file_index")
    listed |= dict.fromkeys(places, zeros)
    listed |= {f"videos/{key}/from_timestamp": numbers * length / 50}
    rows = {
        "episode_index": numbers.repeat(length),
        "timestamp": np.tile(np.arange(length, dtype=np.float32) / 50, count),
        "next.reward": np.zeros(args.frames, np.float32),
    }
    for place, columns in (("meta/episodes", listed), ("data", rows)):
        (path / place / "chunk-000").mkdir(parents=True)
        pq.write_table(pa.table(columns), path / place / "chunk-000/file-000.parquet")
    (path / "meta/info.json").write_text(json.dumps(told))
    return path


def write_minari(path: Path, args: Args) -> Path:
    def made() -> Iterator[Episode]:
        for _, part in episodes(args):
            frames = torch.from_numpy(part).permute(0, 3, 1, 2).contiguous()
            steps = len(part) - 1
            yield Episode(frames=frames, rewards=torch.zeros(steps), actions=torch.zeros(steps, 1))

    write_episodes(path, made(), task="line")
    return path


FORMATS: dict[str, tuple[Callable[[Path, Args], Path], str]] = {
    "Minari": (write_minari, MEASURE),
    "LeRobot": (write_lerobot, MEASURE),
    "robomimic": (write_robomimic, MEASURE),
    "npy": (write_npy, MEASURE),
    "npz": (write_npz, MEASURE),
    "PNG": (write_png, MEASURE),
    "MP4": (write_mp4, MEASURE),
    "MP4, plain PyAV": (write_mp4, PLAIN),
}


def main(args: Args) -> None:
    print("| format | opened, s | frames/s | peak memory, MB |\n|---|---|---|---|")
    for name, (write, code) in FORMATS.items():
        if args.formats and name not in args.formats:
            continue
        with tempfile.TemporaryDirectory() as folder:
            source = write(Path(folder), args)
            command = [sys.executable, "-c", code, str(source)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        row = json.loads(done.stdout)
        print(
            f"| {name} | {row['open']:.1f} | {row['rate']:,.0f} | {row['peak']:.0f} |", flush=True
        )


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
