"""A run: what it writes, how it stops, and that it resumes without loss."""

import json
import math
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import pureward
from pureward.agents.exploration import ExplorationConfig
from pureward.cli import main
from pureward.errors import InputError, SimulationError, TrainingError
from pureward.runs import checkpoint
from pureward.runs.config_file import from_json, to_json
from pureward.runs.log import read_metrics
from pureward.runs.policy import load_policy, snapshots
from pureward.training import loop
from pureward.training.run import Run
from tiny import tiny

TESTS = str(Path(__file__).parents[1])


def metrics(run: Path) -> list[dict]:
    """The metrics of a run, without seconds."""
    return [
        {name: value for name, value in row.items() if name != "seconds"}
        for row in read_metrics(run / "metrics.jsonl")
    ]


def weights(run: Path) -> dict[str, torch.Tensor]:
    newest = checkpoint.read_newest(run / "checkpoints")
    assert newest is not None
    return newest.tensors


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A run that was never stopped."""
    path = tmp_path_factory.mktemp("whole") / "run"
    result = pureward.train(tiny(path))
    assert result.state == "finished"
    return path


def assert_same_run(one: Path, two: Path) -> None:
    assert metrics(one) == metrics(two)
    ours, theirs = weights(one), weights(two)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_settings_of_another_class_are_rejected():
    with pytest.raises(InputError, match="trained by its RunConfig, got dict; make one with"):
        pureward.train({"task": "reach"})


def test_a_run_writes_its_files(whole):
    status = json.loads((whole / "status.json").read_text())
    assert status["state"] == "finished"
    assert status["env_steps"] == 480
    assert status["made_with"]["torch"] == torch.__version__
    assert status["made_with"]["machine"].startswith(("CPU", "NVIDIA"))
    rows = read_metrics(whole / "metrics.jsonl")
    evaluations = [row for row in rows if row["kind"] == "eval"]
    assert [row["step"] for row in evaluations] == [240, 480]
    assert {"return", "return_ci95", "success"} <= evaluations[0].keys()
    assert any("critic/loss" in row for row in rows)
    assert any(file.name.startswith("events") for file in (whole / "tensorboard").iterdir())
    kept = sorted(path.name for path in (whole / "checkpoints").glob("step-*"))
    assert len(kept) in (2, 3)  # the newest two, and the best if it is another
    assert kept[-1] == "step-000000000480"
    assert from_json(json.loads((whole / "config.json").read_text())) == tiny(whole)
    saved = [load_policy(whole, path).env_steps for path in snapshots(whole)]
    assert saved == [0, 120, 240, 360, 480]


def test_a_method_without_a_reward_model_has_no_bar_for_it(tmp_path, capsys):
    pureward.train(tiny(tmp_path / "run", env_steps=40))
    shown = capsys.readouterr().err
    assert "reach truth" in shown
    assert "reward model" not in shown


def test_a_loaded_policy_acts_like_the_agent(whole):
    from pureward.agents.d4pg.agent import D4PG

    agent = D4PG(tiny(whole).agent, state_size=4, action_size=2)
    agent.load_state_dict(checkpoint.under("learner/agent", weights(whole)))
    state = torch.randn(5, 4)
    assert torch.equal(load_policy(whole).act(state), agent.act(state))


def test_a_resumed_run_is_the_same_bit_for_bit(whole, tmp_path):
    run = tmp_path / "run"
    pureward.train(tiny(run, env_steps=200))
    result = pureward.train(tiny(run), resume=True)
    assert result.state == "finished"
    # The stop wrote an evaluation that the whole run does not have; all else is equal.
    cut = [row for row in metrics(run) if (row["kind"], row["step"]) != ("eval", 200)]
    assert cut == metrics(whole)
    ours, theirs = weights(run), weights(whole)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_a_resumed_run_lets_go_of_the_checkpoint_that_it_read(tmp_path, monkeypatch):
    """Otherwise a checkpoint that is pruned would still take its place on the disk."""
    run, mapped = tmp_path / "run", []
    pureward.train(tiny(run, env_steps=80))
    write = Run.write_checkpoint

    def look(self):
        write(self)
        mapped.append("state.safetensors" in Path("/proc/self/maps").read_text())

    monkeypatch.setattr(Run, "write_checkpoint", look)
    pureward.train(tiny(run, env_steps=160), resume=True)
    assert mapped == [False] * len(mapped) != []


def test_a_run_that_fails_before_it_learns_leaves_no_policies(tmp_path, monkeypatch):
    """The corrected run would be evaluated by the policy of the failed one."""
    run, step = tmp_path / "run", Run.step

    def fail(self, *words):
        if self.env_steps >= 24:
            raise SimulationError("the environment failed")
        return step(self, *words)

    with monkeypatch.context() as patch, pytest.raises(SimulationError):
        patch.setattr(Run, "step", fail)
        pureward.train(tiny(run, warmup_steps=400, snapshot_every=8))
    pureward.train(tiny(run, env_steps=8))
    assert load_policy(run).env_steps == 8


def test_the_time_of_evaluations_and_of_writing_is_not_training_time(tmp_path, monkeypatch):
    clocks, counted = [], []

    def watched(name: str):
        call = getattr(Run, name)

        def watch(self, *args):
            before = self.clock.read()
            time.sleep(0.02)
            clocks.append(name)
            counted.append(self.clock.read() - before)
            return call(self, *args)

        monkeypatch.setattr(Run, name, watch)

    for name in ("evaluate", "write_snapshot", "write_checkpoint"):
        watched(name)
    pureward.train(tiny(tmp_path / "run", env_steps=40, evaluate_every=0))
    assert clocks == ["write_snapshot", "write_checkpoint", "evaluate", *clocks[:2]]
    assert counted == [0.0] * 5


def test_resuming_a_finished_run_adds_nothing(tmp_path):
    run = tmp_path / "run"
    pureward.train(tiny(run, env_steps=120))
    before = metrics(run)
    assert pureward.train(tiny(run, env_steps=120), resume=True).state == "finished"
    assert metrics(run) == before


@pytest.mark.parametrize("damage", ["settings", "facts", "numbers", "past", "size"])
def test_a_checkpoint_that_does_not_fit_is_rejected(tmp_path, damage):
    run = tmp_path / "run"
    pureward.train(tiny(run, env_steps=80))
    config = tiny(run, env_steps=160)
    if damage == "settings":
        config = replace(config, worlds=2)
        (run / "config.json").write_text(json.dumps(to_json(config)))
    else:
        facts = run / "checkpoints" / "step-000000000080" / "facts.json"
        changes = {
            "facts": ("control_steps", "steps"),
            "numbers": ('steps": 20,', 'steps": Infinity,'),
            "past": ('steps": 20,', 'steps": 0,'),
            "size": ('metrics_bytes": ', 'metrics_bytes": -'),
        }
        old, new = changes[damage]
        assert old in facts.read_text()
        facts.write_text(facts.read_text().replace(old, new))
    kept = snapshots(run)
    with pytest.raises(InputError, match="step-000000000080 does not fit the run's settings"):
        pureward.train(config, resume=True)
    assert snapshots(run) == kept


def test_snapshots_newer_than_the_checkpoint_are_deleted(tmp_path):
    run = tmp_path / "run"
    pureward.train(tiny(run, env_steps=400, checkpoint_every=240, snapshot_every=80))
    shutil.rmtree(run / "checkpoints/step-000000000400")  # as if killed before its last checkpoint
    pureward.train(tiny(run, env_steps=320, checkpoint_every=240, snapshot_every=80), resume=True)
    steps = [int(path.stem.removeprefix("step-")) for path in snapshots(run)]
    assert steps == [0, 80, 160, 240, 320]


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        (["config.json"], "holds metrics.jsonl, which a run would replace, without a run's config"),
        (["config.json", "status.json"], "holds checkpoints of a run, such as step-.*, without"),
    ],
)
def test_a_run_that_lost_its_config_is_not_overwritten(tmp_path, lost, told):
    run = tmp_path / "run"
    pureward.train(tiny(run, env_steps=80))
    before = metrics(run)
    for name in lost:
        (run / name).unlink()
    with pytest.raises(InputError, match=told):
        pureward.train(tiny(run, env_steps=160))
    assert metrics(run) == before


def test_a_rejected_resume_changes_no_file(tmp_path):
    run = tmp_path / "run"
    pureward.train(tiny(run, env_steps=80))
    kept = ("config.json", "status.json", "metrics.jsonl")
    before = [(run / name).read_bytes() for name in kept]
    with pytest.raises(InputError, match="unknown device 'gpu'"):
        pureward.train(tiny(run, env_steps=160, device="gpu"), resume=True)
    with pytest.raises(InputError, match="env-steps must be at least the 80 that .* has made"):
        pureward.train(tiny(run, env_steps=40), resume=True)
    assert [(run / name).read_bytes() for name in kept] == before


def test_metrics_without_checkpoints_are_not_overwritten(tmp_path):
    run = tmp_path / "run"
    pureward.train(tiny(run, env_steps=80))
    shutil.rmtree(run / "checkpoints")
    before = metrics(run)
    with pytest.raises(InputError, match="measured up to step 80 and holds no complete checkpoint"):
        pureward.train(tiny(run, env_steps=160), resume=True)
    assert metrics(run) == before


def start(run: Path, **options) -> subprocess.Popen:
    code = f"import sys; sys.path.insert(0, {TESTS!r}); from tiny import train_tiny; "
    code += f"train_tiny({str(run)!r}, **{options!r})"
    with run.with_name("output.txt").open("w") as output:
        return subprocess.Popen(
            [sys.executable, "-c", code], stdout=output, stderr=subprocess.STDOUT
        )


def wait_for(condition, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert process.poll() is None, "the run ended; see output.txt beside it"
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.01)


def has_checkpoint(run: Path, step: int) -> bool:
    folder = run / "checkpoints"
    return any(int(path.name.split("-")[1]) >= step for path in folder.glob("step-*"))


def test_a_killed_run_resumes_to_the_same_end(whole, tmp_path):
    run = tmp_path / "run"
    process = start(run)
    wait_for(lambda: has_checkpoint(run, 80), process)
    process.kill()
    process.wait()
    pureward.train(tiny(run), resume=True)
    assert_same_run(run, whole)


def test_a_kill_inside_a_checkpoint_write_leaves_the_one_before(whole, tmp_path):
    run = tmp_path / "run"
    assert start(run, die_in_write=4).wait(timeout=300) == -signal.SIGKILL
    newest = checkpoint.read_newest(run / "checkpoints")
    assert newest is not None
    assert newest.facts["step"] == 160  # the first is at 0, then every 80; the fourth died
    pureward.train(tiny(run), resume=True)
    assert_same_run(run, whole)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_locks_its_directory_and_a_signal_ends_it_with_a_checkpoint(tmp_path, number):
    run = tmp_path / "run"
    process = start(run, env_steps=400_000)
    wait_for(lambda: has_checkpoint(run, 240), process)
    with pytest.raises(InputError, match="one process at a time"):
        pureward.train(tiny(run), resume=True)
    process.send_signal(number)
    assert process.wait(timeout=300) == 0
    status = json.loads((run / "status.json").read_text())
    assert status["state"] == "interrupted"
    newest = checkpoint.read_newest(run / "checkpoints")
    assert newest.facts["step"] == status["env_steps"] >= 240


def test_an_existing_run_is_not_overwritten(whole):
    with pytest.raises(InputError, match="holds a run already; pass --resume"):
        pureward.train(tiny(whole))


def test_a_run_does_not_write_into_its_data(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    config = tiny(data / "run", method="nn-pugail", demonstrations=str(data))
    with pytest.raises(InputError, match=f"data/run must lie outside of {data}, which is only"):
        pureward.train(config)
    assert not list(data.iterdir())


def test_there_must_be_something_to_resume(tmp_path):
    with pytest.raises(InputError, match="holds no run to resume"):
        pureward.train(tiny(tmp_path / "none"), resume=True)


def test_a_resumed_run_keeps_its_settings(whole):
    with pytest.raises(InputError, match="keeps its settings, got batch 16 → 32"):
        pureward.train(tiny(whole, batch=32), resume=True)


def test_a_full_disk_stops_the_run_and_keeps_the_last_checkpoint(tmp_path, monkeypatch, capsys):
    run, write, count = tmp_path / "run", checkpoint.write_tensors, iter(range(10**9))

    def fills_up(path, tensors):
        write(path, tensors)
        if next(count) == 3:
            raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(checkpoint, "write_tensors", fills_up)
    monkeypatch.setattr("pureward.training.loop.train", _training(run))
    with pytest.raises(SystemExit) as stop:
        main(["expert", "reach", "--out", str(run)])
    assert stop.value.code == 1
    assert "pureward: no space left to write" in capsys.readouterr().err
    assert checkpoint.read_newest(run / "checkpoints").facts["step"] == 160
    assert json.loads((run / "status.json").read_text())["state"] == "failed"


@pytest.mark.parametrize("fate", ["moved", "deleted", "replaced"])
def test_a_run_stops_if_its_folder_is_moved(tmp_path, monkeypatch, fate):
    run, elsewhere, write, count = (
        tmp_path / "run",
        tmp_path / "elsewhere",
        checkpoint.write,
        iter(range(10**9)),
    )

    def moves(folder, *args):
        path = write(folder, *args)
        if next(count) == 2:
            run.rename(elsewhere)
            if fate == "deleted":
                shutil.rmtree(elsewhere)
            if fate == "replaced":
                run.mkdir()
        return path

    monkeypatch.setattr(checkpoint, "write", moves)
    monkeypatch.setattr(checkpoint, "prune", lambda *_: None)
    with pytest.raises(OSError, match="must stay in place during the run, and .*run was"):
        pureward.train(tiny(run))
    assert not run.exists() or not any(run.iterdir())
    if fate == "moved":
        monkeypatch.undo()
        elsewhere.rename(run)
        assert pureward.train(tiny(run), resume=True).state == "finished"


def _training(run: Path):
    train = loop.train
    return lambda config, resume=False: train(tiny(run), resume=resume)


def spoil_loss(monkeypatch):
    from pureward.agents.d4pg import plain as d4pg

    original, count = d4pg.cross_entropy, iter(range(1, 10**9))
    monkeypatch.setattr(
        d4pg,
        "cross_entropy",
        lambda *args: original(*args) * (float("nan") if next(count) == 37 else 1.0),
    )


def test_a_nan_loss_stops_the_run_at_that_update(tmp_path, monkeypatch):
    spoil_loss(monkeypatch)
    run = tmp_path / "run"
    with pytest.raises(TrainingError, match="critic/loss is not finite since update 37;"):
        pureward.train(tiny(run))
    newest = checkpoint.read_newest(run / "checkpoints")
    assert all(t.isfinite().all() for t in newest.tensors.values() if t.is_floating_point())
    assert json.loads((run / "status.json").read_text())["state"] == "failed"


def test_the_error_for_an_infinite_weight_names_the_network(tmp_path):
    from pureward.training.learner import Learner

    config = tiny(tmp_path)
    learner = Learner(config, pureward.make("reach", 4, "cpu"))
    with torch.no_grad():
        next(learner.agent.actor.parameters())[0] = float("inf")
    with pytest.raises(TrainingError, match="a weight of the actor is not finite"):
        learner.check()


def test_a_diverged_simulation_stops_the_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its warning to a log file here
    from pureward.envs.sim.mujoco_cpu import CpuEngine

    step, count = CpuEngine.step, iter(range(10**9))

    def breaks(self):
        if next(count) == 30:
            self.state.qpos[0] = float("nan")
        step(self)

    monkeypatch.setattr(CpuEngine, "step", breaks)
    with pytest.raises(SimulationError, match="reach: MuJoCo warned of 'badqpos' in 1 of 4"):
        pureward.train(tiny(tmp_path / "run"))


def test_a_time_budget_interrupts(tmp_path):
    result = pureward.train(tiny(tmp_path / "run", env_steps=10**7, budget_seconds=0.5))
    assert result.state == "interrupted"
    assert 0 < result.env_steps < 10**7


def test_a_good_enough_return_ends_the_run(tmp_path):
    result = pureward.train(tiny(tmp_path / "run", env_steps=10**7, stop_at_return=1e-6))
    assert (result.state, result.env_steps) == ("finished", 240)


def test_a_run_with_the_largest_seed_is_evaluated(tmp_path):
    config = tiny(tmp_path / "run", env_steps=40, evaluate_every=40, seed=2**53 - 1)
    assert "return" in pureward.train(config).evaluation


def test_the_best_checkpoint_is_scored_by_its_own_evaluation(tmp_path):
    run = tmp_path / "run"
    pureward.train(tiny(run, env_steps=360, evaluate_every=160, checkpoint_every=120))
    evaluated = {row["step"]: row["return"] for row in read_metrics(run / "metrics.jsonl", "eval")}
    assert sorted(evaluated) == [160, 320, 360]
    best = checkpoint.best(run / "checkpoints")
    assert best is not None
    assert best.name == "step-000000000360"
    found = checkpoint.read(best).facts["evaluation"]["return"]
    assert found == pytest.approx(evaluated[360], rel=1e-6)  # metrics have seven digits


def test_without_its_replay_a_checkpoint_is_small_and_still_resumes(tmp_path):
    run = tmp_path / "run"
    pureward.train(tiny(run, env_steps=240, save_replay=False))
    assert not any(name.startswith("learner/replay") for name in weights(run))
    assert counted_steps(run) == 240 / 4
    assert pureward.train(tiny(run, save_replay=False), resume=True).state == "finished"
    assert counted_steps(run) == 480 / 4


def counted_steps(run: Path) -> int:
    """Steps of the newest checkpoint whose successes it counts."""
    newest = checkpoint.read_newest(run / "checkpoints")
    assert newest is not None
    return newest.facts["counted_steps"]


def test_a_checkpoint_of_an_earlier_version_resumes(tmp_path):
    run = tmp_path / "run"
    pureward.train(tiny(run, env_steps=240, save_replay=False))
    path = run / "checkpoints" / "step-000000000240" / "facts.json"
    facts = json.loads(path.read_text())
    for later in ("probed_at", "successes", "counted_steps"):
        del facts[later]
    path.write_text(json.dumps(facts))
    assert pureward.train(tiny(run, save_replay=False), resume=True).state == "finished"
    assert counted_steps(run) == 240 / 4  # those after the resume


def test_settings_are_converted_to_their_types():
    data = {"method": "nn-pugail", "demonstrations": Path("data")}
    config = pureward.preset("reach", env_steps=4.8e3, prior=0.5, **data)
    layers = replace(config.agent, actor_layers=[16, 16])
    config = replace(config, agent=layers)
    assert type(config.env_steps) is int
    assert (config.env_steps, config.prior) == (4800, "0.5")
    assert from_json(json.loads(json.dumps(to_json(config)))).agent.actor_layers == (16, 16)


def test_settings_survive_json():
    config = pureward.preset("walker", "fast", seed=3)
    assert from_json(json.loads(json.dumps(to_json(config)))) == config
    with pytest.raises(InputError, match=r"unknown settings \['colour'\]"):
        from_json({"colour": "red"})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"task": "swim"}, "unknown task 'swim'"),
        ({"method": "gial"}, "unknown method 'gial'"),
        ({"worlds": 0}, "worlds must be at least 1, got 0"),
        ({"batch": 0}, "batch must be at least 1"),
        ({"actors": -3}, "actors must be at least 0, got -3"),
        ({"actors": 3, "worlds": 8}, "got 3 actors and 8 worlds; use --worlds 6"),
        ({"actors": 8, "worlds": 3}, "got 8 actors and 3 worlds; use --worlds 8"),
        ({"actors": 4, "guided": 0.5, "task": "lift"}, "got guided 0.5 and 4 actors; use --guided"),
        ({"seed": 2**53}, r"seed must lie within ±2\^53"),
        ({"guided": 2.0}, "guided must be a share of the worlds in .* got 2.0"),
        ({"env_steps": "480"}, "env_steps must be a whole number, without quotes, got '480'"),
        ({"seed": 1.5}, "seed must be a whole number, got 1.5"),
        ({"out": None}, "out must be text, got None"),
        ({"out": ""}, "out must be a folder of the run's own, got ''"),
        ({"reward": None}, "reward must be of type RewardConfig, got None"),
        (
            {"batch": 10**12},
            "at most the replay's capacity of 1,000,000 steps, got 1,000,000,000,000",
        ),
        ({"task": "reach", "guided": 0.5}, "task 'reach' has no script"),
        ({"worlds": 2_000_000}, "must hold a step of each world"),
        ({"budget_seconds": -1.0}, "budget_seconds must be at least 0, got -1.0"),
        ({"stop_at_return": math.nan}, "stop_at_return must be a finite number, got nan"),
    ],
)
def test_bad_settings_are_rejected(changes, sentence):
    with pytest.raises(InputError, match=sentence):
        replace(pureward.RunConfig(), **changes)


def test_a_guided_run_resumes_bit_for_bit(tmp_path):
    quiet = ExplorationConfig(low=0.0, high=0.0)
    whole = tiny(tmp_path / "whole", task="stack", guided=0.5, env_steps=640, worlds=4)
    whole = replace(whole, warmup_steps=480, evaluate_every=0, evaluate_episodes=1)
    whole = replace(whole, exploration=quiet, checkpoint_every=320, keep_checkpoints=9)
    pureward.train(whole)
    rewards = weights(tmp_path / "whole")["learner/replay/reward"]
    assert rewards.max() > 0.4, "random actions do not lift a block"
    shutil.copytree(tmp_path / "whole", tmp_path / "halves")
    shutil.rmtree(tmp_path / "halves/checkpoints/step-000000000640")
    pureward.train(replace(whole, out=str(tmp_path / "halves")), resume=True)
    ours, theirs = weights(tmp_path / "whole"), weights(tmp_path / "halves")
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_the_command_line_trains_evaluates_and_shows(tmp_path, capsys):
    run = str(tmp_path / "run")
    main(
        f"expert reach --out {run} --env-steps 160 --worlds 8 --batch 8 --warmup-steps 16 "
        "--agent.atoms 11 --evaluate-episodes 2 --device cpu".split()
    )
    out = capsys.readouterr().out
    assert "finished after 160 env steps" in out
    assert "greedy return" in out
    main(["evaluate", run, "--episodes", "3", "--device", "cpu"])
    assert "at 160 env steps: greedy return" in capsys.readouterr().out
    main(["show", "reach", "--out", str(tmp_path), "--steps", "5", "--policy", run])
    assert "mean return" in capsys.readouterr().out
    main(["expert", "reach", "--out", run, "--env-steps", "240", "--resume"])
    assert "finished after 240 env steps" in capsys.readouterr().out


def test_a_task_after_the_options_is_rejected(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["expert", "--out", str(tmp_path / "run"), "reach"])
    assert stop.value.code == 2
    assert "the task comes before all options" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_command_line_rejects_bad_input(tmp_path, capsys):
    for arguments, sentence in (
        (["expert", "swim"], "unknown task 'swim'; choose from"),
        (["evaluate", str(tmp_path)], "is not a run: it has no config.json"),
        (["expert", "reach", "--resume", "--out", str(tmp_path)], "no run to resume; leave out"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 2
        assert sentence in capsys.readouterr().err


def test_videos_are_written_on_request(tmp_path):
    run = tmp_path / "run"
    pureward.train(tiny(run, env_steps=40, videos=True))
    assert [path.name for path in (run / "videos").iterdir()] == ["step-000000000040.mp4"]


def test_deleted_metrics_stop_a_live_run(tmp_path, monkeypatch):
    run, write, count = tmp_path / "run", checkpoint.write, iter(range(10**9))

    def deletes(folder, *args):
        path = write(folder, *args)
        if next(count) == 2:
            (run / "metrics.jsonl").unlink()
        return path

    monkeypatch.setattr(checkpoint, "write", deletes)
    with pytest.raises(FileNotFoundError, match=r"metrics.jsonl was moved or deleted; bring it"):
        pureward.train(tiny(run))
    monkeypatch.undo()
    assert pureward.train(tiny(run), resume=True).state == "finished"
    assert metrics(run)[-1]["step"] == 480


def test_the_best_checkpoint_survives_a_kill_right_after_it_was_written(tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    def kill(*_):
        raise Killed

    run = tmp_path / "run"
    often = {"evaluate_every": 80, "keep_checkpoints": 1, "env_steps": 80}
    monkeypatch.setattr(checkpoint, "prune", kill)
    with pytest.raises(Killed):
        pureward.train(tiny(run, **often, warmup_steps=0))
    monkeypatch.undo()
    pureward.train(tiny(run, **often, warmup_steps=0), resume=True)
    assert checkpoint.best(run / "checkpoints") is not None


def test_a_lock_that_is_a_link_is_not_written_to(tmp_path, capsys):
    victim, run = tmp_path / "victim", tmp_path / "run"
    victim.write_text("precious")
    run.mkdir()
    (run / "lock").symlink_to(victim)
    with pytest.raises(SystemExit) as stop:
        main(["expert", "reach", "--out", str(run), "--env-steps", "32"])
    assert stop.value.code == 2
    assert "lock is a link" in capsys.readouterr().err
    assert victim.read_text() == "precious"
