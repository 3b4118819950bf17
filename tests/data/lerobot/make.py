"""Writes the LeRobot v3 fixtures of this folder with the real library.

    python3.12 -m venv lr && lr/bin/pip install 'lerobot[dataset]==0.6.1'
    lr/bin/python tests/data/lerobot/make.py tests/data/lerobot

Every image is grey, and its level says which one it is: `level(episode, frame)`, and for the wrist
camera 20 more.
"""

import shutil
import sys
from pathlib import Path

import numpy as np
from lerobot.datasets.lerobot_dataset import LeRobotDataset

LENGTHS = (5, 7, 4)
FEATURES = {
    "observation.state": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
    "action": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
    "next.reward": {"dtype": "float32", "shape": (1,), "names": None},
    "next.success": {"dtype": "bool", "shape": (1,), "names": None},
    "next.done": {"dtype": "bool", "shape": (1,), "names": None},
}


def level(episode: int, frame: int) -> int:
    """The grey level of an image."""
    return 10 + 60 * episode + 8 * frame


def write(root: Path, kind: str, cameras: dict[str, int], **options) -> None:
    """Write a dataset whose cameras show `level` plus their offset."""
    image = {"dtype": kind, "shape": (64, 96, 3), "names": ["height", "width", "channels"]}
    shutil.rmtree(root, ignore_errors=True)
    dataset = LeRobotDataset.create(
        f"pureward/{root.name}",
        fps=10,
        features=FEATURES | {f"observation.images.{name}": image for name in cameras},
        root=root,
        use_videos=kind == "video",
        **options,
    )
    for episode, length in enumerate(LENGTHS):
        for frame in range(length):
            last = frame == length - 1
            row = {
                "observation.state": np.array([episode, frame], np.float32),
                "action": np.array([frame, -episode], np.float32),
                "next.reward": np.array([frame / 8], np.float32),
                "next.success": np.array([last and episode != 2]),
                "next.done": np.array([last]),
                "task": "show a grey image",
            }
            for name, offset in cameras.items():
                shown = np.full((64, 96, 3), level(episode, frame) + offset, np.uint8)
                row[f"observation.images.{name}"] = shown
            dataset.add_frame(row)
        dataset.save_episode()
    dataset.finalize()


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    write(folder / "films", "video", {"front": 0, "wrist": 20})
    # A data file for each episode.
    write(folder / "pictures", "image", {"front": 0}, data_files_size_in_mb=1e-6)
