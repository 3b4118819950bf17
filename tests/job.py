"""A job for tests. It imports no torch: a process that runs it starts in half a second."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from pureward.errors import InputError, RoomError
from pureward.runs.directory import RunDirectory


@dataclass(frozen=True)
class Task:
    """Writes a file to its folder, or does what `does` says."""

    out: Path
    after: tuple[Path, ...] = ()
    does: str = ""

    @property
    def log(self) -> Path:
        return self.out / "log.txt"

    def finished(self) -> bool:
        return (self.out / "done").exists()

    def busy(self) -> bool:
        return RunDirectory(self.out).in_use()

    def run(self) -> bool:
        print(f"GPU {os.environ.get('CUDA_VISIBLE_DEVICES')}")
        if self.does == "fail":
            raise InputError("the value must be 1, got 2; use 1")
        if self.does == "stop":
            return False
        if self.does == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.does == "hold":
            with RunDirectory(self.out):
                pass
        if self.does == "sleep":
            time.sleep(600)
        if self.does == "allocate":
            import torch

            torch.empty(2**60, dtype=torch.uint8)
        if self.does == "claim":
            raise RoomError("a replay needs 7 GB and cuda:0 has 1 GB to spare; capacity=9 fits")
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / "done").touch()
        return True
