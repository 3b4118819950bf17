# SPDX-License-Identifier: Apache-2.0
"""A call captured once as a CUDA graph and replayed on new inputs.

A captured update costs one launch from the host instead of a hundred. Capture needs warm-up calls,
which would train; their effects are undone.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from pureward.errors import InputError

WARM_UP_CALLS = 3


class CapturedCall:
    """A function of tensors to one tensor, replayed as a CUDA graph."""

    def __init__(
        self,
        call: Callable[..., Tensor],
        examples: Iterable[Tensor],
        *,
        kept: Iterable[Tensor] = (),
        generators: Iterable[torch.Generator] = (),
    ) -> None:
        """Capture `call`.

        Args:
            call: runs on the device without a host sync.
            examples: inputs of the shapes and types of every later call.
            kept: tensors that the call may change; they are restored after the warm-up calls.
            generators: random generators of the call, restored likewise.
        """
        self.inputs = [example.clone() for example in examples]
        generators = list(generators)
        with _restored(kept, generators):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(WARM_UP_CALLS):
                    call(*self.inputs)
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            for generator in generators:
                self.graph.register_generator_state(generator)
            # Graphs of one stream share cuBLAS's scratch memory: they may not run side by side.
            with torch.cuda.graph(self.graph, stream=side):
                self.output = call(*self.inputs)

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Replay on new inputs; the result is a copy that later calls do not change."""
        for held, given in zip(self.inputs, inputs, strict=True):
            if held.shape != given.shape or held.dtype != given.dtype:
                raise InputError(
                    f"a captured call takes {held.dtype} {tuple(held.shape)}, got {given.dtype} "
                    f"{tuple(given.shape)}; keep batch sizes fixed or capture another"
                )
            held.copy_(given, non_blocking=True)
        self.graph.replay()
        return self.output.clone()


@contextmanager
def _restored(tensors: Iterable[Tensor], generators: list[torch.Generator]) -> Iterator[None]:
    """Restore tensors and generators in place after the block."""
    tensors = list(tensors)
    # D's memory is gigabytes: copied to the host if the device has no room for it.
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    has_room = 4 * size < torch.cuda.mem_get_info()[0]
    saved = [
        (tensor, tensor.detach().to(tensor.device if has_room else "cpu", copy=True))
        for tensor in tensors
    ]
    states = [(generator, generator.get_state()) for generator in generators]
    try:
        yield
    finally:
        with torch.no_grad():
            for number in range(len(saved)):  # a loop variable would keep the last copy alive
                saved[number][0].copy_(saved[number][1])
        saved.clear()
        torch.cuda.empty_cache()  # other processes may need the memory
        for generator, state in states:
            generator.set_state(state)


class Beside:
    """Work on a CUDA stream of its own, beside that of the caller.

        with beside:
            step = env.step(action)
        learn()
        beside.wait()

    Tensors made in the block may be used after `wait`.
    """

    def __init__(self, device: torch.device) -> None:
        """Make the stream; its kernels go before the caller's."""
        self._stream = torch.cuda.Stream(device, priority=-1)
        self._context = torch.cuda.stream(self._stream)

    def __enter__(self) -> None:
        self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
        self._context.__enter__()

    def __exit__(self, *error: object) -> None:
        self._context.__exit__(*error)

    def wait(self) -> None:
        """Let the caller's stream wait for the work."""
        torch.cuda.current_stream(self._stream.device).wait_stream(self._stream)
