# SPDX-License-Identifier: Apache-2.0
"""Where actors run: in processes of this machine, or on a Ray cluster.

Another place is a class with the methods of `Host`, registered with `@HOSTS.register("mine")`.
"""

import itertools
import os
import queue
import shutil
import signal
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Protocol

from pureward.distributed.actors.worker import Actor, Spec, error_reply
from pureward.distributed.children import CONTEXT, end_with_parent, environment
from pureward.distributed.cluster import connect
from pureward.errors import InputError, in_brief
from pureward.files import locked_folder, take_lock, whole_file
from pureward.registry import Registry

_POLICY = "policy.safetensors"
_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
_PREFIX = "pureward-actors-"
_JOIN_SECONDS = 5.0


class Host(Protocol):
    """Starts actors, each an `Actor` that answers requests by `advance`.

    Each key names one actor and is not reused. An actor answers each `ask` with one reply, in
    order.
    """

    def publish(self, weights: bytes) -> None:
        """Give the actors the newest weights, which `advance` takes."""
        ...

    def start(self, spec: Spec) -> int:
        """Start an actor; return its key."""
        ...

    def ask(self, key: int, at_random: bool) -> None:
        """Ask an actor for steps; must not block."""
        ...

    def replies(self, seconds: float) -> list[tuple[int, bytes | None]]:
        """Return replies by key, after waiting at most so long for the first; None if it died."""
        ...

    def kill(self, key: int) -> None:
        """Kill an actor; no reply of it is returned any more."""
        ...

    def close(self) -> None:
        """Kill all actors."""
        ...


class Processes:
    """A process per actor on this machine.

    A thread per actor receives its replies, so that one that stops in the middle of a message
    blocks no other. Weights are a file in memory, where that exists: a message to an actor that
    does not read must not block the learner.
    """

    def __init__(self, address: str = "", actors: int = 0) -> None:
        if address:
            raise InputError(
                f"actors of the executor 'local' take no address, got {address!r}; leave it out, "
                "or use --executor ray"
            )
        _clear_leftovers()
        self._kept = ExitStack()
        self._folder = self._kept.enter_context(
            tempfile.TemporaryDirectory(prefix=_PREFIX, dir=_MEMORY)
        )
        self._kept.enter_context(locked_folder(Path(self._folder)))
        self._received: queue.SimpleQueue[tuple[int, bytes | None]] = queue.SimpleQueue()
        self._actors: dict[int, tuple[SpawnProcess, Connection]] = {}
        self._keys = itertools.count()

    def publish(self, weights: bytes) -> None:
        """Replace the file of the weights."""
        with whole_file(Path(self._folder) / _POLICY) as partial:
            partial.write_bytes(weights)

    def start(self, spec: Spec) -> int:
        """Start a process."""
        key = next(self._keys)
        own, other = CONTEXT.Pipe()
        process = CONTEXT.Process(target=_serve, args=(spec, other, self._folder))
        with environment({"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}):
            process.start()
        other.close()
        self._actors[key] = process, own
        threading.Thread(target=self._receive, args=(key, own), daemon=True).start()
        return key

    def ask(self, key: int, at_random: bool) -> None:
        """Send one byte; a dead actor is reported by `replies`."""
        with suppress(OSError):
            self._actors[key][1].send_bytes(b"\1" if at_random else b"\0")

    def replies(self, seconds: float) -> list[tuple[int, bytes | None]]:
        """Return replies by key, after waiting at most so long for the first; None if it died."""
        found = []
        with suppress(queue.Empty):
            found.append(self._received.get(timeout=seconds))
            while True:
                found.append(self._received.get_nowait())
        return [(key, reply) for key, reply in found if key in self._actors]

    def kill(self, key: int) -> None:
        """Kill the process, also one that was stopped."""
        process, _ = self._actors.pop(key)
        process.kill()
        process.join(_JOIN_SECONDS)

    def close(self) -> None:
        """Kill all processes."""
        for key in list(self._actors):
            self.kill(key)
        self._kept.close()

    def _receive(self, key: int, pipe: Connection) -> None:
        # It is closed with its last reference: `ask` may be about to use it.
        with suppress(OSError), open(pipe.fileno(), "rb", closefd=False) as replies:
            while size := int.from_bytes(replies.read(8)):
                reply = replies.read(size)
                if len(reply) < size:
                    break
                self._received.put((key, reply))
        self._received.put((key, None))


def _clear_leftovers() -> None:
    """Delete the folders of learners that were killed, which are no longer locked."""
    for folder in Path(_MEMORY).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another user's, or just deleted
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                new = time.time() - os.fstat(descriptor).st_mtime < 60  # perhaps not locked yet
                if not new and take_lock(descriptor):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)


def _serve(spec: Spec, pipe: Connection, folder: str) -> None:
    """Answer the learner until it closes the pipe or ends.

    A reply travels as its size in eight bytes, then its bytes, through a file object: `Connection`
    would copy it several times.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the learner, which ends its actors
    watcher = threading.Thread(target=end_with_parent, args=(folder,), daemon=True)
    watcher.start()
    actor, seen, weights = Actor(spec), None, b""
    path = Path(folder, _POLICY)
    with suppress(OSError, EOFError), open(pipe.fileno(), "wb", closefd=False) as replies:
        while True:
            at_random = pipe.recv_bytes() == b"\1"
            now = path.stat()
            if (now.st_ino, now.st_mtime_ns) != seen:  # a disk uses the numbers of files again
                seen, weights = (now.st_ino, now.st_mtime_ns), path.read_bytes()
            reply = actor.advance(weights, at_random)
            replies.write(len(reply).to_bytes(8))
            replies.write(reply)
            replies.flush()
    watcher.join(1.0)  # the pipe of a killed learner may close first


class RayActors:
    """A Ray actor each, which reserves a CPU of any machine of the cluster."""

    def __init__(self, address: str = "", actors: int = 0) -> None:
        self._ray = connect(address)
        cpus = self._ray.cluster_resources().get("CPU", 0)
        if actors > cpus:
            raise InputError(
                f"{actors} actors need a CPU each, and the Ray cluster has {cpus:g}; use --actors "
                f"{int(cpus)}, or add machines"
            )
        self._class = self._ray.remote(num_cpus=1, max_restarts=0)(Actor)
        self._actors: dict[int, Any] = {}
        self._asked: dict[int, deque[Any]] = {}
        self._weights: Any = None
        self._keys = itertools.count()

    def publish(self, weights: bytes) -> None:
        """Put the weights in Ray's object store, once for all actors."""
        self._weights = self._ray.put(weights)

    def start(self, spec: Spec) -> int:
        """Make an actor; Ray starts it where there is room."""
        key = next(self._keys)
        self._actors[key], self._asked[key] = self._class.remote(spec), deque()
        return key

    def ask(self, key: int, at_random: bool) -> None:
        """Call `Actor.advance`."""
        call = self._actors[key].advance
        self._asked[key].append(call.remote(self._weights, at_random))

    def replies(self, seconds: float) -> list[tuple[int, bytes | None]]:
        """Return what is ready, the oldest call of each actor."""
        calls = {asked[0]: key for key, asked in self._asked.items() if asked}
        if not calls:
            return []
        ready, _ = self._ray.wait(list(calls), num_returns=len(calls), timeout=0)
        if not ready and seconds:
            ready, _ = self._ray.wait(list(calls), num_returns=1, timeout=seconds)
        found: list[tuple[int, bytes | None]] = []
        for call in ready:
            self._asked[calls[call]].popleft()
            try:
                found.append((calls[call], self._ray.get(call)))
            except self._ray.exceptions.RayError as error:  # it, its machine or its reply is lost
                found.append((calls[call], error_reply(in_brief(error))))
        return found

    def kill(self, key: int) -> None:
        """Kill the actor."""
        del self._asked[key]
        self._ray.kill(self._actors.pop(key))

    def close(self) -> None:
        """Kill all actors; the connection stays."""
        for key in list(self._actors):
            self.kill(key)


#: Executor → function that makes a host from an address and the number of actors.
HOSTS: Registry[Callable[[str, int], Host]] = Registry("executor of actors")
HOSTS |= {"local": Processes, "ray": RayActors}
