# SPDX-License-Identifier: Apache-2.0
"""Warp beside torch: silent start, compiling, CUDA graph capture and its scratch memory."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import numpy as np
import torch
import warp as wp
from warp._src import build
from warp._src.context import ModuleBuilder

_ALIGNMENT = 256  # bytes, as in the CUDA allocators
_NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}
_COMPILE_SOLVER = """
import json, sys, types, warp
from warp._src import build

warp.init()
warp.config.kernel_cache_dir, arguments, settings = json.loads(sys.argv[1])
builder = types.SimpleNamespace(ltoirs={}, ltoirs_decl={}, fatbins={})
build.build_lto_solver(*arguments, builder, **settings)
"""


def quiet_start() -> None:
    """Initialise Warp without its banner; errors still show."""
    wp.config.log_level = wp.LOG_ERROR
    with nullcontext() if torch.cuda.is_available() else _no_standard_error():
        wp.init()


@contextmanager
def _no_standard_error() -> Iterator[None]:
    """Silence native code: without a GPU Warp reports a missing CUDA driver."""
    sys.stderr.flush()
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(null)
        os.close(kept)


def compile_kernels(work: Callable[[], None], device: torch.device) -> None:
    """Compile the kernels of some work on all cores; the work is not done.

    Warp compiles a kernel when it is first launched, one after another. Here launches are only
    recorded, and the bodies of conditional nodes run once. What the work sets to zero is set to
    zero, so do the work before its results are read. What fails here fails again in the work.
    """
    needed: dict[wp.Module, set[int]] = {}
    tiled: dict[wp.Module, set[int]] = {}

    def launch(kernel: wp.Kernel, dim: Any, *_: Any, block_dim: int = 256, **__: Any) -> None:
        if np.prod(dim):  # Warp compiles nothing for an empty launch
            needed.setdefault(kernel.module, set()).add(block_dim)

    def launch_tiled(kernel: wp.Kernel, dim: Any, *_: Any, block_dim: int, **__: Any) -> None:
        tiled.setdefault(kernel.module, set()).add(block_dim)

    def body(_: Any, *, while_body: Any = None, on_true: Any = None, **arguments: Any) -> None:
        (while_body or on_true)(**arguments)

    def load(module: wp.Module, block_dims: set[int]) -> None:
        for block_dim in block_dims:
            with suppress(Exception):
                wp.force_load(wp.device_from_torch(device), [module], block_dim=block_dim)

    recorded = {"launch": launch, "launch_tiled": launch_tiled, "copy": lambda *_, **__: None}
    recorded |= {"capture_while": body, "capture_if": body}
    kept = {name: getattr(wp, name) for name in recorded}
    wp.__dict__.update(recorded)
    try:
        with suppress(Exception):
            work()
    finally:
        wp.__dict__.update(kept)
    solvers = []
    if device.type == "cuda" and not os.path.isdir(build.get_lto_cache_dir()):
        with suppress(Exception):
            solvers = solvers_of(tiled, wp.device_from_torch(device).arch)
    with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as threads:
        compiled = threads.map(compile_solver, solvers)
        threads.map(load, needed, needed.values())
        list(compiled)
        threads.map(load, tiled, tiled.values())


def solvers_of(tiled: Mapping[wp.Module, set[int]], arch: int) -> list[str]:
    """Return the solvers of linear systems that tiled kernels use, as arguments in JSON.

    Args:
        tiled: block sizes of every module.
        arch: compute capability of the GPU, such as 90.
    """
    solvers: dict[str, None] = {}

    def record(*arguments: Any, **settings: Any) -> tuple[str, bytes]:
        solvers[json.dumps([wp.config.kernel_cache_dir, arguments[:-1], settings])] = None
        return "", b""

    kept = build.build_lto_solver
    build.build_lto_solver = record
    try:
        for module, block_dims in tiled.items():
            for block_dim in block_dims:
                module.get_module_hash(block_dim)
                options = module.resolved_options[block_dim] | {"output_arch": arch}
                ModuleBuilder(module, options, target="cuda")
    finally:
        build.build_lto_solver = kept
    return list(solvers)


def compile_solver(arguments: str) -> None:
    """Compile a solver into Warp's cache.

    Warp compiles the solvers of a module when it writes its source, for three seconds each, one at
    a time in a process. So each has a process of its own.
    """
    with suppress(OSError, subprocess.TimeoutExpired):
        command = [sys.executable, "-P", "-c", _COMPILE_SOLVER, arguments]
        subprocess.run(command, capture_output=True, timeout=60, env=os.environ | _NO_GPU)


class Workspace:
    """A Warp allocator whose memory a captured graph reuses on every replay.

    MuJoCo Warp allocates about thirty scratch arrays per substep. Warp would record each as an
    allocation and a free in the graph. Here they are slices of torch memory. `rewind` hands out the
    same slices again, which is safe because the substeps of one stream run in order.
    """

    def __init__(self, device: torch.device, block_bytes: int = 1 << 24):
        self._device = device
        self._block_bytes = block_bytes
        self._blocks: list[torch.Tensor] = []
        self.rewind()

    def rewind(self) -> None:
        """Hand out the same memory again."""
        self._block, self._offset = 0, 0

    def allocate(self, size_in_bytes: int) -> int:
        """Return the address of that many bytes (Warp's allocator protocol)."""
        size = -(-size_in_bytes // _ALIGNMENT) * _ALIGNMENT
        while self._block < len(self._blocks):
            block = self._blocks[self._block]
            if self._offset + size <= block.numel():
                address = block.data_ptr() + self._offset
                self._offset += size
                return address
            self._block, self._offset = self._block + 1, 0
        size = max(size, self._block_bytes)
        self._blocks.append(torch.empty(size, dtype=torch.uint8, device=self._device))
        return self.allocate(size_in_bytes)

    def deallocate(self, ptr: int, size_in_bytes: int) -> None:
        """Do nothing: the memory lives as long as the workspace."""


class Captured:
    """Records work as a CUDA graph on the first call and replays it later; runs it on a CPU.

    Pass the same work to each call. It is not stored: a bound method would form a reference cycle,
    and the owner's device memory would stay until the garbage collector runs.
    """

    def __init__(self, device: torch.device, workspace: Workspace):
        self._device = device
        self._workspace = workspace
        self._graph = None
        self._streams: dict[int, wp.Stream] = {}

    def __call__(self, work: Callable[[], None]) -> None:
        """Do the work in the order of torch's current stream."""
        if self._device.type == "cpu":
            work()
        elif self._graph is None:
            self.compile(work)
            # Run once to allocate scratch memory; the capture only records.
            self._on_own_stream(work)
            self._on_own_stream(lambda: self._record(work))
        else:
            stream = torch.cuda.current_stream(self._device)
            if stream.cuda_stream not in self._streams:
                self._streams[stream.cuda_stream] = wp.stream_from_torch(stream)
            wp.capture_launch(self._graph, stream=self._streams[stream.cuda_stream])

    def compile(self, work: Callable[[], None]) -> None:
        """Compile the kernels of some work on all cores; do nothing on a CPU."""
        if self._device.type != "cpu":
            self._on_own_stream(lambda: compile_kernels(work, self._device))

    def _record(self, work: Callable[[], None]) -> None:
        with wp.ScopedCapture(stream=wp.get_stream()) as capture:
            work()
        self._graph = capture.graph

    def _on_own_stream(self, act: Callable[[], None]) -> None:
        # Warp cannot capture torch's default stream, so both libraries switch to a new one.
        current, own = torch.cuda.current_stream(self._device), torch.cuda.Stream(self._device)
        own.wait_stream(current)
        with torch.cuda.stream(own):
            warp_stream = wp.stream_from_torch(own)
            allocator = wp.ScopedAllocator(warp_stream.device, self._workspace)
            with wp.ScopedStream(warp_stream), allocator:
                act()
        current.wait_stream(own)
