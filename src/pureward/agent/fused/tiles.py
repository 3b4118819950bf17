# SPDX-License-Identifier: Apache-2.0
"""How the fused kernels cut their work.

Small batches are cut fine, to use every multiprocessor at once; large ones coarser, since each
tile reads the weights again.
"""

from typing import NamedTuple


class Tile(NamedTuple):
    """One kernel's cut."""

    rows: int
    """Samples a tile."""
    columns: int
    """Outputs a tile."""
    depth: int
    """Inputs a step of the sum."""
    warps: int
    """Warps a tile."""
    stages: int
    """Depth of the load pipeline."""


LARGE_BATCH = 1024
# Outputs of a layer whose norm is taken on the tile: it must hold whole rows.
WIDEST_NORM = 512
# Atoms of a distribution, held whole likewise.
WIDEST = 128


def tile_of(batch: int, ins: int, outs: int, *, whole_rows: bool) -> Tile:
    """Return the cut of a layer's product, forward or backward."""
    large = batch >= LARGE_BATCH
    if whole_rows:
        rows, warps = (32, 16) if large else (16, 8)
        return Tile(rows, max(16, power_of_two(outs)), min(32, _depth(ins)), warps, 2)
    rows = 64 if large and outs > 64 else 32
    return Tile(rows, min(64, max(16, power_of_two(outs))), min(64, _depth(ins)), 4, 3)


def power_of_two(count: int) -> int:
    """Return the smallest power of two that is no smaller."""
    return 1 << (count - 1).bit_length()


def _depth(ins: int) -> int:
    # Matrix units take sixteen and more at a time.
    return max(16, power_of_two(ins))
