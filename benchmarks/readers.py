# SPDX-License-Identifier: Apache-2.0
"""Opens, reads and scores datasets of 100,000 frames, each in a process of its own.

    python benchmarks/readers.py
    python benchmarks/readers.py --formats LeRobot --lerobot PYTHON
    python benchmarks/readers.py --formats LeRobot MP4 npy --frames 10000 --scored

Prints the seconds to open a dataset, the frames read per second, the CPU time of a frame, which
other processes disturb less, and the peak memory beyond that of reading one frame. All frames
together are 1.2 GB in memory. PYTHON is that of an environment with lerobot: its own reader reads
the same dataset, frame by frame as its data loaders do.

With --scored, a learned reward of every frame is computed too: ours decodes in a thread beside it,
the plain loop of PyAV decodes a batch and then scores it. "alone" scores frames in memory.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# Each runs in a process of its own; what it prints last is a row of the table.
START = """
import json, sys, time
source, device = sys.argv[1:3]
def peak():  # getrusage would include the peak of the process that started this one
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e3
class Watch:
    def __init__(self):
        self.peak, self.wall, self.cpu = peak(), time.perf_counter(), time.process_time()
    def tell(self, frames, opened=0.0):
        rate = frames / (time.perf_counter() - self.wall)
        cpu = (time.process_time() - self.cpu) / frames * 1e6
        print(json.dumps({"open": opened, "rate": rate, "cpu": cpu, "peak": peak() - self.peak}))
"""
READ = """
import torch, pureward
torch.set_num_threads(1)
began = time.perf_counter()
dataset = pureward.read_episodes(source, size=None)
opened = time.perf_counter() - began
dataset[0].frames[:1]
watch, frames = Watch(), 0
for episode in dataset:
    clips = episode.frames.clips() if hasattr(episode.frames, "clips") else [episode.frames]
    frames += sum(len(clip) for clip in clips)
watch.tell(frames, opened)
"""
PLAIN = """
import av
watch, frames = Watch(), 0
with av.open(source) as container:
    container.streams.video[0].thread_type = "AUTO"
    for frame in container.decode(video=0):
        frames += len(frame.to_ndarray(format="rgb24")) > 0
watch.tell(frames)
"""
REWARD = """
import torch
from pureward.rewards.learned import LearnedReward, RewardSpec
from pureward.rewards.network import NetworkConfig, seeded_network
network = seeded_network(NetworkConfig(), 0, torch.device(device))
reward = LearnedReward(RewardSpec(reward="imitation"), discriminator=network)
batch = 2048 if device == "cuda" else 256
example = torch.randint(0, 256, (batch, 3, 64, 64), dtype=torch.uint8)
for _ in range(3):
    reward(example.to(device)).cpu()  # compiles kernels
"""
SCORED = """
import pureward
from pureward.scoring.pipeline import score_episodes
began = time.perf_counter()
dataset = pureward.read_episodes(source)
opened = time.perf_counter() - began
dataset[0].frames[:1]
watch = Watch()
scored = score_episodes(reward, dataset, range(len(dataset)))
watch.tell(sum(values.shape[1] for _, values in scored), opened)
"""
PLAIN_SCORED = """
import av, numpy as np
watch, frames, images = Watch(), 0, []
def score():
    chosen = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).contiguous()
    return len(reward(chosen.to(device)).cpu())
with av.open(source) as container:
    container.streams.video[0].thread_type = "AUTO"
    for frame in container.decode(video=0):
        images.append(frame.to_ndarray(format="rgb24"))
        if len(images) == batch:
            frames += score()
            images.clear()
frames += score() if images else 0
watch.tell(frames)
"""
ALONE = """
watch, frames = Watch(), 0
shown = example.to(device)
results = []
while frames < 2e6 if device == "cuda" else frames < 4e3:
    results.append(reward(shown))
    frames += len(shown)
torch.cat(results).cpu()
watch.tell(frames)
"""
LEROBOT = """
from lerobot.datasets.lerobot_dataset import LeRobotDataset
began = time.perf_counter()
dataset = LeRobotDataset("pureward/benchmark", root=source)
opened = time.perf_counter() - began
dataset[0]
watch, frames = Watch(), min(1000, len(dataset))
for row in range(frames):
    dataset[row]["observation.images.front"]
watch.tell(frames, opened)
"""


@dataclass(frozen=True, kw_only=True)
class Args:
    """How much to read."""

    frames: int = 100_000
    """Of each dataset."""
    formats: tuple[str, ...] = ()
    """Formats in the table; all of them if there are none."""
    scored: bool = False
    """Compute rewards too."""
    device: str = "cpu"
    """Where rewards are computed: "cpu" or "cuda"."""
    lerobot: str = ""
    """Python of an environment with lerobot; without it, its reader is left out."""
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
    from PIL import Image

    for number, part in episodes(args):
        (path / str(number)).mkdir()
        for row, image in enumerate(part):
            Image.fromarray(image).save(path / str(number) / f"{row}.png", compress_level=1)
    return path


def write_mp4(path: Path, args: Args) -> Path:
    import av

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
    import h5py

    with h5py.File(path / "x.hdf5", "w") as file:
        for number, part in episodes(args):
            group = file.create_group(f"data/demo_{number}")
            chunks = (50, 64, 64, 3)
            group.create_dataset("obs/image", data=part, chunks=chunks, compression="lzf")
            group["rewards"] = np.zeros(len(part))
    return path / "x.hdf5"


_NUMBERS = {"next.reward": "float32", "timestamp": "float32"} | dict.fromkeys(
    ("frame_index", "episode_index", "index", "task_index"), "int64"
)


def write_lerobot(path: Path, args: Args) -> Path:
    """One video and one parquet file; its episodes are a tenth as long."""
    import pyarrow as pa
    import pyarrow.parquet as pq

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
        "features": {key: {"dtype": "video", "shape": [64, 64, 3], "names": list("hwc")}}
        | {name: {"dtype": kind, "shape": [1], "names": None} for name, kind in _NUMBERS.items()},
        "total_tasks": 1,
        "chunks_size": 1000,
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "robot_type": None,
        "splits": {"train": f"0:{count}"},
    }
    numbers, zeros = np.arange(count), np.zeros(count, np.int64)
    listed = {"episode_index": numbers, "length": np.full(count, length)}
    places = ("data/chunk_index", "data/file_index")
    places += (f"videos/{key}/chunk_index", f"videos/{key}/file_index")
    listed |= dict.fromkeys(places, zeros)
    listed |= {f"videos/{key}/from_timestamp": numbers * length / 50}
    listed |= {f"videos/{key}/to_timestamp": (numbers + 1) * length / 50}
    listed |= {"dataset_from_index": numbers * length, "dataset_to_index": (numbers + 1) * length}
    listed |= {"tasks": [["move"]] * count}
    listed |= dict.fromkeys(("meta/episodes/chunk_index", "meta/episodes/file_index"), zeros)
    rows = {
        "episode_index": numbers.repeat(length),
        "timestamp": np.tile(np.arange(length, dtype=np.float32) / 50, count),
        "next.reward": np.zeros(args.frames, np.float32),
        "frame_index": np.tile(np.arange(length), count),
        "index": np.arange(args.frames),
        "task_index": np.zeros(args.frames, np.int64),
    }
    for place, columns in (("meta/episodes", listed), ("data", rows)):
        (path / place / "chunk-000").mkdir(parents=True)
        pq.write_table(pa.table(columns), path / place / "chunk-000/file-000.parquet")
    # As pandas writes a table whose index has the names of tasks.
    tasks = pa.table({"task_index": pa.array([0]), "task": pa.array(["move"])})
    columns = [{"name": n, "field_name": n, "metadata": None} for n in tasks.column_names]
    kinds = ({"pandas_type": "int64", "numpy_type": "int64"}, {"pandas_type": "unicode"})
    index = {"index_columns": ["task"], "column_indexes": []}
    index |= {
        "columns": [a | {"numpy_type": "object"} | b for a, b in zip(columns, kinds, strict=True)]
    }
    pq.write_table(
        tasks.replace_schema_metadata({"pandas": json.dumps(index)}), path / "meta/tasks.parquet"
    )
    (path / "meta/info.json").write_text(json.dumps(told))
    return path


def write_minari(path: Path, args: Args) -> Path:
    import torch

    from pureward.data.episodes import Episode
    from pureward.data.writing import write_episodes

    def made() -> Iterator[Episode]:
        for _, part in episodes(args):
            frames = torch.from_numpy(part).permute(0, 3, 1, 2).contiguous()
            steps = len(part) - 1
            yield Episode(frames=frames, rewards=torch.zeros(steps), actions=torch.zeros(steps, 1))

    write_episodes(path, made(), task="line")
    return path


#: Format → what writes it, and the rows of the table with the code of each.
FORMATS: dict[str, tuple[Callable[[Path, Args], Path], dict[str, str]]] = {
    "Minari": (write_minari, {"Minari": READ}),
    "LeRobot": (
        write_lerobot,
        {
            "LeRobot": READ,
            "LeRobot, its own reader": LEROBOT,
            "LeRobot, scored": REWARD + SCORED,
        },
    ),
    "robomimic": (write_robomimic, {"robomimic": READ}),
    "npy": (
        write_npy,
        {"npy": READ, "npy, scored": REWARD + SCORED, "scored alone": REWARD + ALONE},
    ),
    "npz": (write_npz, {"npz": READ}),
    "PNG": (write_png, {"PNG": READ}),
    "MP4": (
        write_mp4,
        {
            "MP4": READ,
            "MP4, plain PyAV": PLAIN,
            "MP4, scored": REWARD + SCORED,
            "MP4, plain PyAV, scored": REWARD + PLAIN_SCORED,
        },
    ),
}


def main(args: Args) -> None:
    unknown = [name for name in args.formats if name not in FORMATS]
    if unknown:
        raise SystemExit(f"unknown format {unknown[0]!r}; choose from {', '.join(FORMATS)}")
    print("| format | opened, s | frames/s | CPU, µs/frame | memory, MB |\n|---|---|---|---|---|")
    for name in args.formats or FORMATS:
        write, rows = FORMATS[name]
        with tempfile.TemporaryDirectory() as folder:
            source = write(Path(folder), args)
            for label, code in rows.items():
                chosen = code.startswith(REWARD) == args.scored
                if chosen and (code != LEROBOT or args.lerobot):
                    measure(label, code, source, args)


def measure(label: str, code: str, source: Path, args: Args) -> None:
    """Print the row of a label."""
    python = args.lerobot if code == LEROBOT else sys.executable
    command = [python, "-c", START + code, str(source), args.device]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{label} failed:\n{done.stderr}")
    row = json.loads(done.stdout.splitlines()[-1])
    rates = f"{row['rate']:,.0f} | {row['cpu']:,.0f} | {row['peak']:.0f}"
    print(f"| {label} | {row['open']:.1f} | {rates} |", flush=True)


if __name__ == "__main__":
    import tyro

    main(tyro.cli(Args, description=__doc__))
