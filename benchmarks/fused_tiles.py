# SPDX-License-Identifier: Apache-2.0
"""Find the tiles of the fused kernels on this GPU and print the table for fused/tiles.py.

python benchmarks/fused_tiles.py --batch 512 --budget-seconds 120
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pureward.reward.fused import tiles, trunk
from pureward.reward.fused.tiles import TILES, Tile
from pureward.reward.fused.trunk import Layer


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


def candidates(kernel: str) -> list[Tile]:
    """Cuts worth trying, the likelier first."""
    if kernel in ("weight", "pooled-weight"):
        shapes = ((64, 4), (128, 4), (32, 2), (128, 8), (64, 2))
        return [Tile(b, w, s) for s in (3, 2, 4) for b, w in shapes]
    if kernel == "pool":
        shapes = ((64, 4), (128, 8), (32, 4), (128, 4), (32, 2))
        return [Tile(b, w, s, t) for s in (2, 1, 3) for t in (4, 1) for b, w in shapes]
    shapes = ((128, 4), (256, 8), (64, 4), (256, 4))
    return [Tile(b, w, s, t) for s in (3, 1, 2) for t in (1, 4) for b, w in shapes]


def a_map(batch: int, side: int, channels: int) -> Tensor:
    return torch.randn(batch, side, side, channels, device="cuda").to(torch.bfloat16)


def a_layer(source: int, target: int) -> Layer:
    weight = torch.randn(target, 3, 3, source, device="cuda") / (9 * source) ** 0.5
    return Layer(weight.to(torch.bfloat16), torch.zeros(target, device="cuda"))


def launches(batch: int) -> Iterator[tuple[tuple[str, int, int], Callable[[], object]]]:
    """Every kernel of a 64×64 network, on maps of the size it meets there."""
    for channels, side in ((16, 32), (32, 16)):
        layer, x = a_layer(channels, channels), a_map(batch, side, channels)
        gate, skip = a_map(batch, side, channels), a_map(batch, side, channels)
        partial = torch.empty(tiles.SHARES, 9 * channels**2 + channels, device="cuda")
        yield (
            ("convolve", channels, channels),
            lambda x=x, layer=layer, skip=skip: trunk._convolved(x, layer, added=skip),
        )
        yield (
            ("transpose", channels, channels),
            lambda x=x, layer=layer, gate=gate, skip=skip: trunk._convolved(
                x, layer, transposed=True, gate=gate, added=skip
            ),
        )
        yield (
            ("weight", channels, channels),
            lambda x=x, layer=layer, gate=gate, partial=partial: trunk._weight_gradient(
                x, gate, layer, partial, relu_in=True
            ),
        )
    for source, target, side in ((8, 16, 64), (16, 32, 32), (32, 32, 16)):
        layer, x = a_layer(source, target), a_map(batch, side, source)
        pooled, winner = trunk._pooled(x, layer)
        partial = torch.empty(tiles.SHARES, 9 * source * target + target, device="cuda")
        yield ("pool", source, target), lambda x=x, layer=layer: trunk._pooled(x, layer)
        yield (
            ("pooled-weight", source, target),
            lambda x=x, g=pooled, w=winner, layer=layer, p=partial: trunk._weight_gradient(
                x, g, layer, p, winner=w
            ),
        )
        if source > 8:
            yield (
                ("unpool", target, source),
                lambda g=pooled, w=winner, layer=layer: trunk._convolved(
                    g, layer, transposed=True, winner=w
                ),
            )


def search(batch: int, budget_seconds: float) -> list[dict[str, Any]]:
    """Try the candidates of every kernel, keep the fastest in TILES, report each choice."""
    deadline = time.monotonic() + budget_seconds
    rows: list[dict[str, Any]] = []
    for done, (key, call) in enumerate(launches(batch)):
        # Kernels share the time left, so that none goes without a search.
        share = (deadline - time.monotonic()) / max(1, len(TILES) - done)
        until = time.monotonic() + share
        timed: dict[Tile, float] = {}
        for tile in [TILES[key], *candidates(key[0])]:
            if tile in timed or (timed and time.monotonic() > until):
                continue
            TILES[key] = tile
            try:
                timed[tile] = milliseconds(call)
            except Exception as error:  # too much shared memory, for instance
                print(f"{key} {tuple(tile)}: {type(error).__name__}", flush=True)
                torch.cuda.synchronize()
        best = min(timed, key=timed.__getitem__)
        TILES[key] = best
        first = next(iter(timed.values()))
        row = {"kernel": key, "tile": best, "ms": timed[best], "before_ms": first}
        rows.append(row | {"tried": len(timed)})
        print(f"    {key!r}: {best!r},  # {timed[best]:.4f} ms, was {first:.4f}", flush=True)
    return rows


if __name__ == "__main__":
    import tyro

    arguments = tyro.cli(Args)
    found = search(arguments.batch, arguments.budget_seconds)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "fused_tiles.json").write_text(json.dumps(found, indent=2))
