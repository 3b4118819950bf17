# SPDX-License-Identifier: Apache-2.0
"""Warp beside torch: a quiet start, captured work, and memory that outlives the capture."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import torch
import warp as wp

# Arrays start at multiples of this many bytes, as the CUDA allocators place them.
_ALIGNMENT = 256


def quiet_start() -> None:
    """Initialise Warp without its banner; errors still show."""
    wp.config.log_level = wp.LOG_ERROR
    with nullcontext() if torch.cuda.is_available() else _no_standard_error():
        wp.init()


@contextmanager
def _no_standard_error() -> Iterator[None]:
    """Silence native code: Warp writes of a missing CUDA driver where none is expected."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(nowhere)
        os.close(kept)


def warp_device(device: torch.device) -> wp.Device:
    """Warp's name for a torch device."""
    return wp.device_from_torch(device)


class Workspace:
    """Scratch memory that a captured graph may reuse on every replay.

    MuJoCo Warp allocates some thirty scratch arrays a substep. Left to Warp, each becomes an
    allocation and a free inside the graph; here they are slices of torch memory that `rewind`
    hands out again, which is safe because the substeps of one stream run in order.
    """

    def __init__(self, device: torch.device, block_bytes: int = 1 << 24):
        self._device = device
        self._block_bytes = block_bytes
        self._blocks: list[torch.Tensor] = []
        self._block = 0
        self._offset = 0

    def rewind(self) -> None:
        """Hand out the same memory again from here on."""
        self._block = 0
        self._offset = 0

    def allocate(self, size_in_bytes: int) -> int:
        """Address of that many bytes, as Warp's allocator protocol asks."""
        size = -(-size_in_bytes // _ALIGNMENT) * _ALIGNMENT
        while self._block < len(self._blocks):
            block = self._blocks[self._block]
            if self._offset + size <= block.numel():
                address = block.data_ptr() + self._offset
                self._offset += size
                return address
            self._block += 1
            self._offset = 0
        self._blocks.append(
            torch.empty(max(size, self._block_bytes), dtype=torch.uint8, device=self._device)
        )
        return self.allocate(size_in_bytes)

    def deallocate(self, ptr: int, size_in_bytes: int) -> None:
        """Nothing: the memory lives as long as the workspace."""


class Captured:
    """Work recorded once as a CUDA graph and replayed by each call; on a CPU, simply done.

    The work is passed to each call and not kept: a method of the owner would hold the owner in a
    reference cycle, and its device memory until the garbage collector happens to run.
    """

    def __init__(self, device: torch.device, workspace: Workspace):
        self._device = device
        self._workspace = workspace
        self._graph = None
        self._streams: dict[int, wp.Stream] = {}

    def __call__(self, work: Callable[[], None]) -> None:
        """Do the work, the same at each call, in the order of torch's current stream."""
        if self._device.type == "cpu":
            work()
        elif self._graph is None:
            # The first call does the work itself, which compiles the kernels and claims the
            # scratch memory; the capture after it only records.
            self._on_own_stream(work)
            self._on_own_stream(lambda: self._record(work))
        else:
            wp.capture_launch(self._graph, stream=self._current_stream())

    def _record(self, work: Callable[[], None]) -> None:
        with wp.ScopedCapture(stream=wp.get_stream()) as capture:
            work()
        self._graph = capture.graph

    def _on_own_stream(self, act: Callable[[], None]) -> None:
        # Warp cannot capture torch's default stream, so both libraries move to a fresh one.
        current, own = torch.cuda.current_stream(self._device), torch.cuda.Stream(self._device)
        own.wait_stream(current)
        with torch.cuda.stream(own):
            warp_stream = wp.stream_from_torch(own)
            with (
                wp.ScopedStream(warp_stream),
                wp.ScopedAllocator(warp_stream.device, self._workspace),
            ):
                act()
        current.wait_stream(own)

    def _current_stream(self) -> wp.Stream:
        stream = torch.cuda.current_stream(self._device)
        if stream.cuda_stream not in self._streams:
            self._streams[stream.cuda_stream] = wp.stream_from_torch(stream)
        return self._streams[stream.cuda_stream]
