# SPDX-License-Identifier: Apache-2.0
"""Makes items in a thread while earlier ones are used."""

from collections.abc import Iterator, Sequence
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

T = TypeVar("T")

_PATIENCE = 0.1  # seconds after which a full queue is tried again


def prefetched(items: Iterator[T], ahead: int = 2) -> Iterator[T]:
    """Yield the items of an iterator, which a thread asks for up to `ahead` of them in advance.

    An error of the iterator is raised here. If this generator is closed, the thread ends. Large
    tensors should be `handed_over`.
    """
    ready: Queue[tuple[str, Any]] = Queue(ahead)
    stopped = Event()

    def put(kind: str, value: Any) -> None:
        while not stopped.is_set():
            try:
                return ready.put((kind, value), timeout=_PATIENCE)
            except Full:
                continue
        return None

    def work() -> None:
        try:
            for item in items:
                put("item", item)
                if stopped.is_set():
                    break
            put("end", None)
        except BaseException as error:  # it is raised in the other thread
            put("error", error)
        finally:
            if hasattr(items, "close"):
                items.close()  # type: ignore[attr-defined]

    thread = Thread(target=work, name="pureward-prefetch", daemon=True)
    thread.start()
    try:
        while (got := ready.get())[0] == "item":
            yield got[1]
        if got[0] == "error":
            raise got[1]
    finally:
        stopped.set()
        while True:  # release what is left
            try:
                ready.get_nowait()
            except Empty:
                break
        thread.join()


def handed_over(parts: Sequence[Tensor]) -> Tensor:
    """Return tensors on the CPU joined in numpy's memory, for another thread.

    Torch's allocator on ARM does not use memory again that another thread frees, so a thread that
    only makes tensors would need memory for all of them.
    """
    return torch.from_numpy(np.concatenate([part.numpy() for part in parts]))
