# SPDX-License-Identifier: Apache-2.0
"""A call captured once as a CUDA graph and replayed on new inputs.

A captured update costs one launch from the host instead of a hundred. Capture needs
warm-up calls, which would count as training; they are undone.
"""

from collections.abc import Callable, Iterable

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
            call: runs on the device without reading anything back.
            examples: inputs of the shapes and types that every later call will have.
            kept: tensors that the warm-up calls may change and that are put back after.
            generators: random generators the call draws from, put back likewise.
        """
        self.inputs = [example.clone() for example in examples]
        generators = list(generators)
        with _put_back(kept, generators):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(WARM_UP_CALLS):
                    call(*self.inputs)
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            for generator in generators:
                self.graph.register_generator_state(generator)
            with torch.cuda.graph(self.graph):
                self.output = call(*self.inputs)

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Replay on new inputs; the result is a copy that later calls leave alone."""
        for held, given in zip(self.inputs, inputs, strict=True):
            if held.shape != given.shape or held.dtype != given.dtype:
                raise InputError(
                    f"a captured call takes {held.dtype} {tuple(held.shape)}, got {given.dtype} "
                    f"{tuple(given.shape)}; keep batch sizes fixed or capture another"
                )
            held.copy_(given, non_blocking=True)
        self.graph.replay()
        return self.output.clone()


class _put_back:  # noqa: N801 - reads as a verb where it is used
    """Restore tensors and generators in place on leaving."""

    def __init__(self, tensors: Iterable[Tensor], generators: list[torch.Generator]) -> None:
        # On the host: D's memory is gigabytes, and torch would keep the room for good.
        self.saved = [(tensor, tensor.detach().to("cpu", copy=True)) for tensor in tensors]
        self.states = [(generator, generator.get_state()) for generator in generators]

    def __enter__(self) -> None:
        """Nothing: the copies were made on construction."""

    def __exit__(self, *_: object) -> None:
        with torch.no_grad():
            for tensor, before in self.saved:
                tensor.copy_(before)
        for generator, state in self.states:
            generator.set_state(state)
