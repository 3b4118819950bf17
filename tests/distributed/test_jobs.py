"""Jobs: order, what is found, what fails, what waits; and processes of their own."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from at_once import AtOnce, Ended
from pureward.distributed.jobs import work_off
from pureward.distributed.processes import LocalProcesses
from pureward.errors import InputError, RoomError, TrainingError
from pureward.runs.directory import RunDirectory


@dataclass(frozen=True)
class Task:
    """Leaves a file in its folder, or does what it is told instead."""

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
            raise InputError("it must not be so; make it otherwise")
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
            torch.empty(2**60, dtype=torch.uint8)
        if self.does == "claim":
            raise RoomError("a replay needs 7 GB and cuda:0 has 1 GB to spare; capacity=9 fits")
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / "done").touch()
        return True


class Silent:
    def begin(self, job):
        return job

    def look(self, job) -> None: ...

    def put_off(self, job, room) -> None: ...

    def wait_for(self, job) -> bool:
        return True

    def end(self, ending) -> None: ...


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr("pureward.distributed.jobs._LOOK_EVERY", 0.02)


def states(endings) -> dict[str, str]:
    return {ending.job.out.name: ending.state for ending in endings}


def test_jobs_begin_after_those_they_need_and_once(tmp_path):
    last = Task(tmp_path / "last", after=(tmp_path / "first", tmp_path / "second"))
    jobs = [last, Task(tmp_path / "first"), Task(tmp_path / "second", after=(tmp_path / "first",))]
    executor = AtOnce()
    endings = work_off(jobs, executor, Silent())
    assert executor.started == ["first", "second", "last"]
    assert states(endings) == {"last": "finished", "first": "finished", "second": "finished"}
    again = AtOnce()
    assert set(states(work_off(jobs, again, Silent())).values()) == {"found"}
    assert again.started == []


def test_a_failure_holds_up_only_those_that_need_it(tmp_path):
    jobs = [
        Task(tmp_path / "bad", does="fail"),
        Task(tmp_path / "needs", after=(tmp_path / "bad",)),
        Task(tmp_path / "needs-too", after=(tmp_path / "needs",)),
        Task(tmp_path / "late", does="stop"),
        Task(tmp_path / "good"),
    ]
    endings = work_off(jobs, AtOnce(), Silent())
    assert states(endings) == {
        **{"bad": "failed", "needs": "blocked", "needs-too": "blocked"},
        **{"late": "stopped", "good": "finished"},
    }
    assert [endings[0].said, endings[1].said] == [
        "it must not be so; make it otherwise",
        "waits for bad",
    ]


def test_what_nobody_makes_blocks_unless_the_work_is_there(tmp_path):
    jobs = [Task(tmp_path / name, after=(tmp_path / "nobody",)) for name in ("there", "not-there")]
    jobs[0].run()
    endings = work_off(jobs, AtOnce(), Silent())
    assert states(endings) == {"there": "found", "not-there": "blocked"}
    assert endings[1].said == "waits for nobody"


def test_a_watcher_may_refuse_to_begin(tmp_path):
    class Refusing(Silent):
        def begin(self, job):
            return None

    executor = AtOnce()
    (ending,) = work_off([Task(tmp_path / "one")], executor, Refusing())
    assert ending.state == "stopped"
    assert executor.started == []


def test_processes_tell_how_they_ended_and_see_their_gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    jobs = [Task(tmp_path / does, does=does) for does in ("good", "fail", "stop", "die")]
    endings = work_off(jobs, LocalProcesses(places=("4", "5", "4", "5")), Silent())
    assert states(endings) == {
        **{"good": "finished", "fail": "failed", "stop": "stopped", "die": "failed"}
    }
    assert endings[1].said == "it must not be so; make it otherwise"
    assert endings[3].said.startswith("killed by SIGKILL")
    assert [(tmp_path / name / "log.txt").read_text() for name in ("good", "stop")] == [
        "GPU 4\n",
        "GPU 4\n",
    ]
    assert "GPU 5" in (tmp_path / "fail" / "log.txt").read_text()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "4,5"


def test_whatever_is_at_work_stops_if_the_watcher_raises(tmp_path):
    class Impatient(Silent):
        def look(self, job) -> None:
            raise TrainingError("enough")

    began = time.monotonic()
    with pytest.raises(TrainingError, match="enough"):
        work_off(
            [Task(tmp_path / "long", does="sleep")], LocalProcesses(places=(None,)), Impatient()
        )
    assert time.monotonic() - began < 300, "it sleeps for 600 seconds unless it is stopped"
    assert not (tmp_path / "long" / "done").exists()


class Small:
    """A device that has room for some jobs, each of which takes two looks."""

    at_once = 5

    def __init__(self, room: int) -> None:
        self.room, self.most, self.started = room, 0, 0
        self.handles: list[Held] = []

    def start(self, job):
        self.handles = [handle for handle in self.handles if handle.looks > 0]
        fits = len(self.handles) < self.room
        handle = Held(job, fits)
        self.handles += [handle] if fits else []
        self.most, self.started = max(self.most, len(self.handles)), self.started + 1
        return handle


class Held(Ended):
    def __init__(self, job, fits: bool) -> None:
        self.job, self.fits, self.looks = job, fits, 2 if fits else 0

    def running(self) -> bool:
        self.looks -= 1
        return self.looks >= 0

    def ended(self):
        return "finished" if self.fits and self.job.run() else "crowded"

    def last_words(self) -> str:
        return "no memory"


def test_a_job_without_room_waits_for_another_and_fewer_are_at_work_then(tmp_path):
    class Counting(Silent):
        put = 0

        def put_off(self, job, room) -> None:
            self.put += 1

    jobs = [Task(tmp_path / str(number)) for number in range(9)]
    executor, watcher = Small(room=3), Counting()
    endings = work_off(jobs, executor, watcher)
    assert set(states(endings).values()) == {"finished"}
    assert executor.most == 3
    assert watcher.put == 2  # of the first five; then three at once are enough
    assert executor.started == len(jobs) + watcher.put


def test_a_job_that_has_no_room_even_alone_has_failed(tmp_path):
    (ending,) = work_off([Task(tmp_path / "large")], Small(room=0), Silent())
    assert (ending.state, ending.said) == ("failed", "no memory")


@pytest.mark.parametrize("does", ["allocate", "claim"])
def test_a_process_without_memory_says_so(tmp_path, does):
    job = Task(tmp_path / "large", does=does)
    (ending,) = work_off([job], LocalProcesses(places=(None,)), Silent())
    assert ending.state == "failed"
    assert ending.said.startswith("there is no memory left for it: ")
    if does == "claim":
        assert "capacity=9 fits" in ending.said
    assert "Traceback" not in (tmp_path / "large" / "log.txt").read_text()


class Neighbour(Silent):
    """Another process that holds a job's folder for some looks, and then leaves it done or not."""

    def __init__(self, job: Task, looks: int, done: bool) -> None:
        self.job, self.looks, self.done = job, looks, done
        self.held = RunDirectory(job.out)
        self.held.__enter__()

    def wait_for(self, job) -> bool:
        assert job == self.job
        self.looks -= 1
        if self.looks == 0:
            if self.done:
                (job.out / "done").touch()
            self.held.__exit__()
        return True


@pytest.mark.parametrize(("done", "state"), [(True, "found"), (False, "finished")])
def test_a_job_that_another_process_is_at_is_left_to_it(tmp_path, done, state):
    jobs = [Task(tmp_path / name) for name in ("taken", "free")]
    executor = AtOnce()
    endings = work_off(jobs, executor, Neighbour(jobs[0], looks=3, done=done))
    assert states(endings) == {"taken": state, "free": "finished"}
    assert executor.started == ["free"] + ["taken"] * (not done)


def test_nobody_waits_for_another_process_when_the_time_is_over(tmp_path):
    class Hurried(Silent):
        def wait_for(self, job) -> bool:
            return False

    job = Task(tmp_path / "taken")
    with RunDirectory(job.out):
        (ending,) = work_off([job], AtOnce(), Hurried())
    assert ending.state == "stopped"
    assert ending.said.startswith("another process was at it")


def test_a_process_that_is_second_waits_for_the_first(tmp_path):
    """As two commands do that were started at once: neither saw the other before it began."""

    @dataclass
    class Blind(Silent):
        held: RunDirectory
        waited: int = 0

        def begin(self, job):
            if not self.waited:
                self.held.__enter__()  # after the look, before the process has its folder
            return job

        def wait_for(self, job) -> bool:
            self.waited += 1
            self.held.__exit__()
            return True

    job = Task(tmp_path / "taken", does="hold")
    watcher = Blind(RunDirectory(job.out))
    (ending,) = work_off([job], LocalProcesses(places=(None,)), watcher)
    assert (ending.state, watcher.waited) == ("finished", 1)
