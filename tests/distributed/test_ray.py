"""The executor "ray" on a cluster of three nodes on this machine, and addresses without a cluster.

Ray takes 20 s to start on two slow cores, so only what needs no cluster is tested by `make test`.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

import pureward
from job import Task
from pureward.distributed.actors import Actors
from pureward.distributed.cluster import connect
from pureward.distributed.jobs import Watcher, make_executor, run_jobs
from pureward.distributed.training import Training
from pureward.errors import InputError
from pureward.runs.directory import RunDirectory
from tiny import tiny

ray = pytest.importorskip("ray", reason="needs the extra ray")
pytestmark = pytest.mark.filterwarnings("ignore")  # those of Ray
# More of them: PUREWARD_ACTOR_KILLS=100 PUREWARD_NODE_KILLS=20
ACTOR_KILLS = int(os.environ.get("PUREWARD_ACTOR_KILLS", "8"))
NODE_KILLS = int(os.environ.get("PUREWARD_NODE_KILLS", "2"))


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("127.0.0.1:1", "no Ray cluster answers at '127.0.0.1:1'"),
        ("nowhere", "is 'auto' or HOST:PORT, got 'nowhere'"),
        ("127.0.0.1:99999999", "no Ray cluster answers"),
    ],
)
def test_an_address_without_a_cluster_is_one_sentence_at_once(address, says):
    with pytest.raises(InputError, match=says) as found:
        connect(address)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_port_of_another_program_is_one_sentence_at_once(answer, monkeypatch):
    monkeypatch.setattr("pureward.distributed.cluster._SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            client, _ = server.accept()
            with client, suppress(OSError):
                client.sendall(answer)
                while client.recv(1000):  # until the caller gives up
                    pass

        threading.Thread(target=serve, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(InputError, match=rf"no Ray cluster answers at '{address}' \("):
            connect(address)


def test_a_named_gpu_is_left_to_ray():
    with pytest.raises(InputError, match="Ray chooses the GPU"):
        make_executor("ray", device="cuda:1")


@pytest.mark.slow
def test_ray_starts_without_a_word():
    command = [sys.executable, "-c", "from pureward.distributed.cluster import connect; connect()"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    # Nodes of one machine find the modules of tests, as machines with the same folders would.
    os.environ["PYTHONPATH"] = os.path.dirname(os.path.dirname(__file__))
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    made.nodes = [made.add_node(num_cpus=1) for _ in range(2)]  # pyright: ignore
    before = signal.getsignal(signal.SIGTERM)
    connect(made.address)
    assert signal.getsignal(signal.SIGTERM) is before, "a run handles it, with a checkpoint"
    yield made
    ray.shutdown()
    made.shutdown()
    del os.environ["PYTHONPATH"]


@pytest.mark.slow
def test_tasks_report_their_result(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    jobs = [Task(tmp_path / does, does=does) for does in ("good", "fail", "stop", "die")]
    executor = make_executor("ray", device="auto")
    assert executor.at_once == 2
    outcomes = run_jobs(jobs, executor, Watcher())
    assert [one.state for one in outcomes] == ["finished", "failed", "stopped", "failed"]
    assert outcomes[1].message == "the value must be 1, got 2; use 1"
    assert outcomes[3].message.startswith("killed by SIGKILL")
    with pytest.raises(InputError, match="the Ray cluster has 0"):
        make_executor("ray", device="cuda")


@pytest.mark.slow
def test_runs_share_a_gpu(cluster, tmp_path):
    """Ray is told of a GPU that is not there; the jobs only print which one they see."""
    node = cluster.add_node(num_cpus=1, num_gpus=1)
    _wait_for(lambda: ray.cluster_resources().get("GPU") == 1)
    executor = make_executor("ray", device="auto", at_once=2)
    assert (executor.at_once, getattr(executor, "gpus", None)) == (2, 0.5)
    jobs = [Task(tmp_path / name) for name in ("one", "two")]
    assert {one.state for one in run_jobs(jobs, executor, Watcher())} == {"finished"}
    assert [job.log.read_text() for job in jobs] == ["GPU 0\n", "GPU 0\n"]
    cluster.remove_node(node)
    _wait_for(lambda: not ray.cluster_resources().get("GPU"))


@pytest.mark.slow
def test_a_stopped_task_ends_its_job(cluster, tmp_path):
    executor = make_executor("ray", device="cpu", at_once=1)
    job = Task(tmp_path / "long", does="sleep")
    handle = executor.start(job)
    _wait_for(lambda: job.log.exists() and job.log.stat().st_size)
    handle.stop()
    handle.wait()
    assert handle.result() == "failed"
    assert handle.last_line().startswith("killed by SIGTERM")


@pytest.mark.slow
def test_a_run_goes_on_elsewhere_after_its_node_has_died(cluster, tmp_path):
    run = Training(config=tiny(tmp_path / "run", env_steps=16_000, checkpoint_every=400))
    outcomes = []

    def sweep():
        executor = make_executor("ray", device="cpu", at_once=1)
        outcomes.extend(run_jobs([run], executor, Watcher()))

    thread = threading.Thread(target=sweep)
    thread.start()
    place = RunDirectory(run.out)
    for _ in range(2):
        before = place.metrics.stat().st_size if place.metrics.exists() else 0
        _wait_for(lambda before=before: place.metrics.exists()
                  and place.metrics.stat().st_size > before + 2_000)  # fmt: skip
        dying = _wait_for(lambda: next(filter(_works, cluster.worker_nodes), None))
        cluster.remove_node(dying, allow_graceful=False)
        cluster.add_node(num_cpus=1)
    thread.join(timeout=600)
    assert [one.state for one in outcomes] == ["finished"]
    assert place.read_status()["env_steps"] == 16_000
    assert run.log.read_text().count("replay of 400 steps") >= 3, "it was started three times"


@pytest.mark.slow
def test_actors_and_nodes_are_killed_and_steps_add_up(cluster, tmp_path):
    chosen = tiny(tmp_path / "run", task="point_env:PointEnv", actors=2, executor="ray")
    with pytest.raises(InputError, match="64 actors need a CPU each, and the Ray cluster has"):
        Actors(replace(chosen, worlds=64, actors=64))
    weights = pureward.AGENTS["d4pg"].policy(chosen.agent, 1, 1).state_dict()
    taken = 0
    with Actors(chosen) as actors:

        def take() -> bool:
            nonlocal taken
            actors.take(taken, lambda: weights, at_random=False)
            taken += 1
            return True

        for kill in range(ACTOR_KILLS + NODE_KILLS):
            for _ in range(100):
                take()
            before = actors.counts["restarts"]
            if kill % ((ACTOR_KILLS + NODE_KILLS) // NODE_KILLS):
                os.kill(_wait_for(lambda: _actor_processes(cluster))[0], signal.SIGKILL)
            else:
                dying = _wait_for(lambda: next(filter(_works, cluster.worker_nodes), None))
                cluster.remove_node(dying, allow_graceful=False)
                cluster.add_node(num_cpus=1)
            _wait_for(lambda before=before: take() and actors.counts["restarts"] > before)
        counts, left = actors.counts, actors.left()
        assert counts["taken"] == 4 * taken
        assert counts["received"] == counts["taken"] + sum(left.values()) + counts["dropped_steps"]
        assert counts["restarts"] >= ACTOR_KILLS + NODE_KILLS


def _actor_processes(cluster) -> list[int]:
    """Processes of actors on the nodes of the cluster."""
    raylets = {str(node.all_processes["raylet"][0].process.pid) for node in cluster.worker_nodes}
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = (path / "stat").read_text().rpartition(")")[2].split()[1]
            if parent in raylets and b"Actor" in (path / "cmdline").read_bytes():
                found.append(int(path.name))
    return found


def _works(node) -> bool:
    """Whether a job runs on a node of the cluster."""
    from ray._private.state import available_resources_per_node

    left = available_resources_per_node().get(node.node_id, {"CPU": 1})
    alive = [one["NodeID"] for one in ray.nodes() if one["Alive"]]
    return node.node_id in alive and not left.get("CPU")


def _wait_for(condition):
    until = time.monotonic() + 300
    while not (found := condition()):
        assert time.monotonic() < until, "timed out"
        time.sleep(0.2)
    return found
