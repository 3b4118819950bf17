# SPDX-License-Identifier: Apache-2.0
"""Augmentation against Kornia's equivalent pipeline, and a contact sheet to look at.

python benchmarks/augment.py --out results/reward
"""

import json
import platform
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import kornia
import kornia.augmentation as K
import torch
import tyro

from pureward.rewards.view import View, viewed


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to measure."""

    out: Path = Path("results/reward")
    """Folder for augment.json and augment.png."""
    batch: int = 128
    """Frames a call."""
    repeats: int = 15
    """Timed calls of each pipeline, alternating; the medians are compared."""
    threads: int = 2
    """CPU threads."""


def kornia_pipeline(config: View) -> K.ImageSequential:
    """The same distortions from Kornia's modules; its noise is Gaussian of the same variance."""
    side = config.crop**2
    return K.ImageSequential(
        K.RandomHorizontalFlip(p=0.5),
        K.RandomResizedCrop((64, 64), scale=(side, side), ratio=(1.0, 1.0), p=1.0),
        K.ColorJiggle(config.brightness, config.contrast, config.saturation, config.hue, p=1.0),
        K.RandomGaussianNoise(std=config.noise / 255 / 3**0.5, p=1.0),
    )


def timed(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(args: Args) -> dict[str, object]:
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    config = View()
    frames = torch.randint(0, 256, (args.batch, 3, 64, 64), dtype=torch.uint8)
    theirs = kornia_pipeline(config)
    calls = {
        "pureward": lambda: viewed(frames, config),
        "kornia": lambda: theirs(frames.float() / 255).clamp(0, 1),
    }
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for repeat in range(args.repeats + 2):
        for name, call in calls.items():
            elapsed = timed(call)
            if repeat >= 2:  # the first calls set up threads and caches
                seconds[name].append(elapsed)
    medians = {name: median(values) for name, values in seconds.items()}
    return {
        "batch": args.batch,
        "shape": [3, 64, 64],
        "threads": args.threads,
        "repeats": args.repeats,
        "milliseconds": {name: round(1e3 * value, 2) for name, value in medians.items()},
        "fastest_milliseconds": {n: round(1e3 * min(v), 2) for n, v in seconds.items()},
        "times_faster": round(medians["kornia"] / medians["pureward"], 2),
        "torch": torch.__version__,
        "kornia": kornia.__version__,
        "machine": platform.machine(),
        "commit": commit(),
    }


def commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip()


def contact_sheet(path: Path) -> None:
    """One test scene, each distortion alone, then all of them; eight draws a row."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = {
        "as stored": View.off(),
        "flip": View.only(flip=True),
        "crop": View.only(crop=0.8),
        "brightness": View.only(brightness=0.125),
        "contrast": View.only(contrast=(0.5, 2.0)),
        "saturation": View.only(saturation=(0.5, 2.0)),
        "hue": View.only(hue=0.05),
        "noise": View.only(noise=16.0),
        "all": View(),
    }
    generator = torch.Generator().manual_seed(4)
    figure, axes = pyplot.subplots(len(rows), 8, figsize=(8.6, 9.4), squeeze=False)
    for line, (name, config) in zip(axes, rows.items(), strict=True):
        frames = viewed(scene().repeat(8, 1, 1, 1), config, generator)
        for axis, frame in zip(line, frames, strict=True):
            axis.imshow(frame.permute(1, 2, 0).numpy())
            axis.set_xticks([])
            axis.set_yticks([])
        line[0].set_ylabel(name, rotation=0, ha="right", va="center")
    figure.tight_layout(pad=0.3)
    figure.savefig(path, dpi=90)


def scene() -> torch.Tensor:
    """A red ball and a blue box before a graded green wall, (1, 3, 64, 64) uint8."""
    y, x = torch.meshgrid(torch.arange(64.0), torch.arange(64.0), indexing="ij")
    image = torch.stack([70 + x, 130 + y, 90 + 0 * x])
    ball = (x - 20) ** 2 + (y - 36) ** 2 < 130
    box = ((x - 46).abs() < 9) & ((y - 42).abs() < 12)
    image = torch.where(ball, torch.tensor([210.0, 50.0, 40.0]).view(3, 1, 1), image)
    image = torch.where(box, torch.tensor([60.0, 80.0, 200.0]).view(3, 1, 1), image)
    return image.to(torch.uint8).unsqueeze(0)


def main(args: Args) -> None:
    args.out.mkdir(parents=True, exist_ok=True)
    result = measure(args)
    command = "python benchmarks/augment.py"
    (args.out / "augment.json").write_text(json.dumps({"command": command} | result, indent=2))
    contact_sheet(args.out / "augment.png")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main(tyro.cli(Args))
