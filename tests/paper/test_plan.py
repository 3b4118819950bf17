"""Plans, budgets and estimates, with numbers computed by hand."""

import math
import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from pureward.data.replay.replay import Replay
from pureward.distributed.jobs import make_executor
from pureward.distributed.processes import LocalProcesses, local_executor
from pureward.distributed.training import Training, wall_seconds
from pureward.envs import make
from pureward.errors import InputError
from pureward.paper.estimate import dry_run, mps_runs, replay_bytes
from pureward.paper.figures import FIGURES
from pureward.paper.plan import make_plan
from pureward.paper.sweep import Budget, carry_out
from pureward.runs.config import RunConfig
from pureward.runs.config_file import flat, to_json
from pureward.runs.directory import RunDirectory
from pureward.training.presets import preset
from small import written_plan

DATASETS = Path(__file__).parents[2] / "datasets"


def plan(name: str, tmp_path, **rest):
    settings = {"tasks": ("reach",), "seeds": 1, "device": "cpu"} | rest
    return make_plan(FIGURES[name], out=tmp_path, **settings)


def test_figures_share_runs_with_the_same_settings(tmp_path):
    """nn-purl's own η is 0.5 on lift, so the sweep's middle is the supervised figure's run."""
    supervised = {step.out for step in plan("supervised", tmp_path, tasks=("lift",)).steps}
    sweep = plan("supervised-prior", tmp_path, tasks=("lift",))
    shared = supervised & {step.out for step in sweep.steps}
    assert {path.relative_to(tmp_path / "lift").as_posix() for path in shared} == {
        "expert",
        "demonstrations",
        "annotations",
        "prl/seed-0",
        "pnrl/seed-0",
        "nn-purl/seed-0",
    }
    assert (tmp_path / "lift" / "nn-purl-prior-0.9" / "seed-0") in dict.fromkeys(
        path for paths in sweep.runs.values() for path in paths
    )


def test_existing_data_needs_no_expert(tmp_path):
    (tmp_path / "lift").symlink_to(DATASETS / "lift")
    steps = plan("supervised", tmp_path, tasks=("lift",)).steps
    assert [step.out.name for step in steps if step.finished()] == ["demonstrations", "annotations"]
    assert "expert" not in [step.out.name for step in steps]


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("task", ["walker", "lift", "stack"])
def test_every_figure_can_be_planned_for_every_task(name, task, tmp_path):
    figure = FIGURES[name]
    if name == "domain-gap" and task == "walker":
        with pytest.raises(InputError, match="has no distractors"):
            plan(name, tmp_path, tasks=(task,))
    else:
        made = plan(name, tmp_path, tasks=(task,), seeds=2)
        assert len(made.runs) == len(figure.variants)
        assert {len(paths) for paths in made.runs.values()} == {2}


def test_task_named_twice_is_planned_once(tmp_path):
    once, twice = (plan("overfitting", tmp_path, tasks=("reach",) * n) for n in (1, 2))
    assert twice == once


def test_variant_settings_exist_in_run_config():
    named = {key for figure in FIGURES.values() for v in figure.variants for key in v.settings}
    assert named <= set(flat(to_json(RunConfig())))


def test_sweep_of_priors_uses_the_papers_risk(tmp_path):
    made = plan("imitation-prior", tmp_path, tasks=("lift",))
    runs = [step.config for step in made.steps if isinstance(step, Training) and step.after]
    assert [run.prior for run in runs] == ["0.1", "0.3", "0.5", "0.7", "0.9"]
    assert not any(run.reward.even for run in runs)
    assert preset("lift", method="nn-pugail", demonstrations="FOLDER").reward.even
    assert runs[0].out == str(tmp_path / "lift/nn-pugail-prior-0.1-even-False/seed-0")


def test_every_task_of_a_figure_has_claims():
    for figure in FIGURES.values():
        assert {task for claim in figure.claims for task in claim.tasks} <= set(figure.tasks)
        assert all(figure.claims_for(task) for task in figure.tasks)


def step(name: str, *after: str) -> SimpleNamespace:
    return SimpleNamespace(out=name, after=after)


RUNS = [step(str(n), "demonstrations") for n in range(6)]


def test_budget_is_divided_evenly():
    clock = [0.0]
    expert, runs = step("expert"), RUNS[:4]
    budget = Budget(100.0, [expert, *runs], 2, now=lambda: clock[0])
    assert budget.turn(expert) == 50.0
    clock[0] = 20.0
    assert [budget.turn(run) for run in runs[:2]] == [32.0, 40.0 * 0.8]  # 80 s in two rounds
    clock[0] = 60.0
    assert budget.turn(runs[2]) == 32.0  # 40 s are left, but all runs get the same
    clock[0] = 95.0
    assert budget.turn(runs[3]) == 5.0
    assert Budget(1000.0, RUNS[:1], 1, now=lambda: 0.0).turn(RUNS[0]) == 940.0


def test_experts_share_half_of_a_budget():
    clock = [0.0]
    experts = [step(task) for task in ("walker", "lift", "stack")]
    budget = Budget(60.0, [*experts, *RUNS], 1, now=lambda: clock[0])
    assert budget.turn(experts[0]) == 10.0
    clock[0] = 4.0  # it finished early
    assert budget.turn(experts[1]) == 13.0
    clock[0] = 17.0
    assert budget.turn(experts[2]) == 13.0


def test_run_that_starts_again_has_one_turn():
    budget = Budget(4_000.0, RUNS[:4], 2, now=lambda: 0.0)
    first, second, third, fourth = RUNS[:4]
    assert [budget.turn(first), budget.turn(second)] == [1940.0, 1940.0]
    budget.at_once = 1  # the second was out of memory
    assert [budget.turn(run) for run in (second, third, fourth)] == [4000 / 3, 1940.0, 1940.0]


def test_no_budget_sets_no_limit():
    budget = Budget(math.inf, RUNS, 2)
    assert [budget.turn(run) for run in RUNS[:2]] == [math.inf, math.inf]
    assert not budget.over()


def test_invalid_budgets_and_counts_raise(tmp_path):
    made = plan("overfitting", tmp_path)
    for budget in (-1.0, math.nan):
        with pytest.raises(InputError, match="budget must be a number of minutes"):
            carry_out(made, LocalProcesses(places=(None,)), budget_minutes=budget)
    for count in (-1, 0.5):
        with pytest.raises(InputError, match="at-once must be a whole number, at least 0, got"):
            make_executor("local", device="cpu", at_once=count)


def test_processes_share_the_cores(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    default, two = local_executor(device="cpu"), local_executor(device="cpu", at_once=2)
    assert (default.at_once, default.threads) == (8, 1)
    assert (two.at_once, two.threads) == (2, 4)


def test_replay_bytes_match_the_replay():
    config = preset("reach", method="gail", demonstrations="data")
    env = make("reach", 2, "cpu", cameras=True)
    replay = Replay(
        config.replay,
        worlds=config.worlds,
        horizon=env.horizon,
        state_size=env.state_size,
        action_size=env.action_size,
        frame_shape=env.frame_shape,
    )
    assert replay_bytes(config) == replay.layout.bytes


@pytest.fixture
def speeds(monkeypatch):
    """Env steps per second by task and method, in place of those of finished runs."""
    known: dict[tuple[str, str], float] = {}
    monkeypatch.setattr("pureward.paper.estimate._speeds", lambda *_: known)
    return known


def times(made, at_once: int = 1) -> list[str]:
    """The last column of each step."""
    lines = dry_run(made, at_once, "cpu").splitlines()
    return [re.split(r"  +", line)[-1] for line in lines[1 : len(made.steps) + 1]]


def test_time_is_known_for_methods_with_a_speed(tmp_path, speeds):
    made = plan("overfitting", tmp_path)
    speeds |= {("reach", "gail"): 30.0, ("reach", "nn-pugail"): 30.0}
    assert times(made) == ["unknown", "–", "3 min", "3 min"]  # 4,800 steps each
    listed = dry_run(made, 2, "cpu")
    assert "4 of 4 steps are left: 3 min with 2 at once" in listed
    assert "1 of them of unknown length" in listed
    assert "MPS" not in listed


def test_total_time_respects_the_order_of_steps(tmp_path, speeds):
    made = plan("overfitting", tmp_path)
    expert = made.steps[0]
    assert isinstance(expert, Training)
    speeds |= {("reach", "truth"): expert.config.env_steps / 36}
    speeds |= {("reach", "gail"): 480.0, ("reach", "nn-pugail"): 480.0}
    assert times(made) == ["36 s", "–", "10 s", "10 s"]
    assert "4 steps are left: 46 s with 12 at once" in dry_run(made, 12, "cpu")
    assert "4 steps are left: 56 s with 1 at once" in dry_run(made, 1, "cpu")


def test_stopped_run_takes_the_rest_of_its_time(tmp_path, speeds):
    made = plan("overfitting", tmp_path)
    speeds |= {("reach", "gail"): 60.0, ("reach", "nn-pugail"): 60.0}
    RunDirectory(made.steps[2].out).write_status("interrupted", env_steps=1200)
    RunDirectory(made.steps[3].out).write_status("interrupted", env_steps="many")
    assert times(made)[2:] == ["60 s", "80 s"]


def test_replays_that_do_not_fit_are_told_with_the_number_that_does(tmp_path, monkeypatch):
    made = plan("overfitting", tmp_path)
    one = max(replay_bytes(step.config) for step in made.steps if isinstance(step, Training))
    free = "pureward.paper.estimate.claimable_bytes"
    for room, told in (
        (one - 1, "use a machine with more"),
        (one, "pass --at-once 1"),
        (9 * one, ""),
    ):
        monkeypatch.setattr(free, lambda _, room=room: room)
        last = dry_run(made, 2, "cpu").splitlines()[-1]
        assert last.endswith(f"to spare, so they do not fit: {told}" if told else "to spare")


def test_nothing_is_left_of_a_finished_plan(tmp_path):
    assert "0 of 3 steps are left\n" in dry_run(written_plan(tmp_path), 2, "cpu")


@pytest.mark.parametrize(("machine", "known"), [("NVIDIA H200", False), (None, True)])
def test_speed_is_that_of_runs_on_the_same_machine(tmp_path, machine, known):
    made = written_plan(tmp_path, seeds=2)
    first, second = (RunDirectory(out) for out in made.runs["reach", "gail"])
    (first.path / "work.json").write_text('{"wall_seconds": 9.0}')
    made_with = {} if machine is None else {"made_with": {"machine": machine}}
    first.write_status("finished", env_steps=1000, **made_with)
    second.status.unlink()
    (time,) = (time for time in times(made) if time != "done")
    assert (time != "unknown") == known


@pytest.mark.parametrize("metrics", [None, "", "{"])
def test_run_without_metrics_has_no_speed(tmp_path, metrics):
    made = written_plan(tmp_path, seeds=2)
    for out in made.runs["reach", "gail"]:
        (out / "work.json").write_text('{"wall_seconds": 9.0}')
        (out / "metrics.jsonl").unlink()
        if metrics is not None:
            (out / "metrics.jsonl").write_text(metrics)
    (made.runs["reach", "gail"][1] / "status.json").unlink()
    assert [time for time in times(made) if time != "done"] == ["unknown"]


@pytest.mark.parametrize("seconds", ['"long"', "null", "-3", "NaN"])
def test_invalid_wall_seconds_count_as_not_measured(tmp_path, seconds):
    (tmp_path / "work.json").write_text(f'{{"wall_seconds": {seconds}}}')
    assert wall_seconds(tmp_path) == 0.0


def test_mps_is_found_by_its_pid_file(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    assert not mps_runs()
    (tmp_path / "nvidia-cuda-mps-control.pid").write_text(f"{os.getpid()}\n")
    assert mps_runs()
    (tmp_path / "nvidia-cuda-mps-control.pid").write_text("999999999")
    assert not mps_runs()
