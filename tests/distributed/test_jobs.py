"""`run_jobs`: order, finished, failed, waiting and busy jobs; jobs in processes."""

import os
import time
from dataclasses import dataclass

import pytest

from at_once import AtOnce, Ended
from job import Task
from pureward.distributed.jobs import Printer, Watcher, run_jobs
from pureward.distributed.processes import LocalProcesses
from pureward.errors import TrainingError
from pureward.runs.directory import RunDirectory


@pytest.fixture(autouse=True)
def _poll_often(monkeypatch):
    monkeypatch.setattr("pureward.distributed.jobs._POLL_SECONDS", 0.02)


def states(outcomes) -> dict[str, str]:
    return {outcome.job.out.name: outcome.state for outcome in outcomes}


def test_jobs_start_after_those_they_need_and_only_once(tmp_path):
    last = Task(tmp_path / "last", after=(tmp_path / "first", tmp_path / "second"))
    jobs = [last, Task(tmp_path / "first"), Task(tmp_path / "second", after=(tmp_path / "first",))]
    executor = AtOnce()
    outcomes = run_jobs(jobs, executor, Watcher())
    assert executor.started == ["first", "second", "last"]
    assert states(outcomes) == {"last": "finished", "first": "finished", "second": "finished"}
    again = AtOnce()
    assert set(states(run_jobs(jobs, again, Watcher())).values()) == {"found"}
    assert again.started == []


def test_a_failure_blocks_only_jobs_that_need_it(tmp_path):
    jobs = [
        Task(tmp_path / "bad", does="fail"),
        Task(tmp_path / "needs", after=(tmp_path / "bad",)),
        Task(tmp_path / "needs-too", after=(tmp_path / "needs",)),
        Task(tmp_path / "late", does="stop"),
        Task(tmp_path / "good"),
    ]
    outcomes = run_jobs(jobs, AtOnce(), Watcher())
    assert states(outcomes) == {
        **{"bad": "failed", "needs": "blocked", "needs-too": "blocked"},
        **{"late": "stopped", "good": "finished"},
    }
    assert [outcomes[0].message, outcomes[1].message] == [
        "the value must be 1, got 2; use 1",
        "waits for bad",
    ]


def test_a_missing_requirement_blocks_unless_the_job_is_finished(tmp_path):
    jobs = [
        Task(tmp_path / name, after=(tmp_path / "missing",)) for name in ("finished", "unfinished")
    ]
    jobs[0].run()
    outcomes = run_jobs(jobs, AtOnce(), Watcher())
    assert states(outcomes) == {"finished": "found", "unfinished": "blocked"}
    assert outcomes[1].message == "waits for missing"


def test_a_watcher_may_refuse_to_start_a_job(tmp_path):
    class Refusing(Watcher):
        def on_start(self, job):
            return None

    executor = AtOnce()
    (outcome,) = run_jobs([Task(tmp_path / "one")], executor, Refusing())
    assert outcome.state == "stopped"
    assert executor.started == []


def test_processes_report_their_result_and_see_their_gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    jobs = [Task(tmp_path / does, does=does) for does in ("good", "fail", "stop", "die")]
    outcomes = run_jobs(jobs, LocalProcesses(places=("4", "5", "4", "5")), Watcher())
    assert states(outcomes) == {
        **{"good": "finished", "fail": "failed", "stop": "stopped", "die": "failed"}
    }
    assert outcomes[1].message == "the value must be 1, got 2; use 1"
    assert outcomes[3].message.startswith("killed by SIGKILL")
    assert [(tmp_path / name / "log.txt").read_text() for name in ("good", "stop")] == [
        "GPU 4\n",
        "GPU 4\n",
    ]
    assert "GPU 5" in (tmp_path / "fail" / "log.txt").read_text()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "4,5"


def test_running_jobs_stop_if_the_watcher_raises(tmp_path):
    class Impatient(Watcher):
        def on_poll(self, job) -> None:
            raise TrainingError("enough")

    began = time.monotonic()
    with pytest.raises(TrainingError, match="enough"):
        run_jobs(
            [Task(tmp_path / "long", does="sleep")], LocalProcesses(places=(None,)), Impatient()
        )
    assert time.monotonic() - began < 300, "the job sleeps for 600 seconds"
    assert not (tmp_path / "long" / "done").exists()


class Small:
    """An executor with memory for `room` jobs, each of which runs for two polls."""

    at_once = 5

    def __init__(self, room: int) -> None:
        self.room, self.most, self.started = room, 0, 0
        self.handles: list[Held] = []

    def start(self, job):
        self.handles = [handle for handle in self.handles if handle.polls > 0]
        fits = len(self.handles) < self.room
        handle = Held(job, fits)
        self.handles += [handle] if fits else []
        self.most, self.started = max(self.most, len(self.handles)), self.started + 1
        return handle


class Held(Ended):
    def __init__(self, job, fits: bool) -> None:
        self.job, self.fits, self.polls = job, fits, 2 if fits else 0

    def running(self) -> bool:
        self.polls -= 1
        return self.polls >= 0

    def result(self):
        return "finished" if self.fits and self.job.run() else "out of memory"

    def last_line(self) -> str:
        return "no memory"


def test_a_job_out_of_memory_waits_and_fewer_run_in_parallel(tmp_path):
    class Counting(Watcher):
        postponed = 0

        def on_out_of_memory(self, job, at_once) -> None:
            self.postponed += 1

    jobs = [Task(tmp_path / str(number)) for number in range(9)]
    executor, watcher = Small(room=3), Counting()
    outcomes = run_jobs(jobs, executor, watcher)
    assert set(states(outcomes).values()) == {"finished"}
    assert executor.most == 3
    assert watcher.postponed == 2  # of the first five; then three at once are enough
    assert executor.started == len(jobs) + watcher.postponed


def test_a_job_out_of_memory_on_its_own_fails(tmp_path):
    (outcome,) = run_jobs([Task(tmp_path / "large")], Small(room=0), Watcher())
    assert (outcome.state, outcome.message) == ("failed", "no memory")


@pytest.mark.parametrize("does", ["allocate", "claim"])
def test_a_process_reports_out_of_memory(tmp_path, does):
    job = Task(tmp_path / "large", does=does)
    (outcome,) = run_jobs([job], LocalProcesses(places=(None,)), Watcher())
    assert outcome.state == "failed"
    assert outcome.message.startswith("out of memory: ")
    if does == "claim":
        assert "capacity=9 fits" in outcome.message
    assert "Traceback" not in (tmp_path / "large" / "log.txt").read_text()


class Neighbour(Printer):
    """Another process that holds the folder of a job for some polls; it may finish the job."""

    def __init__(self, jobs: list[Task], job: Task, polls: int, done: bool) -> None:
        super().__init__(job.out.parent, jobs)
        self.job, self.polls, self.done = job, polls, done
        self.held = RunDirectory(job.out)
        self.held.__enter__()

    def on_busy(self, job) -> bool:
        assert job == self.job
        self.polls -= 1
        if self.polls == 0:
            if self.done:
                (job.out / "done").touch()
            self.held.__exit__()
        return super().on_busy(job)


@pytest.mark.parametrize(("done", "state"), [(True, "found"), (False, "finished")])
def test_a_busy_job_waits_for_the_other_process(tmp_path, done, state, capsys):
    jobs = [Task(tmp_path / name) for name in ("taken", "free", "old")]
    jobs[2].run()
    executor = AtOnce()
    watcher = Neighbour(jobs, jobs[0], polls=3, done=done)
    outcomes = {one.job.out.name: one.state for one in run_jobs(jobs, executor, watcher)}
    assert outcomes.pop("old") == "found"
    assert outcomes == {"taken": state, "free": "finished"}
    assert executor.started == ["free"] + ["taken"] * (not done)
    said = capsys.readouterr().out
    assert said.count("  taken in use by another process; waiting for it\n") == 1
    assert "[1/2] free finished after " in said
    assert f"[2/2] taken {state}" in said
    assert "old" not in said


def test_a_busy_job_stops_when_the_time_is_over(tmp_path):
    class Hurried(Watcher):
        def on_busy(self, job) -> bool:
            return False

    job = Task(tmp_path / "taken")
    with RunDirectory(job.out):
        (outcome,) = run_jobs([job], AtOnce(), Hurried())
    assert outcome.state == "stopped"
    assert outcome.message.startswith("another process was using it")


def test_a_process_that_finds_its_folder_locked_waits(tmp_path):
    """Another command locks the folder between the check and the start."""

    @dataclass
    class Blind(Watcher):
        held: RunDirectory
        waited: int = 0

        def on_start(self, job):
            if not self.waited:
                self.held.__enter__()  # after the check, before the process locks it
            return job

        def on_busy(self, job) -> bool:
            self.waited += 1
            self.held.__exit__()
            return True

    job = Task(tmp_path / "taken", does="hold")
    watcher = Blind(RunDirectory(job.out))
    (outcome,) = run_jobs([job], LocalProcesses(places=(None,)), watcher)
    assert (outcome.state, watcher.waited) == ("finished", 1)
