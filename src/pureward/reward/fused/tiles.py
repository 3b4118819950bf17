# SPDX-License-Identifier: Apache-2.0
"""How the fused kernels cut their work, by kernel and channels.

Found on one H200 by benchmarks/fused_tiles.py; a missing entry falls back to `DEFAULT`.
"""

from typing import NamedTuple


class Tile(NamedTuple):
    """One kernel's cut."""

    block: int
    """Pixels a tile, or a step of a sum."""
    warps: int
    """Warps a tile."""
    stages: int
    """Depth of the load pipeline."""
    taps: int = 1
    """1 multiplies the nine taps of a kernel one by one, 4 its three rows."""


DEFAULT = Tile(64, 4, 2, 4)

TILES: dict[tuple[str, int, int], Tile] = {
    ("convolve", 16, 16): Tile(128, 4, 3, 1),
    ("convolve", 32, 32): Tile(128, 4, 3, 1),
    ("transpose", 16, 16): Tile(128, 4, 3, 1),
    ("transpose", 32, 32): Tile(128, 4, 3, 1),
    ("unpool", 32, 16): Tile(128, 4, 2, 1),
    ("unpool", 32, 32): Tile(128, 4, 2, 1),
    ("pool", 8, 16): Tile(64, 4, 2, 4),
    ("pool", 16, 32): Tile(64, 4, 2, 4),
    ("pool", 32, 32): Tile(64, 4, 2, 1),
    ("weight", 16, 16): Tile(128, 4, 3),
    ("weight", 32, 32): Tile(64, 4, 3),
    ("pooled-weight", 8, 16): Tile(128, 4, 2),
    ("pooled-weight", 16, 32): Tile(64, 4, 2),
    ("pooled-weight", 32, 32): Tile(64, 4, 2),
}

# Programs that each sum a share of the pixels into a weight gradient: two a multiprocessor.
SHARES = 264


def tile_of(kernel: str, source: int, target: int) -> Tile:
    """Return the cut of a kernel for its channels in and out."""
    return TILES.get((kernel, source, target), DEFAULT)
