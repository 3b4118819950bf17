# SPDX-License-Identifier: Apache-2.0
"""Find the tiles of the fused kernels on this GPU and print the table for fused/tiles.py.

python benchmarks/fused_tiles.py --batch 512 --budget-seconds 120
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pureward.kernels.rewards import trunk
from pureward.kernels.rewards.spread import Layer
from pureward.kernels.rewards.tiles import TILES, Tile
from pureward.kernels.rewards.weights import WeightSums


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to search."""

    batch: int = 512
    """Frames a launch."""
    budget_seconds: float = 120.0
    """Stop searching after this long; the rest keeps its present tile."""
    out: Path = Path("results/reward")
    """Folder for fused_tiles.json."""


def milliseconds(call: Callable[[], object], launches: int = 20) -> float:
    """Time of one launch inside a CUDA graph of many."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            call()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    best = float("inf")
    for _ in range(4):
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        best = min(best, start.elapsed_time(end) / launches)
    return best


def candidates(kernel: str, source: int) -> list[Tile]:
    """Cuts worth trying, the likelier first."""
    if kernel in ("weight", "pooled-weight"):
        shapes = ((64, 8, 3), (64, 4, 3), (32, 4, 3), (128, 8, 2), (32, 4, 4), (64, 4, 2))
        taps = 128 // source  # of which a product is 128 wide
        return [Tile(*shape, taps // less) for less in (1, 2) for shape in shapes]
    if kernel == "unpool":
        shapes = ((128, 4, 2, 1), (64, 4, 2, 1), (128, 4, 3, 1), (64, 4, 3, 2), (128, 8, 2, 2))
        return [Tile(*shape) for shape in shapes]
    shapes = ((128, 4), (64, 4), (128, 8), (256, 8))
    tiles = [Tile(*shape, s, t) for s, t in ((3, 2), (2, 4), (3, 1), (3, 4)) for shape in shapes]
    return [tile for tile in tiles if tile.taps * source >= 16]


def a_map(batch: int, side: int, channels: int) -> Tensor:
    return torch.randn(batch, side, side, channels, device="cuda").to(torch.bfloat16)


def a_layer(source: int, target: int) -> Layer:
    spread = torch.randn(2, 64 * source * target, device="cuda") / (9 * source) ** 0.5
    forward, backward = spread.to(torch.bfloat16)
    return Layer(source, target, forward, backward, torch.zeros(target, device="cuda"))


def summed(layer: Layer, source: Tensor, gradient: Tensor, winner: Tensor | None = None) -> object:
    """One layer's weight gradient, the adding up of its shares included."""
    sums = WeightSums([layer], [winner is not None], source)
    sums.add(0, source, gradient, winner=winner, relu_in=winner is None)
    return sums.totals()


def launches(batch: int) -> Iterator[tuple[tuple[str, int, int], Callable[[], object]]]:
    """Every kernel of a 64×64 network, on maps of the size it meets there."""
    for source, target, side in ((8, 16, 64), (16, 32, 32), (32, 32, 16)):
        layer, x = a_layer(source, target), a_map(batch, side, source)
        g, winner = trunk.pooled(x, layer)
        yield ("pool", source, target), partial(trunk.pooled, x, layer)
        yield ("pooled-weight", source, target), partial(summed, layer, x, g, winner)
        if source > 8:
            yield (
                ("unpool", target, source),
                partial(trunk.sent_back, g, layer, winner=winner),
            )
    for channels, side in ((16, 32), (32, 16)):
        layer = a_layer(channels, channels)
        x, gate, skip = (a_map(batch, side, channels) for _ in range(3))
        yield ("convolve", channels, channels), partial(trunk.convolved, x, layer, added=skip)
        yield (
            ("transpose", channels, channels),
            partial(trunk.sent_back, x, layer, gate=gate, added=skip),
        )
        yield ("weight", channels, channels), partial(summed, layer, x, gate)


def search(batch: int, budget_seconds: float) -> Iterator[dict[str, Any]]:
    """Try the candidates of every kernel, keep the fastest in TILES, yield each choice.

    A weight gradient is timed with the sum over its shares.
    """
    deadline = time.monotonic() + budget_seconds
    for done, (key, call) in enumerate(launches(batch)):
        # Kernels share the time left, so that none goes without a search.
        share = (deadline - time.monotonic()) / max(1, len(TILES) - done)
        until = time.monotonic() + share
        timed: dict[Tile, float] = {}
        present = TILES[key]
        for tile in [present, *candidates(*key[:2])]:
            if tile in timed or (timed and time.monotonic() > until):
                continue
            TILES[key] = tile
            try:
                timed[tile] = milliseconds(call)
            except Exception as error:  # too much shared memory, for instance
                print(f"{key} {tuple(tile)}: {type(error).__name__}", flush=True)
                torch.cuda.synchronize()
        best = min(timed, key=timed.__getitem__, default=present)
        TILES[key] = best
        if not timed:
            yield {"kernel": key, "failed": "no tile runs"}
            continue
        first = next(iter(timed.values()))
        print(f"    {key!r}: {best!r},  # {timed[best]:.4f} ms, was {first:.4f}", flush=True)
        yield {
            "kernel": key,
            "tile": best,
            "ms": timed[best],
            "before_ms": first,
            "tried": len(timed),
        }


if __name__ == "__main__":
    import tyro

    arguments = tyro.cli(Args)
    found = list(search(arguments.batch, arguments.budget_seconds))
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "fused_tiles.json").write_text(json.dumps(found, indent=2))
