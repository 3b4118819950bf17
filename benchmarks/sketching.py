# SPDX-License-Identifier: Apache-2.0
"""Draws the rewards of a dataset on the page of `pureward studio`, in a browser, as a person would.

    python benchmarks/sketching.py data/rated --film film.webp

The hand sees the true reward of each frame with a person's errors, and drags one stroke an episode
through it. It draws a few frames late, looks at every fifth to twelfth frame and joins what it saw
by straight lines. In each episode it is too generous or too strict, and it trembles. It does not
reach the first and last frames. Prints how far the stored sketches are from the truth.

Needs `pip install playwright` and a browser: `apt-get install chromium`.
"""

import io
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from PIL import Image
from playwright.sync_api import Page, sync_playwright

import pureward

_BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to draw."""

    dataset: Annotated[Path, tyro.conf.Positional]
    """Episodes with rewards; all are drawn. Sketches go to DATASET.sketches/script."""
    seed: int = 0
    """Of the hand's errors."""
    film: Path | None = None
    """WebP file for a film of the two episodes whose reward rises most."""


def stroke(rewards: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the frames (points,) that the hand looks at, and the values that it draws there."""
    steps = len(rewards)
    frames = rng.integers(2, 6) + np.cumsum(rng.integers(5, 13, steps // 5))
    frames = np.append(frames[frames < steps - 3], steps - rng.integers(0, 3))
    late, gain, bias = rng.integers(0, 4), rng.normal(1, 0.1), rng.normal(0, 0.05)
    seen = rewards[np.maximum(0, frames - 1 - late)]
    return frames, np.clip(gain * seen + bias + rng.normal(0, 0.06, len(frames)), 0, 1)


def draw(page: Page, rewards: np.ndarray, rng: np.random.Generator, film: list[bytes] | None):
    """Drag one stroke, and wait until it is saved."""
    frames, values = stroke(rewards, rng)
    every = np.arange(frames[0], frames[-1] + 1)
    box = page.locator("#curve").bounding_box()
    assert box is not None
    left, right, top, bottom = 35, 13, 31, 33  # as in curve.js, with border and pad
    xs = box["x"] + left + (box["width"] - left - right) * every / len(rewards)
    heights = (box["height"] - top - bottom) * np.interp(every, frames, values)
    ys = box["y"] + box["height"] - bottom - heights
    for number, (x, y) in enumerate(zip(xs, ys, strict=True)):
        page.mouse.move(float(x + rng.normal(0, 1)), float(y + rng.normal(0, 2)))
        if number == 0:
            page.mouse.down()
        if film is not None and number % 3 == 0:
            page.locator("#stage:not(.waiting)").wait_for()
            film.append(page.screenshot())
    page.mouse.up()
    page.locator("#status", has_text="Saved").wait_for()
    if film is not None:
        film.extend([page.screenshot()] * 6)


def main(args: Args) -> None:
    """Start the studio, draw all episodes, and print the distance from the truth."""
    truth = pureward.read_episodes(args.dataset)
    rng, film = np.random.default_rng(args.seed), []
    filmed = np.argsort([float(each.rewards[-1] - each.rewards[0]) for each in truth])[-2:]
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    command = [sys.executable, "-m", "pureward", "studio", str(args.dataset)]
    with subprocess.Popen(
        [*command, "--no-browser", "--port", "0"], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[1]
            with sync_playwright() as playwright:
                shown = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
                page = shown.new_page(viewport={"width": 800, "height": 640})
                page.goto(address)
                page.locator("#frame[data-frame='0']").wait_for()
                page.locator("#annotator").fill("script")
                page.locator("#annotator").press("Enter")
                for number, episode in enumerate(truth):
                    if number:
                        page.keyboard.press("n")
                    page.locator("#status", has_text="Nothing drawn yet").wait_for()
                    page.locator("#frame[data-frame='0']").wait_for()
                    shows = args.film is not None and number in filmed
                    draw(page, episode.rewards.numpy(), rng, film if shows else None)
                shown.close()
        finally:
            server.terminate()
    report(args.dataset)
    if args.film is not None:
        images = [Image.open(io.BytesIO(each)) for each in film]
        images[0].save(args.film, save_all=True, append_images=images[1:], duration=120, loop=0)


def report(dataset: Path) -> None:
    """Print how far the sketches are from the true rewards."""
    truth = pureward.read_episodes(dataset)
    drawn = pureward.read_episodes(dataset.with_name(dataset.name + ".sketches") / "script")
    pairs = [(a.rewards.numpy(), b.rewards.numpy()) for a, b in zip(truth, drawn, strict=True)]
    x, y = map(np.concatenate, zip(*pairs, strict=True))
    print(
        f"{len(drawn)} episodes, {len(x):,} steps: mean distance {np.abs(x - y).mean():.3f}, "
        f"correlation {np.corrcoef(x, y)[0, 1]:.3f}"
    )


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
