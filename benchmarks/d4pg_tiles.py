# SPDX-License-Identifier: Apache-2.0
"""Find cuts of D4PG's fused kernels that are faster on this GPU, for agent/fused/tiles.py.

    python benchmarks/d4pg_tiles.py --seconds 150

One kernel after the other tries its candidates in the whole captured update and keeps the fastest.
Lines to paste are printed as they are found; a candidate that does not run is told and skipped.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
import tyro

from d4pg_cuda import AGENTS, Repeated
from learners import d4pg, drawn, filled_replay
from pureward.data.replay.replay import Replay
from pureward.kernels.d4pg import passes, update
from pureward.kernels.d4pg.tiles import LARGE_BATCH, TILES, Tile, tile_of

UPDATES = 8  # in a graph
# A cut must gain this share of the whole update, or noise would choose.
WORTH = 0.005


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to search."""

    seconds: float = 150.0
    """Start no further candidate after this long."""
    cases: tuple[str, ...] = ("fast:2048", "paper:256")
    """Agents and batch sizes; the time is shared between them."""
    out: Path | None = None
    """JSON file for what was found."""


Key = tuple[str, bool, int, int]


@contextmanager
def recorded() -> Iterator[list[Key]]:
    """Note the place in `TILES` of every kernel that is launched."""
    asked: list[Key] = []

    def asking(kernel: str, batch: int, ins: int = 0, outs: int = 0) -> Tile:
        key = (kernel, batch >= LARGE_BATCH, ins, outs)
        if key not in asked:
            asked.append(key)
        return tile_of(kernel, batch, ins, outs)

    passes.tile_of = update.tile_of = asking
    try:
        yield asked
    finally:
        passes.tile_of = update.tile_of = tile_of


def candidates(key: Key, present: Tile) -> Iterator[Tile]:
    """Cuts worth trying, the present one first."""
    kernel, large, ins, outs = key
    yield present
    if kernel == "teach":
        shapes = ((64, 64, 32), (32, 32, 32), (32, 64, 64), (64, 32, 32), (32, 128, 32))
        yield from (Tile(*shape, 4, 3) for shape in shapes)
        yield Tile(32, 64, 64, 8, 3)
    elif kernel == "judge":
        shapes = ((16, 32, 4, 3), (16, 64, 8, 3), (32, 32, 8, 2), (16, 64, 2, 2))
        yield from (Tile(r, present.columns, d, w, s) for r, d, w, s in shapes)
    elif kernel.endswith("-norm"):
        shapes = ((16, 32, 8, 3), (16, 16, 8, 3), (32, 32, 8, 2), (32, 16, 16, 3), (64, 16, 16, 2))
        yield from (Tile(r, present.columns, d, w, s) for r, d, w, s in shapes)
    else:
        shapes = ((32, 64, 32, 4, 4), (32, 32, 64, 4, 3), (16, 64, 64, 4, 3), (64, 64, 32, 4, 4))
        wide = ((64, 64, 32, 8, 4), (128, 64, 32, 8, 3), (64, 128, 32, 8, 3), (32, 128, 32, 4, 3))
        for r, c, d, w, s in shapes + (wide if large else ()):
            if c <= max(32, 2 * outs) and d <= max(16, 2 * ins):
                yield Tile(r, c, d, w, s)


def microseconds(replay: Replay, kind: str, batch: int) -> float:
    """Time of one update of a fresh agent with the tiles as they are now."""
    agent = d4pg(replay.device, "fused", **AGENTS[kind])
    agent._fused[batch] = update.FusedUpdate(agent, batch)
    rng = torch.Generator(agent.device).manual_seed(0)
    fixed = drawn(replay, batch, rng)
    kept = [tensor for _, tensor in agent.tensors()]
    call = Repeated(lambda: agent.update(fixed)["critic/loss"], UPDATES, kept, rng)
    return call.microseconds(0.05)


def search(replay: Replay, kind: str, batch: int, until: float) -> Iterator[dict[str, object]]:
    with recorded() as keys:
        best = microseconds(replay, kind, batch)
    print(f"{kind} {batch}: {best} us before", flush=True)
    # Those with most work first.
    for key in sorted(keys, key=lambda key: (key[0] != "teach", -key[2] * key[3])):
        kernel, _, ins, outs = key
        kept = present = tile_of(kernel, batch, ins, outs)
        tried: dict[str, object] = {}
        for tile in candidates(key, present):
            if time.monotonic() > until:
                break
            if str(tuple(tile)) in tried:
                continue
            TILES[key] = tile
            try:
                found = tried[str(tuple(tile))] = microseconds(replay, kind, batch)
            except Exception as error:  # too much shared memory, for instance
                tried[str(tuple(tile))] = f"{type(error).__name__}: {error}"[:120]
                continue
            if found < best * (1 - WORTH):
                best, kept = found, tile
        TILES[key] = kept
        print(f"    {key!r}: {kept!r},  # {best} us, {tried}", flush=True)
        yield {"kind": kind, "batch": batch, "key": key, "tile": kept, "us": best, "tried": tried}


def main(args: Args) -> None:
    replay = filled_replay(torch.device("cuda"))
    began, rows = time.monotonic(), []
    for at, case in enumerate(args.cases):
        kind, batch = case.split(":")
        until = began + args.seconds * (at + 1) / len(args.cases)
        for row in search(replay, kind, int(batch), until):
            rows.append(row)
            if args.out is not None:
                args.out.parent.mkdir(parents=True, exist_ok=True)
                args.out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Args))
