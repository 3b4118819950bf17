# SPDX-License-Identifier: Apache-2.0
"""Tile sizes of the fused kernels, by kernel and channels.

They were searched on an H200; a missing entry falls back to `DEFAULT` or `WIDE`.
"""

from typing import NamedTuple


class Tile(NamedTuple):
    """Tile size and launch options of a kernel."""

    block: int
    """Cells per tile, or per step of a sum."""
    warps: int
    """Warps per tile."""
    stages: int
    """Depth of the load pipeline."""
    taps: int
    """Source pixels of the 4×4 in one product, a power of two: up to 4 in a step of a
    convolution, up to 16 in a program of a weight gradient."""


DEFAULT = Tile(64, 4, 2, 2)
# Wider layers need the registers of more warps for their sums.
WIDE = Tile(32, 8, 2, 2)

TILES: dict[tuple[str, int, int], Tile] = {
    ("convolve", 16, 16): Tile(128, 4, 3, 2),
    ("convolve", 32, 32): Tile(128, 4, 3, 1),
    ("transpose", 16, 16): Tile(128, 4, 3, 2),
    ("transpose", 32, 32): Tile(128, 4, 3, 1),
    ("unpool", 32, 16): Tile(64, 4, 2, 1),
    ("unpool", 32, 32): Tile(64, 4, 2, 1),
    ("pool", 8, 16): Tile(128, 4, 1, 2),
    ("pool", 16, 32): Tile(128, 8, 2, 4),
    ("pool", 32, 32): Tile(128, 8, 3, 2),
    ("weight", 16, 16): Tile(64, 4, 3, 8),
    ("weight", 32, 32): Tile(64, 4, 3, 4),
    ("pooled-weight", 8, 16): Tile(32, 4, 4, 16),
    ("pooled-weight", 16, 32): Tile(32, 4, 3, 8),
    ("pooled-weight", 32, 32): Tile(32, 4, 3, 4),
}

# Programs of a layer's weight gradient, two per multiprocessor; 16 / `taps` of them work on the
# same share of the pixels.
PROGRAMS = 264
# Fewer tiles leave multiprocessors idle, so a small map has smaller tiles.
ENOUGH_TILES = 128
SMALLEST_BLOCK = 32


def tile_of(kernel: str, source: int, target: int, cells: int | None = None) -> Tile:
    """Return the tile of a kernel for its channels in and out and the cells of its map."""
    other = DEFAULT if max(source, target) <= 32 else WIDE
    tile = TILES.get((kernel, source, target), other)
    if cells is None:
        return tile
    block = tile.block
    while block > SMALLEST_BLOCK and -(-cells // block) < ENOUGH_TILES:
        block //= 2
    return tile._replace(block=block)
