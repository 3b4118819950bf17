# SPDX-License-Identifier: Apache-2.0
"""The leak check on 20 datasets without a leak, and with five leaks put into one side of each.

    python benchmarks/leaks.py --out results/offline/leaks.json

Datasets are pairs of sets of first frames: those of datasets/, of environments that are reset, of
crops from two photographs (scikit-learn's) with camera noise and changing light, and of drawn
squares. The first frames of a pair come from the same states, so that nothing but chance tells
them apart. Leaks: JPEG of quality 90, AV1 as LeRobot writes it (CRF 30), colours times 1.02, a
black column of one pixel, and a white mark of 3×6 pixels, as of a clock. The check must find them
and be silent without; `named` counts the datasets where it names the right cue.
"""

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
import tyro
from PIL import Image
from sklearn.datasets import load_sample_image
from torch import Tensor

import pureward
from pureward.data.draw import Painter
from pureward.files import write_json
from pureward.offline.leak import find_leak

_RESETS = 4
_WORLDS = 16


@dataclass(frozen=True, kw_only=True)
class Args:
    """Where to write."""

    out: Path = Path("results/offline/leaks.json")
    """JSON file for the figures."""


def stored() -> Iterator[tuple[str, Tensor, Tensor]]:
    """First frames of the repository's datasets: both kinds of a task, and halves of each."""
    for task in ("lift", "stack", "walker"):
        painter, kinds = Painter(task), {}
        for kind in ("demonstrations", "annotations"):
            episodes = pureward.read_episodes(Path("datasets") / task / kind)
            some = [painter.frames(episode, [0]) for episode in episodes[:80]]
            kinds[kind] = torch.cat(some)
            yield f"{task} {kind}, two halves", kinds[kind][::2], kinds[kind][1::2]
        yield f"{task} demonstrations and annotations", *kinds.values()


def simulated() -> Iterator[tuple[str, Tensor, Tensor]]:
    """First frames of environments, from two seeds."""
    kinds: tuple[tuple[str, dict[str, Any]], ...] = (
        ("reach", {}),
        ("reach", {"shadows": True}),
        ("lift", {"distractors": "cuboid"}),
        ("stack", {"shadows": True}),
    )
    for task, options in kinds:
        sides = []
        for seed in (1, 2):
            with pureward.make(task, _WORLDS, "cpu", seed=seed, cameras=True, **options) as env:
                frames = [env.reset().frames for _ in range(_RESETS)]
            sides.append(torch.cat([part for part in frames if part is not None]))
        told = " ".join(map(str, [task, *options]))
        yield f"{told}, reset", sides[0], sides[1]


def photographs() -> Iterator[tuple[str, Tensor, Tensor]]:
    """One view of a photograph, moved by a few pixels, with camera noise and changing light."""
    for name in ("china.jpg", "flower.jpg"):
        whole = torch.from_numpy(load_sample_image(name).copy()).permute(2, 0, 1).float()
        for light in (0.0, 0.02):
            rng = np.random.default_rng(0)
            both = torch.stack([_shot(whole, light, rng) for _ in range(120)])
            yield f"{name}, light ±{light:.0%}", both[:60], both[60:]


def _shot(whole: Tensor, light: float, rng: np.random.Generator) -> Tensor:
    top, left = 120 + rng.integers(0, 4), 200 + rng.integers(0, 4)
    view = whole[:, top : top + 192, left : left + 192] * (1 + rng.uniform(-light, light))
    small = torch.nn.functional.interpolate(view[None], (64, 64), mode="area")[0]
    noisy = small + torch.from_numpy(rng.normal(0, 2, small.shape)).float()
    return noisy.round().clamp(0, 255).to(torch.uint8)


def squares() -> Iterator[tuple[str, Tensor, Tensor]]:
    """A square at any place on a plain or noisy ground."""
    for name, noise, count in (
        ("plain", 0, 100),
        ("noisy", 10, 100),
        ("noisy, 12 episodes a side", 10, 24),
    ):
        rng = np.random.default_rng(1)
        frames = 80 + rng.integers(-noise, noise + 1, (count, 3, 64, 64))
        for frame in frames:
            top, left = rng.integers(0, 48, 2)
            frame[rng.integers(0, 3), top : top + 16, left : left + 16] = 200
        both = torch.from_numpy(frames.astype(np.uint8))
        yield f"squares, {name}", both[::2], both[1::2]


def jpeg(frames: Tensor) -> Tensor:
    """Compressed as JPEG and read back."""

    def one(image: np.ndarray) -> np.ndarray:
        stream = io.BytesIO()
        Image.fromarray(image).save(stream, "JPEG", quality=90)
        return np.array(Image.open(stream))

    return _by_image(frames, lambda images: np.stack([one(image) for image in images]))


def av1(frames: Tensor) -> Tensor:
    """Compressed as AV1, a film a camera, and read back."""

    def film(images: np.ndarray) -> np.ndarray:
        stream = io.BytesIO()
        with av.open(stream, "w", format="mp4") as container:
            video: Any = container.add_stream("libsvtav1", rate=30)
            video.height, video.width, video.pix_fmt = *images.shape[1:3], "yuv420p"
            video.options = {"crf": "30", "g": "2", "svtav1-params": "lp=1"}
            for image in images:
                container.mux(video.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
            container.mux(video.encode())
        stream.seek(0)
        with av.open(stream, "r") as container:
            decoded = container.decode(video=0)
            return np.stack([frame.to_ndarray(format="rgb24") for frame in decoded])

    return _by_image(frames, film)


def _by_image(frames: Tensor, change: Callable[[np.ndarray], np.ndarray]) -> Tensor:
    """Change the images (count, height, width, 3) of every camera."""
    parts = []
    for camera in frames.unflatten(1, (-1, 3)).unbind(1):
        images = np.ascontiguousarray(camera.permute(0, 2, 3, 1).numpy())
        parts.append(torch.from_numpy(change(images)).permute(0, 3, 1, 2))
    return torch.cat(parts, dim=1)


def colour(frames: Tensor) -> Tensor:
    """Colours times 1.02."""
    return (1.02 * frames.float()).round().clamp(0, 255).to(torch.uint8)


def border(frames: Tensor) -> Tensor:
    """A black column at the left."""
    changed = frames.clone()
    changed[..., 0] = 0
    return changed


def mark(frames: Tensor) -> Tensor:
    """A white mark of 3×6 pixels."""
    changed = frames.clone()
    changed[..., 5:8, 20:26] = 255
    return changed


# Leak → its cue, and what makes it.
LEAKS: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "none": ("", lambda frames: frames),
    "JPEG": ("texture", jpeg),
    "AV1": ("texture", av1),
    "colour ×1.02": ("colour", colour),
    "border of 1 px": ("border", border),
    "mark of 3×6 px": ("picture", mark),
}


def main(args: Args) -> None:
    """Check all datasets with all leaks, and print a table."""
    rows = []
    for name, first, second in (*stored(), *simulated(), *photographs(), *squares()):
        row: dict[str, Any] = {"dataset": name, "frames": [len(first), len(second)]}
        for leak, (_, change) in LEAKS.items():
            found = find_leak(change(first), second)
            best = found.cues[0]
            row[leak] = {"found": found.found, "cue": best.name, "auc": round(best.auc, 3)}
            row[leak]["chance"] = round(best.chance, 3)
        rows.append(row)
        shown = (f"{row[k]['cue']} {row[k]['auc']:.2f}" if row[k]["found"] else "–" for k in LEAKS)
        print(f"{name:42}" + "".join(f"{text:16}" for text in shown), flush=True)
    counts = {leak: sum(row[leak]["found"] for row in rows) for leak in LEAKS}
    named = {
        leak: sum(row[leak]["found"] and row[leak]["cue"] == cue for row in rows)
        for leak, (cue, _) in LEAKS.items()
        if cue
    }
    print(f"of {len(rows)} datasets: found {counts}, cue named {named}")
    write_json(args.out, {"datasets": len(rows), "found": counts, "named": named, "rows": rows})


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
