# SPDX-License-Identifier: Apache-2.0
"""Child processes: how they start, and that they end with their parent."""

import multiprocessing
import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import wait

#: Fork would copy torch's threads and locks in an undefined state.
CONTEXT = multiprocessing.get_context("spawn")


def end_with_parent(folder: str = "") -> None:
    """Delete a folder and send this process SIGTERM when its parent exits, also if killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set variables for processes that start in the block; torch reads them at import."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
