# SPDX-License-Identifier: Apache-2.0
"""Makes items in a thread while earlier ones are used."""

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

T = TypeVar("T")


def prefetched(items: Iterator[T], ahead: int = 2) -> Iterator[T]:
    """Yield the items of an iterator, which a thread asks for up to `ahead` of them in advance.

    An error of the iterator is raised here. If this generator is closed, the thread ends. Large
    tensors should be `handed_over`.
    """
    thread = ThreadPoolExecutor(1, "pureward-prefetch")
    made = deque(thread.submit(next, items) for _ in range(ahead))
    try:
        while True:
            try:
                item = made.popleft().result()
            except StopIteration:
                return
            made.append(thread.submit(next, items))
            yield item
    finally:
        thread.shutdown(cancel_futures=True)
        if isinstance(items, Generator):
            items.close()


def handed_over(parts: Sequence[Tensor]) -> Tensor:
    """Return tensors on the CPU joined in numpy's memory, for another thread.

    Torch's allocator on ARM does not use memory again that another thread frees, so a thread that
    only makes tensors would need memory for all of them.
    """
    return torch.from_numpy(np.concatenate([part.numpy() for part in parts]))
