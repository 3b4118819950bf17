# SPDX-License-Identifier: Apache-2.0
"""The executor "ray": a Ray task per job, on any machine of a cluster.

A task starts the job in a process, as the executor "local" does. If its machine dies, Ray starts
the task again on another one, where the run resumes from its newest checkpoint. The folder's lock
keeps two machines from using it: all must see it under the same path, on a file system with locks.
"""

import os
import socket
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pureward
from pureward.distributed.cluster import connect
from pureward.distributed.jobs import EXECUTORS, Job, Result
from pureward.distributed.processes import LocalProcesses
from pureward.errors import InputError, in_brief

_RETRIES = 20  # of a task whose machine died
_POLL_SECONDS = 0.2


@dataclass
class RayTasks:
    """Starts a Ray task per job."""

    ray: Any
    """The module, connected to a cluster."""
    at_once: int
    cpus: float = 1.0
    """CPUs that Ray reserves for a job."""
    gpus: float = 0.0
    """GPUs that Ray reserves for a job; a fraction shares one."""
    threads: int = 1
    """CPU threads of each job."""

    def start(self, job: Job) -> "_Task":
        """Hand a job to Ray, which starts it where there is room."""
        job.log.parent.mkdir(parents=True, exist_ok=True)
        _stop_file(job).unlink(missing_ok=True)
        task = self.ray.remote(
            num_cpus=self.cpus, num_gpus=self.gpus, max_retries=_RETRIES, retry_exceptions=False
        )(_run_here)
        reference = task.remote(job, os.getcwd(), pureward.__version__, self.threads)
        return _Task(self.ray, reference, _stop_file(job).absolute())


@EXECUTORS.register("ray")
def ray_executor(*, device: str, at_once: int = 0, address: str = "") -> RayTasks:
    """Return an executor that starts Ray tasks.

    Args:
        device: of the runs; "auto" uses GPUs if the cluster has any.
        at_once: runs per GPU, each with that fraction of it, or on all CPUs of the cluster; 0 for
            one per GPU, or one per CPU.
        address: of the cluster; see `connect`.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise InputError(f"Ray chooses the GPU of a run, got device {device!r}; use 'cuda'")
    ray = connect(address)
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    cpus, gpus = (sum(node.get(kind, 0.0) for node in nodes) for kind in ("CPU", "GPU"))
    if device == "cuda" and gpus < 1:
        raise InputError(
            "device 'cuda' needs a GPU, and the Ray cluster has 0; use --device cpu, or start a "
            "node with `ray start --num-gpus`"
        )
    if gpus >= 1 and device != "cpu":
        places = int(gpus) * (at_once or 1)
        threads = max(1, int(cpus) // places)
        return RayTasks(ray, places, cpus=0.0, gpus=1.0 / (at_once or 1), threads=threads)
    if cpus < 1:
        raise InputError(
            f"runs need CPUs, and the Ray cluster has {cpus:g}; start a node with "
            "`ray start --num-cpus`"
        )
    places = at_once or int(cpus)
    largest = max(node.get("CPU", 0.0) for node in nodes)
    share = min(cpus / places, largest)
    threads = max(1, int(share))
    return RayTasks(ray, places, cpus=threads if share >= 1 else share, threads=threads)


@dataclass
class _Task:
    """The Ray task of a job."""

    ray: Any
    task: Any
    """Reference to what `_run_here` returns."""
    stop_file: Path
    """The task ends its job when this file exists."""

    def running(self) -> bool:  # or it waits for room
        return not self.ray.wait([self.task], timeout=0)[0]

    def result(self) -> Result:
        return self._outcome[0]

    def last_line(self) -> str:
        return self._outcome[1]

    def stop(self) -> None:
        # `ray.cancel` ends a task that waits for room. It interrupts one that runs, but the
        # interrupt may be lost, so there is also a file.
        self.stop_file.touch()
        self.ray.cancel(self.task, force=False)

    def wait(self) -> None:
        self.ray.wait([self.task])

    @cached_property
    def _outcome(self) -> tuple[Result, str]:
        try:
            return self.ray.get(self.task)
        except self.ray.exceptions.TaskCancelledError:
            return "stopped", "stopped before it started"
        except self.ray.exceptions.RayError as error:
            return "failed", f"Ray could not run it ({in_brief(error)})"


def _run_here(job: Job, folder: str, version: str, threads: int) -> tuple[Result, str]:
    """Run a job in a process of this machine; return how it ended, and its last line."""
    host = socket.gethostname()
    if version != (own := pureward.__version__):
        return "failed", f"{host} has pureward {own}, not {version}; install the same version"
    place = Path(folder)
    if not (place / job.log.parent).is_dir():
        return "failed", (
            f"{host} does not see {place / job.log.parent}; mount the same folder on all machines"
        )
    os.chdir(place)
    started = LocalProcesses(places=(None,), threads=threads).start(job)
    stop_file, stopping = _stop_file(job), False
    while True:
        try:
            if not started.running():
                break
            if not stopping and stop_file.exists():
                stopping = True
                started.stop()
            time.sleep(_POLL_SECONDS)
        except KeyboardInterrupt:  # by `ray.cancel`
            stopping = True
            started.stop()
    stop_file.unlink(missing_ok=True)
    return started.result(), started.last_line()


def _stop_file(job: Job) -> Path:
    return job.log.with_suffix(".stop")
