# SPDX-License-Identifier: Apache-2.0
"""How the fused kernels cut their work.

Small batches are cut fine, to use every multiprocessor at once; large ones coarser, since each
tile reads the weights again.
"""

from typing import NamedTuple


class Tile(NamedTuple):
    """One kernel's cut."""

    rows: int
    """Samples a tile, or a step of a weight gradient's sum."""
    columns: int
    """Outputs a tile."""
    depth: int
    """Inputs a step of a product's sum, or a tile of a weight gradient."""
    warps: int
    """Warps a tile."""
    stages: int
    """Depth of the load pipeline."""


LARGE_BATCH = 1024
# Outputs of a layer whose norm is taken on the tile, which must hold whole rows; likewise atoms.
WIDEST_NORM = 512
WIDEST = 128

#: By kernel, whether the batch is large, inputs and outputs: cuts that were found to be faster
#: than the rule's on an H200.
TILES: dict[tuple[str, bool, int, int], Tile] = {}


def tile_of(kernel: str, batch: int, ins: int = 0, outs: int = 0) -> Tile:
    """Return the cut of a kernel: "forward" or "backward", "-norm" or not, "judge" or "teach"."""
    large = batch >= LARGE_BATCH
    found = TILES.get((kernel, large, ins, outs))
    if found is not None:
        return found
    whole, deep = _at_least_16(outs), _at_least_16(ins)
    if kernel == "teach":
        return Tile(32, 64, 32, 4, 3)
    if kernel == "judge":
        return Tile(16, whole, min(64, deep), 4, 3)
    if kernel.endswith("-norm"):
        rows, warps = (32, 16) if large else (16, 8)
        return Tile(rows, whole, min(32, deep), warps, 2)
    return Tile(64 if large and outs > 64 else 32, min(64, whole), min(64, deep), 4, 3)


def power_of_two(count: int) -> int:
    """Return the smallest power of two that is no smaller."""
    return 1 << (count - 1).bit_length()


def _at_least_16(count: int) -> int:
    # Matrix units take sixteen and more at a time.
    return max(16, power_of_two(max(1, count)))
