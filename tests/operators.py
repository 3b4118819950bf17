"""Which operators of torch some work uses, to find those that a CUDA graph cannot capture."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# A tensor made from numbers, a tensor read as a number, and sizes that depend on values.
_WAITING = {"lift_fresh", "_local_scalar_dense", "nonzero", "masked_select"}


class Operators(TorchDispatchMode):
    """Records the names of operators, and of those that wait for the device or copy to it."""

    def __init__(self):
        super().__init__()
        self.names, self.waiting = set(), set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        self.names.add(name)
        if name in _WAITING or (name.startswith("index") and _by_mask(args)):
            self.waiting.add(name)
        return func(*args, **(kwargs or {}))


def _by_mask(args) -> bool:
    """Whether a tensor is indexed by a mask, so that the size depends on its values."""
    indices = args[1] if len(args) > 1 and isinstance(args[1], (list, tuple)) else ()
    return any(index is not None and index.dtype == torch.bool for index in indices)
