"""Actors: whole episodes only, deaths, hangs, pace, staleness, resuming; then in processes."""

import json
import os
import signal
import time
import tracemalloc
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

import pureward
from pureward.cli import main
from pureward.data.replay.replay import ReplayConfig
from pureward.distributed.actors import Actors, hosts, pool
from pureward.distributed.actors.hosts import HOSTS, Processes
from pureward.distributed.children import CONTEXT
from pureward.envs import ENVIRONMENTS
from pureward.errors import InputError, SimulationError
from pureward.runs.directory import RunDirectory
from pureward.runs.log import read_metrics
from ticks import Inline, Ticks
from tiny import SMALL, tiny


@pytest.fixture(autouse=True)
def _ticks(monkeypatch):
    monkeypatch.setitem(HOSTS, "inline", Inline)
    monkeypatch.setitem(ENVIRONMENTS, "ticks", Ticks)
    monkeypatch.setattr("pureward.distributed.actors.worker.REPLY_STEPS", 5)


def config(**changes) -> pureward.RunConfig:
    settings = {"worlds": 4, "actors": 2, "executor": "inline", "device": "cpu", "agent": SMALL}
    return pureward.RunConfig(task="ticks", **(settings | changes))


def weights_of(config) -> dict[str, torch.Tensor]:
    from pureward.agents import AGENTS

    return AGENTS["d4pg"].policy(config.agent, 3, 2).state_dict()


class Played:
    """Takes rows from actors, and checks that every world gets one whole episode after another."""

    def __init__(self, actors: Actors, config) -> None:
        self.actors, self.weights = actors, weights_of(config)
        self.now: list[list[tuple]] = [[] for _ in range(actors.worlds)]
        self.episodes: Counter = Counter()

    def take(self, rows: int, updates: int = 0) -> None:
        for _ in range(rows):
            taken = self.actors.take(updates, lambda: self.weights, at_random=False)
            assert taken is not None
            obs, action, step = taken
            assert action.shape == (self.actors.worlds, 2)
            ended = step.terminated | step.truncated
            for world, so_far in enumerate(self.now):
                seed, episode, at = obs.state[world].tolist()
                assert at == len(so_far), "steps come in order, from the first"
                assert all(one == (seed, episode) for one in so_far), "of one episode"
                assert step.final_obs.state[world].tolist() == [seed, episode, at + 1]
                assert step.reward[world] == at + 1
                if obs.frames is not None and step.final_obs.frames is not None:
                    assert (obs.frames[world] == at).all()
                    assert (step.final_obs.frames[world] == at + 1).all()
                so_far.append((seed, episode))
                if ended[world]:
                    self.episodes[seed, episode] += 1
                    length = 3 + (seed + episode // 2 + episode % 2) % 6  # two worlds an actor
                    assert len(so_far) == length
                    assert bool(step.truncated[world]) == (length == 8)
                    so_far.clear()

    def check_counts(self) -> None:
        counts, left = self.actors.counts, self.actors.left()
        assert counts["received"] == counts["taken"] + sum(left.values()) + counts["dropped_steps"]
        assert max(self.episodes.values()) == 1, "no episode is learned twice"


@pytest.mark.parametrize("method", ["truth", "gail"])
def test_every_world_of_the_replay_gets_whole_episodes(method):
    data = {"demonstrations": "data"} if method == "gail" else {}
    chosen = config(method=method, **data)
    with Actors(chosen) as actors:
        played = Played(actors, chosen)
        played.take(60)
        played.check_counts()
        assert actors.counts["taken"] == 240
        assert actors.counts["dropped_steps"] == actors.counts["restarts"] == 0
        assert {seed for seed, _ in played.episodes} == {
            actor._spec.seed % 2**20 for actor in actors._host.actors.values()
        }, "both actors contribute"


def test_a_taken_row_does_not_change_when_later_rows_are_taken():
    chosen = config(method="gail", demonstrations="data")
    with Actors(chosen) as actors:
        rows, copies = [], []
        for _ in range(30):
            obs, action, step = actors.take(0, lambda: weights_of(chosen), at_random=True)
            parts = (obs.state, obs.frames, action, step.reward, step.success)
            rows.append((*parts, step.final_obs.state, step.final_obs.frames))
            copies.append([part.clone() for part in rows[-1]])
    for row, copy in zip(rows, copies, strict=True):
        assert all(map(torch.equal, row, copy))


def test_replies_whose_steps_were_taken_are_freed():
    chosen = config(method="gail", demonstrations="data")
    with Actors(chosen) as actors:
        played = Played(actors, chosen)
        played.take(40)
        tracemalloc.start()
        try:
            played.take(40)
            before, _ = tracemalloc.get_traced_memory()
            played.take(200)
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        received = 200 * 4 * 3 * 64 * 64
        assert after - before < received / 4


def test_an_actor_that_dies_loses_its_open_episodes_and_another_starts():
    chosen = config()
    with Actors(chosen) as actors:
        played = Played(actors, chosen)
        for kill in range(8):
            played.take(7)
            actors._host.dead.add(sorted(actors._host.actors)[kill % 2])
            open_before = actors.left()["open"]
            dropped = actors.counts["dropped_steps"]
            played.take(7)
            played.check_counts()
            assert actors.counts["restarts"] == kill + 1
            assert actors.counts["dropped_steps"] - dropped <= open_before + 40
        assert actors.counts["dropped_steps"] > 0
        assert 0 < actors.counts["dropped_episodes"] <= 16
        assert actors.counts["taken"] == 8 * 14 * 4


def test_actors_that_always_die_end_the_run():
    chosen = config()
    with Actors(chosen) as actors:
        actors._host.dead = set(range(100))  # type: ignore[attr-defined]
        with pytest.raises(SimulationError, match="actors die before they end an episode"):
            Played(actors, chosen).take(1)
        assert actors.counts["restarts"] == 10


@pytest.fixture
def clock(monkeypatch):
    """The time that the pool sees, in seconds."""
    made = SimpleNamespace(now=0.0)
    made.monotonic = lambda: made.now
    monkeypatch.setattr(pool, "time", made)
    return made


def test_a_hung_actor_is_replaced_when_it_has_been_silent_for_too_long(clock):
    chosen = config(actor_timeout=10.0)
    with Actors(chosen) as actors:
        played = Played(actors, chosen)
        played.take(20)
        actors._host.hung.add(0)
        for second in range(1, 40):
            clock.now = float(second)
            played.take(1)
            # Its last reply came at 0 s, and it may be silent for 10 s.
            assert second > 10 or not actors.counts["restarts"]
        played.check_counts()
        assert actors.counts["restarts"] == 1
        assert 0 not in actors._host.actors


def test_a_stop_does_not_wait_for_an_episode(tmp_path, monkeypatch):
    monkeypatch.setattr(Inline, "every", (10**9,))
    result = pureward.train(tiny(tmp_path / "run", **RUN, budget_seconds=0.2))
    assert (result.state, result.env_steps) == ("interrupted", 0)


def test_a_long_pause_of_the_learner_replaces_nobody(clock):
    chosen = config(actor_timeout=10.0)
    with Actors(chosen) as actors:
        played = Played(actors, chosen)
        for _ in range(5):
            played.take(9)
            clock.now += 1000.0  # an evaluation
        assert actors.counts["restarts"] == 0


def test_slow_and_fast_actors_all_get_their_episodes_in(monkeypatch):
    monkeypatch.setattr(Inline, "every", (1, 30))
    chosen = config()
    with Actors(chosen) as actors:
        played = Played(actors, chosen)
        played.take(300)
        played.check_counts()
        fast, slow = (actor._spec.seed % 2**20 for actor in actors._host.actors.values())
        by_seed = Counter(seed for seed, _ in played.episodes)
        assert by_seed[fast] > 10 * by_seed[slow]
        # 300 rows take at least 300 calls: ten replies of five steps for each of two worlds.
        assert by_seed[slow] >= 2 * 5
        assert actors.counts["stale_episodes"] == 0


def test_actors_pause_while_a_whole_episode_waits(monkeypatch):
    monkeypatch.setattr("pureward.distributed.actors.worker.REPLY_STEPS", 1)
    chosen = config()
    with Actors(chosen) as actors:
        played = Played(actors, chosen)
        for _ in range(20):
            played.take(1)
            for _ in range(50):
                actors._receive(0.0, False)
            # One waits; two replies that were asked for before may end others.
            assert 1 <= len(actors._waiting) <= 3


def test_no_queue_grows():
    chosen = config(worlds=2)
    with Actors(chosen) as actors:
        Played(actors, chosen)
        played = Played(actors, chosen)
        played.take(1)
        for _ in range(200):
            actors._receive(0.0, False)
        # Two replies of five steps hold four episodes at most; one more may wait before.
        assert len(actors._waiting) <= 2 * 5
        assert actors._host.most_asked == 2


def test_an_episode_that_began_too_long_ago_is_dropped_and_counted(monkeypatch, capsys):
    monkeypatch.setattr(Inline, "every", (1, 40))
    # The replay has 8 rows; 4 · horizon is 32.
    chosen = config(replay=ReplayConfig(capacity=32), batch=16)
    with Actors(chosen) as actors:
        played = Played(actors, chosen)
        played.take(150)
        played.check_counts()
        assert actors.counts["stale_episodes"] > 0
        assert actors.counts["dropped_steps"] > 0
    late = [line for line in capsys.readouterr().out.splitlines() if "late" in line]
    assert len(late) == 1, "it is noted once that steps are old"
    assert "the replay holds only 32 steps; if the return does not rise, use fewer" in late[0]


def test_staleness_is_the_updates_since_the_weights_that_acted(monkeypatch, capsys):
    monkeypatch.setattr(pool, "_PUBLISH_SECONDS", -1.0)
    chosen = config()
    with Actors(chosen) as actors:
        played = Played(actors, chosen)
        for updates in range(50):
            played.take(1, updates)
        values = actors.read()
    assert "late" not in capsys.readouterr().out, "the replay is large"
    assert 0 < values["actors/staleness"] <= values["actors/staleness_max"] < 40
    assert values["actors/bytes_per_second"] > 0


def test_a_resumed_learner_finishes_its_episodes_with_new_actors():
    chosen = config()
    with Actors(chosen) as actors:
        played = Played(actors, chosen)
        played.take(23)
        saved = {name: tensor.clone() for name, tensor in actors.state_dict().items()}
    fewer = replace(chosen, actors=1)
    with Actors(fewer) as actors:
        actors.load_state_dict(saved)
        counts, left = actors.counts, actors.left()
        assert left["open"] == left["waiting"] == 0
        assert counts["received"] == counts["taken"] + left["columns"] + counts["dropped_steps"]
        played.actors = actors
        # Four worlds an actor now, so the lengths of new episodes follow another formula.
        for _ in range(40):
            taken = actors.take(0, lambda: played.weights, at_random=True)
            assert taken is not None
            obs, _, step = taken
            for world, so_far in enumerate(played.now):
                seed, episode, at = obs.state[world].tolist()
                assert at == len(so_far)
                assert all(one == (seed, episode) for one in so_far)
                so_far.append((seed, episode))
                if (step.terminated | step.truncated)[world]:
                    played.episodes[seed, episode] += 1
                    so_far.clear()
        played.check_counts()


@pytest.mark.parametrize("damage", ["rest/state", "rest/action", "left"])
def test_a_damaged_checkpoint_is_refused(damage):
    chosen = config()
    with Actors(chosen) as actors:
        Played(actors, chosen).take(5)
        saved = actors.state_dict()
        saved[damage] = saved[damage][:-1] if damage != "left" else saved[damage] + 1
        with pytest.raises(ValueError, match="must be"):
            actors.load_state_dict(saved)


RUN = {"task": "ticks", "actors": 2, "executor": "inline", "evaluate_every": 0}


def test_a_run_with_actors_stops_and_resumes_with_exact_steps(tmp_path):
    first = tiny(tmp_path / "run", env_steps=80, **RUN)
    assert pureward.train(first).env_steps == 80
    longer = replace(first, env_steps=160, actors=4)
    assert pureward.train(longer, resume=True).env_steps == 160
    rows = read_metrics(RunDirectory(tmp_path / "run").metrics, "train")
    assert [row["step"] for row in rows] == list(range(40, 161, 40))
    assert {"actors/staleness", "actors/restarts", "actors/dropped_steps"} <= set(rows[-1])
    with pytest.raises(InputError, match="actors 4 → 0"):
        pureward.train(replace(longer, env_steps=200, actors=0, executor="local"), resume=True)


def test_an_environment_that_cannot_be_made_in_an_actor_is_one_sentence(tmp_path, monkeypatch):
    def refuse(self, spec):
        raise InputError("an environment is a task, got 'nowhere:env'; check the spelling")

    monkeypatch.setattr("pureward.distributed.actors.worker._Worlds.__init__", refuse)
    with pytest.raises(InputError, match="an actor could not start: an environment is a task"):
        pureward.train(tiny(tmp_path / "run", **RUN))


def test_an_environment_that_fails_later_in_an_actor_does_not_end_the_run(monkeypatch):
    step, failures = Ticks.step, iter([False] * 20 + [True] + [False] * 1000)

    def fails_once(self, action):
        if next(failures):
            raise InputError("ticks rendered nothing; it must render")
        return step(self, action)

    monkeypatch.setattr(Ticks, "step", fails_once)
    chosen = config()
    with Actors(chosen) as actors:
        played = Played(actors, chosen)
        played.take(40)
        played.check_counts()
        assert actors.counts["restarts"] == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--actors", "3"], "actors step the same number of worlds each"),
        (["--actors", "-1"], "actors must be at least 0"),
        (
            ["--actors", "2", "--executor", "slurm"],
            "unknown executor of actors 'slurm'; choose from local, ray",
        ),
        (["--actors", "2", "--address", "auto"], "'local' take no address"),
        (["--executor", "ray", "--address", "auto"], "for actors, got 'ray', 'auto' and no actors"),
        (["--executor", "ray"], "for actors, got 'ray', '' and no actors; add --actors 4"),
        (["--address", "auto"], "for actors, got 'local', 'auto' and no actors"),
    ],
)
def test_bad_actors_are_one_sentence(tmp_path, capsys, words, says):
    command = ["expert", "reach", "--device", "cpu", "--out", str(tmp_path / "run"), *words]
    with pytest.raises(SystemExit) as end:
        main(command)
    said = capsys.readouterr().err.strip()
    assert end.value.code == 2
    assert says in said
    assert "\n" not in said


POINT = {"task": "point_env:PointEnv", "actors": 2, "executor": "local", "evaluate_every": 0}


def test_a_killed_process_is_replaced_and_the_run_goes_on(tmp_path, monkeypatch):
    """The first process dies before its first reply: starting another takes seconds."""
    killed = []
    start = Processes.start

    def deadly(self, spec) -> int:
        key = start(self, spec)
        if not killed:
            killed.append(self._actors[key][0].pid)
            os.kill(killed[0], signal.SIGKILL)
        return key

    monkeypatch.setattr(Processes, "start", deadly)
    result = pureward.train(tiny(tmp_path / "run", **(POINT | {"env_steps": 200})))
    assert (result.state, result.env_steps) == ("finished", 200)
    rows = read_metrics(RunDirectory(tmp_path / "run").metrics, "train")
    assert rows[-1]["actors/restarts"] == 1
    with pytest.raises(ProcessLookupError):
        os.kill(killed[0], 0)


@pytest.mark.slow
def test_processes_are_killed_and_no_step_is_lost_or_taken_twice(tmp_path):
    chosen = tiny(tmp_path / "run", **POINT)
    with Actors(chosen) as actors:
        weights = pureward.AGENTS["d4pg"].policy(chosen.agent, 1, 1).state_dict()
        taken = 0
        for kill in range(10):
            for _ in range(50):
                actors.take(0, lambda: weights, at_random=False)
                taken += 1
            key = actors._actors[kill % 2].key
            os.kill(actors._host._actors[key][0].pid, signal.SIGKILL)
            until = time.monotonic() + 120
            while actors.counts["restarts"] <= kill:
                assert time.monotonic() < until, "its death was not noticed"
                actors.take(0, lambda: weights, at_random=False)
                taken += 1
        counts, left = actors.counts, actors.left()
        assert counts["taken"] == 4 * taken
        assert counts["received"] == counts["taken"] + sum(left.values()) + counts["dropped_steps"]


@pytest.mark.slow
def test_processes_of_1_ms_and_1_s_a_step_do_not_hold_up_each_other(tmp_path, monkeypatch):
    monkeypatch.setenv("PACED", str(tmp_path))
    monkeypatch.setenv("PACED_LEARNER", str(os.getpid()))
    settings = POINT | {"task": "paced_env:Paced", "replay": ReplayConfig(capacity=1_000_000)}
    chosen = tiny(tmp_path / "run", **settings)
    taken = [0, 0]  # steps of the fast and of the slow actor
    with Actors(chosen) as actors:
        weights = pureward.AGENTS["d4pg"].policy(chosen.agent, 1, 1).state_dict()
        until = time.monotonic() + 300
        while taken[1] < 4 * 3:
            assert time.monotonic() < until, "the slow actor starves"
            row = actors.take(0, lambda: weights, at_random=True)
            assert row is not None
            slow = int(row[0].state.sum())
            taken = [taken[0] + actors.worlds - slow, taken[1] + slow]
        assert taken[0] > 10 * taken[1]
        assert actors.counts["dropped_steps"] == 0


@pytest.mark.slow
def test_a_stopped_process_is_found_by_its_heartbeat(tmp_path):
    chosen = tiny(tmp_path / "run", **(POINT | {"actor_timeout": 5.0}))
    with Actors(chosen) as actors:
        weights = pureward.AGENTS["d4pg"].policy(chosen.agent, 1, 1).state_dict()

        def take() -> None:
            actors.take(0, lambda: weights, at_random=True)

        take()
        stopped = actors._host._actors[0][0].pid
        os.kill(stopped, signal.SIGSTOP)
        until = time.monotonic() + 120
        while not actors.counts["restarts"]:
            assert time.monotonic() < until, "it was not found"
            take()
        counts, left = actors.counts, actors.left()
        assert counts["received"] == counts["taken"] + sum(left.values()) + counts["dropped_steps"]
    with pytest.raises(ProcessLookupError):
        os.kill(stopped, 0)


@pytest.mark.slow
def test_actors_end_with_a_killed_learner(tmp_path):
    import subprocess
    import sys

    script = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "import pureward\nfrom pureward.distributed.actors import hosts\nfrom tiny import tiny\n"
        "if __name__ == '__main__':\n"
        "    hosts._MEMORY = sys.argv[3]\n"
        "    pureward.train(tiny(sys.argv[1], actors=2, env_steps=10**6, log_every=40))\n"
    )
    path = tmp_path / "start.py"
    path.write_text(script)
    tests = os.path.dirname(os.path.dirname(__file__))
    run, memory = RunDirectory(tmp_path / "run"), tmp_path / "memory"
    memory.mkdir()
    learner = subprocess.Popen([sys.executable, str(path), str(run.path), tests, str(memory)])
    try:
        _wait_for(lambda: run.metrics.exists() and run.metrics.stat().st_size > 1000)
        children = _children(learner.pid)
        assert len(children) >= 2
        assert len(list(memory.iterdir())) == 1, "the folder of the weights"
    finally:
        learner.kill()
        learner.wait()
    _wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in children))
    assert list(memory.iterdir()) == []
    saved = json.loads(max(run.checkpoints.glob("step-*/facts.json")).read_text())["step"]
    result = pureward.train(tiny(run.path, actors=1, env_steps=saved + 80), resume=True)
    assert result.env_steps == saved + 80


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def _wait_for(condition) -> None:
    until = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < until, "timed out"
        time.sleep(0.2)


def test_half_a_reply_counts_as_a_death():
    host = Processes()
    own, other = CONTEXT.Pipe()
    size = (5).to_bytes(8)
    os.write(other.fileno(), size + b"whole" + size + b"hal")
    other.close()
    host._receive(0, own)
    assert [host._received.get_nowait() for _ in range(2)] == [(0, b"whole"), (0, None)]
    assert host._received.empty()
    host.close()


def test_an_actor_sees_new_weights_in_a_file_of_the_same_number(tmp_path, monkeypatch):
    """A disk gives the inode of a deleted file to the next one."""
    policy, used = tmp_path / "policy.safetensors", []

    class Pipe:
        asked = 0

        def fileno(self):
            return sink.fileno()

        def recv_bytes(self):
            self.asked += 1
            if self.asked > 3:
                raise EOFError
            policy.write_bytes(b"%d" % self.asked)
            os.utime(policy, ns=(0, self.asked * 10**9))
            return b"\0"

    class Recorder:
        def __init__(self, spec):
            pass

        def advance(self, weights, at_random):
            used.append(weights)
            return b"reply"

    monkeypatch.setattr(hosts, "Actor", Recorder)
    monkeypatch.setattr(hosts.signal, "signal", lambda *_: None)
    with (tmp_path / "replies").open("wb") as sink:
        hosts._serve(None, Pipe(), str(tmp_path))
    assert used == [b"1", b"2", b"3"]


def test_folders_of_killed_learners_are_deleted_at_the_next_start(tmp_path, monkeypatch):
    monkeypatch.setattr(hosts, "_MEMORY", str(tmp_path))
    left, new = tmp_path / "pureward-actors-left", tmp_path / "pureward-actors-new"
    for folder in (left, new):
        folder.mkdir()
        (folder / "policy.safetensors").write_bytes(b"weights")
    living = Processes()
    living.publish(b"weights")
    for folder in tmp_path.iterdir():
        if folder != new:
            os.utime(folder, (0, 0))
    other = Processes()
    assert not left.exists()
    assert new.exists(), "its owner may not have locked it yet"
    assert len(list(tmp_path.iterdir())) == 3
    for host in (living, other):
        host.close()
        host.close()
    assert list(tmp_path.iterdir()) == [new]
