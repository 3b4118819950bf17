# SPDX-License-Identifier: Apache-2.0
"""How fast the page of `pureward studio` is: the first picture of each view, and scrubbing.

    python benchmarks/studio.py
    python benchmarks/studio.py runs/gated

Opens a run of 10,000 evaluations, and a set of 1,000 episodes of 100 steps, in a browser without a
cache. The time runs from opening the address to the first curves or the first frame. Scrubbing
moves the pointer by one frame of the episode at every refresh of the screen, which is 60 a second,
and counts frames that were drawn in time; in the view of runs it needs a trained run, whose policy
acts first. Prints the best of several tries: others may use the
processor.

Needs `pip install playwright` and a browser: `apt-get install chromium`.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from playwright.sync_api import Browser, Page, sync_playwright

_BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_STEPS = 100
# Milliseconds since the address was opened, once there is a picture.
_FIRST = {
    "evidence": "() => document.querySelector('.charts canvas[width]') && performance.now()",
    "sketch": "() => document.querySelector('#frame').dataset.frame && performance.now()",
}
# Where to drag in each view, the picture that follows, the margins of the time axis in pixels, and
# the frame at its left end.
_AXES = {
    "evidence": {"on": "tracks", "shown": "scored-frame", "left": 44, "right": 10, "first": 1},
    "sketch": {"on": "curve", "shown": "frame", "left": 34, "right": 12, "first": 0},
}
# Drag over the upper edge. Resolves to the frames that were drawn in time, and how many
# milliseconds it took.
_SCRUB = """async ({ on, shown: name, left, right, first, steps }) => {
  const canvas = document.getElementById(on), shown = document.getElementById(name);
  canvas.scrollIntoView({ block: "end" });
  const box = canvas.getBoundingClientRect();
  const long = canvas.clientWidth - left - right;
  const send = (kind, frame) => canvas.dispatchEvent(new PointerEvent(kind, {
    clientX: box.left + left + (long * (frame - first)) / (steps - first), clientY: box.top + 8,
    pointerId: 1, bubbles: true, buttons: 1,
  }));
  const refresh = () => new Promise(requestAnimationFrame);
  canvas.setPointerCapture = () => {};
  send("pointerdown", first);
  let drawn = 0;
  const start = await refresh();
  let end = start;
  for (let frame = first + 1; frame <= steps; frame++) {
    send("pointermove", frame);
    end = await refresh();
    drawn += Number(shown.dataset.frame) === frame;
  }
  send("pointerup", steps);
  return [drawn, end - start];
}"""


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to measure, and how often."""

    run: Annotated[Path | None, tyro.conf.Positional] = None
    """A trained run, to measure scrubbing in the view of runs."""
    tries: int = 5
    """Tries of each; the best counts."""


def write_run(path: Path, evaluations: int = 10_000) -> None:
    """Write the settings and metrics of a run, with a probe beside every evaluation."""
    path.mkdir()
    settings = {"task": "reach", "method": "nn-pugail", "seed": 0, "demonstrations": ""}
    (path / "config.json").write_text(json.dumps(settings))
    rng = np.random.default_rng(0)
    with (path / "metrics.jsonl").open("w") as file:
        for number in range(1, evaluations + 1):
            at = {"step": 100 * number, "seconds": 1.0 * number, "updates": number}
            returns = {"return": rng.normal(50, 9), "learned_return": rng.normal(60, 9)}
            sources = {f"success/{name}": rng.random() for name in ("train", "held-out", "agent")}
            for row in (
                {"kind": "eval", **returns},
                {"kind": "probe", **sources, "mean/train": 0.8, "mean/as_trained": 0.7},
                {"kind": "train", "prior": 0.4, "prior/value": rng.random()},
            ):
                file.write(json.dumps(row | at) + "\n")


def write_set(path: Path, episodes: int = 1_000) -> None:
    """Write episodes; the first one has noise, which is the slowest to send and to decode."""
    shape = (episodes, _STEPS + 1, 64, 64, 3)
    frames = np.lib.format.open_memmap(path, "w+", np.uint8, shape)
    frames[0] = np.random.default_rng(0).integers(0, 256, shape[1:], np.uint8)


@contextmanager
def studio(path: Path) -> Iterator[str]:
    """The address of a server."""
    command = [sys.executable, "-m", "pureward", "studio", str(path), "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().split()[1]
        finally:
            server.terminate()


@contextmanager
def opened(browser: Browser, address: str, view: str) -> Iterator[tuple[Page, float]]:
    """A page with an empty cache, and the milliseconds to its first picture."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(address, wait_until="commit")
    yield page, page.wait_for_function(_FIRST[view]).json_value()
    context.close()


def search(page: Page) -> int:
    """Let the run's policy act; return the number of steps of the first episode."""
    page.wait_for_load_state("networkidle")
    if page.locator("#found").is_hidden():
        page.click("#search")
    page.wait_for_selector("#scored-frame[data-frame]", timeout=300_000)
    return int(page.inner_text("#instant").split(":")[0].split()[-1])


def scrub(page: Page, view: str, steps: int) -> tuple[float, float]:
    """Return frames per second, and milliseconds of processor time that the page takes a frame."""
    page.wait_for_load_state("networkidle")
    tool = page.context.new_cdp_session(page)
    tool.send("Performance.enable", {"timeDomain": "threadTicks"})

    def work() -> float:
        metrics = tool.send("Performance.getMetrics")["metrics"]
        return next(each["value"] for each in metrics if each["name"] == "TaskDuration")

    before = work()
    drawn, took = page.evaluate(_SCRUB, _AXES[view] | {"steps": steps})
    return 1000 * drawn / took, 1000 * (work() - before) / (steps - _AXES[view]["first"])


def main(args: Args) -> None:
    """Measure, and print the best of the tries."""
    found = next(filter(None, map(shutil.which, _BROWSERS)), None)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        run, data = Path(folder, "run"), Path(folder, "set.npy")
        write_run(run)
        write_set(data)
        places = [(run, "evidence"), (data, "sketch")]
        if args.run is not None:
            places.append((args.run, "evidence"))
        for path, view in places:
            first, rates = [], []
            with studio(path) as address:
                for _ in range(args.tries):
                    with opened(browser, address, view) as (page, milliseconds):
                        first.append(milliseconds)
                        if path == args.run:
                            rates.append(scrub(page, view, search(page)))
                        elif path == data:
                            rates.append(scrub(page, view, _STEPS))
            print(f"{path.name}, {view}: first picture after {min(first) / 1000:.2f} s", end="")
            if rates:
                frames, work = max(rate for rate, _ in rates), min(each for _, each in rates)
                print(f"; scrubbing, {frames:.1f} frames/s, {work:.1f} ms of work a frame", end="")
            print()
        browser.close()


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
