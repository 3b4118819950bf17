# SPDX-License-Identifier: Apache-2.0
"""Tile sizes of the fused kernels.

Small batches have small tiles, to use every multiprocessor; large batches have larger ones, since
each tile reads the weights again.
"""

from typing import NamedTuple


class Tile(NamedTuple):
    """Tile sizes and launch options of a kernel."""

    rows: int
    """Samples per tile, or per step of a weight gradient's sum."""
    columns: int
    """Outputs per tile."""
    depth: int
    """Inputs per step of a product's sum, or per tile of a weight gradient."""
    warps: int
    """Warps per tile."""
    stages: int
    """Depth of the load pipeline."""


LARGE_BATCH = 1024
# Most outputs of a layer with a norm, and most atoms: both need whole rows in a tile.
WIDEST_NORM = 512
WIDEST = 256


def tile_of(kernel: str, batch: int, ins: int = 0, outs: int = 0) -> Tile:
    """Return the tile of a kernel.

    Args:
        kernel: "forward", "backward", either with "-norm", "critic-loss" or "weight-gradient".
        batch: samples.
        ins: inputs of the layer.
        outs: outputs of the layer.
    """
    large = batch >= LARGE_BATCH
    whole, deep = _at_least_16(outs), _at_least_16(ins)
    if kernel == "weight-gradient":
        return Tile(32, 64, 32, 4, 3)
    if kernel == "critic-loss":
        if whole > 128:  # two weight tiles must fit into shared memory
            return Tile(16, whole, min(32, deep), 8, 2)
        return Tile(16, whole, min(64, deep), 4, 3)
    if kernel.endswith("-norm"):
        rows, warps = (32, 16) if large else (16, 8)
        return Tile(rows, whole, min(32, deep), warps, 2)
    return Tile(64 if large and outs > 64 else 32, min(64, whole), min(64, deep), 4, 3)


def power_of_two(count: int) -> int:
    """Return the smallest power of two that is at least `count`."""
    return 1 << (count - 1).bit_length()


def _at_least_16(count: int) -> int:
    # Matrix units need at least 16.
    return max(16, power_of_two(max(1, count)))
