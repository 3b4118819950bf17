"""Runs of every learned method: training, resuming, data checks; the true reward is not used."""

import json
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

import pureward
from pureward.data.dataset import read_dataset
from pureward.data.replay.replay import ReplayConfig
from pureward.data.writing import write_episodes
from pureward.envs.tasks import TASKS
from pureward.errors import InputError, TrainingError
from pureward.purl import Purl
from pureward.runs import checkpoint
from pureward.runs.collect import collect
from pureward.runs.directory import RunDirectory
from pureward.runs.log import read_metrics
from pureward.training import run as training_run
from pureward.training import supervision
from pureward.training.learner import Learner
from pureward.training.stopping import StopSignal
from tiny import SMALL, SMALL_REWARD, tiny

LEARNED = [name for name, method in pureward.METHODS.items() if method.reward != "truth"]

REWARD = replace(SMALL_REWARD, memory=20)


pytestmark = pytest.mark.usefixtures("short_episodes")


@pytest.fixture(scope="module")
def policy(tmp_path_factory) -> Path:
    """A short run; its policy need not be good."""
    run = tmp_path_factory.mktemp("policy") / "run"
    pureward.train(tiny(run, env_steps=80))
    return run


@pytest.fixture(scope="module")
def data(policy, tmp_path_factory) -> Path:
    return collected(policy, tmp_path_factory.mktemp("data"), 1)


@pytest.fixture(scope="module")
def more(policy, tmp_path_factory) -> Path:
    """Enough held-out episodes to estimate η."""
    return collected(policy, tmp_path_factory.mktemp("more"), 6)


def collected(policy: Path, folder: Path, held_out: int) -> Path:
    """A dataset of two episodes to learn from, so many held out and one failure."""
    how_many = {"episodes": 2, "held_out": held_out, "failures": 1}
    collect("reach", policy, folder / "set", **how_many, frames=True, device="cpu")
    return folder / "set"


def learned(out: Path, method: str, data: Path, **changes) -> pureward.RunConfig:
    """A run on a learned reward that takes a second."""
    needs = pureward.METHODS[method].positives
    assert needs is not None
    settings = {
        "method": method,
        "env_steps": 48,
        "warmup_steps": 16,
        "evaluate_every": 0,
        "evaluate_episodes": 1,
        "log_every": 24,
        "probe_every": 24,
        "probe_frames": 4,
        "save_replay": False,
        "agent": SMALL,
        "replay": ReplayConfig(capacity=400, frame_stack=2),
        "reward": REWARD,
        needs: str(data),
    }
    return tiny(out, **(settings | changes))


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory) -> Callable[[str], pureward.RunConfig]:
    """Trains a run of a method once, with its replay in its checkpoints."""

    @cache
    def train(method: str) -> pureward.RunConfig:
        run = tmp_path_factory.mktemp(method) / "run"
        config = learned(run, method, data, save_replay=True)
        assert pureward.train(config).state == "finished"
        return config

    return train


def subset(data: Path, folder: Path, *, held_out: int, failures: int = 1) -> Path:
    """A copy of a dataset with fewer held-out episodes and failures."""
    episodes = read_dataset(data).episodes
    left = {"held-out": held_out, "failure": failures}
    kept = []
    for episode in episodes:
        left[episode.split] = left.get(episode.split, len(episodes)) - 1
        kept += [episode] if left[episode.split] >= 0 else []
    write_episodes(folder, kept, task="reach")
    return folder


def weights(run: Path) -> dict[str, torch.Tensor]:
    newest = checkpoint.read_newest(run / "checkpoints")
    assert newest is not None
    return newest.tensors


@pytest.mark.parametrize("method", LEARNED)
def test_every_method_trains_probes_and_saves_its_reward(method, trained):
    run = Path(trained(method).out)
    row = pureward.METHODS[method]
    last = read_metrics(run / "metrics.jsonl", "train")[-1]
    assert ("risk/violated" in last) == row.has_discriminator == ("prior" in last)
    assert {"reward/mean", "reward/saturated", "reward/open"} <= last.keys()
    probed = read_metrics(run / "metrics.jsonl", "probe")[-1]
    kind = "success" if row.has_discriminator else "predicted"
    assert {f"{kind}/{name}" for name in ("train", "held_out", "failure", "replay")} <= set(probed)
    evaluated = read_metrics(run / "metrics.jsonl", "eval")[-1]
    assert ("reward_error" in evaluated) == row.has_reward_model
    assert len(read_metrics(run / "metrics.jsonl", "fit")) == row.members * row.has_reward_model
    reward = pureward.load_reward(run)
    frames = torch.randint(0, 256, (3, 6, 64, 64), dtype=torch.uint8)
    assert reward(frames).isfinite().all()


@pytest.mark.parametrize("method", ["nn-pugail", "nn-purl"])
def test_the_true_reward_never_reaches_a_learned_method(
    method, trained, data, tmp_path, monkeypatch
):
    honest = Path(trained(method).out)
    poison = replace(TASKS["reach"], reward=lambda state: torch.full((len(state.qpos),), 1e9))
    monkeypatch.setitem(TASKS, "reach", poison)
    pureward.train(learned(tmp_path / "poisoned", method, data))
    assert read_metrics(tmp_path / "poisoned/metrics.jsonl", "eval")[-1]["return"] > 1e9
    ours, theirs = weights(honest), weights(tmp_path / "poisoned")
    trained = [name for name in ours if name.startswith(("learner/agent/", "learner/reward/"))]
    assert len(trained) > 20
    assert all(torch.equal(ours[name], theirs[name]) for name in trained)


@pytest.mark.parametrize("prior", ["0.5", "bbe"])
def test_successes_reach_the_log_and_nothing_else(prior, more, tmp_path, monkeypatch):
    shares = {}
    for name, answer in (("never", False), ("always", True)):
        changed = replace(TASKS["reach"], success=lambda s, a=answer: torch.full((len(s.qpos),), a))
        monkeypatch.setitem(TASKS, "reach", changed)
        pureward.train(learned(tmp_path / name, "nn-pugail", more, prior=prior, worlds=8))
        rows = read_metrics(tmp_path / name / "metrics.jsonl", "train")
        shares[name] = [row.pop("true_success") for row in rows]
        probed = read_metrics(tmp_path / name / "metrics.jsonl", "probe")[-1]
        assert ("success/solved" in probed) == answer
    assert shares == {"never": [0.0] * len(rows), "always": [1.0] * len(rows)}
    ours, theirs = weights(tmp_path / "never"), weights(tmp_path / "always")
    learner = [name for name in ours if name.startswith("learner/")]
    assert [name for name in learner if not torch.equal(ours[name], theirs[name])] == []


def test_the_true_reward_reaches_the_method_truth(tmp_path, monkeypatch):
    poison = replace(TASKS["reach"], reward=lambda state: torch.full((len(state.qpos),), torch.nan))
    monkeypatch.setitem(TASKS, "reach", poison)
    with pytest.raises(pureward.TrainingError, match="is not finite"):
        pureward.train(tiny(tmp_path / "run", env_steps=80))


@pytest.mark.parametrize("method", ["nn-pugail", "nn-purl"])
def test_a_resumed_run_is_the_same_bit_for_bit(method, trained, tmp_path):
    # η is fixed: a schedule depends on the number of env steps.
    config = trained(method)
    whole = Path(config.out)
    parts = replace(config, out=str(tmp_path / "parts"))
    pureward.train(replace(parts, env_steps=28))
    cut = tmp_path / "parts/metrics.jsonl"
    pureward.train(parts, resume=True)
    one, two = weights(whole), weights(tmp_path / "parts")
    assert one.keys() == two.keys()
    assert [n for n in one if not torch.equal(one[n], two[n])] == []
    wanted = read_metrics(whole / "metrics.jsonl", "train")[-1]
    found = read_metrics(cut, "train")[-1]
    assert {**found, "seconds": 0} == {**wanted, "seconds": 0}


def probed(run: Path) -> list[int]:
    """The steps of a run's probes."""
    return [row["step"] for row in read_metrics(run / "metrics.jsonl", "probe")]


@pytest.mark.parametrize(("every", "steps"), [(24, [24, 48]), (1_000, [48]), (0, [])])
def test_a_run_is_probed_at_its_end_once(every, steps, data, tmp_path):
    config = learned(tmp_path / "run", "gail", data, probe_every=every)
    pureward.train(config)
    assert probed(tmp_path / "run") == steps
    pureward.train(config, resume=True)
    assert probed(tmp_path / "run") == steps


def test_the_discriminator_learns_before_the_policy_does(data, tmp_path):
    often = {"checkpoint_every": 24, "keep_checkpoints": 9}
    pureward.train(learned(tmp_path / "run", "nn-pugail", data, warmup_steps=100, **often))
    less, more = (
        checkpoint.read(tmp_path / f"run/checkpoints/step-{step:012}").tensors for step in (24, 48)
    )
    moved = {name for name in more if not torch.equal(less[name], more[name])}
    assert any(name.startswith("learner/reward/trained.") for name in moved)
    assert not any(name.startswith("learner/agent/") for name in moved)


def test_beside_the_policy_d_learns_on_the_same_frames_and_then_scores_are_refreshed(
    data, tmp_path, monkeypatch
):
    """On CUDA, D's updates are on a stream of their own; a CPU makes the same calls in order."""
    config = learned(tmp_path, "nn-pugail", data, reward=replace(REWARD, batch=12))
    calls = []

    class Beside:
        def __enter__(self):
            calls.append("beside")

        def __exit__(self, *error):
            calls.append("here")

        def wait(self):
            calls.append("wait")

    with config.make_env(config.worlds, cameras=True) as env:
        learner = Learner(config, env)
        learner._beside = Beside()  # type: ignore[assignment]
        for name in ("update_discriminator", "update_policy", "refresh_scores"):
            monkeypatch.setattr(learner, name, lambda name=name: calls.append(name))
        obs = env.reset()
        for _ in range(12 // env.worlds):
            calls.clear()
            action = learner.act(obs.state)
            step = env.step(action)
            learner.add(obs, action, step)
            learner.learn()
            if len(learner.replay) < 12:
                assert calls == ["update_policy"], "D waits for a batch"
            obs = step.obs
    before = ["beside", "update_discriminator", "here", "update_policy"]
    assert calls == [*before, "wait", "refresh_scores"]


def test_fresh_and_cached_labels_agree_while_the_discriminator_does_not_change(data, tmp_path):
    still = replace(REWARD, learning_rate=1e-30)
    for labels in ("fresh", "cached"):
        reward = replace(still, labels=labels)
        short = {"env_steps": 24, "warmup_steps": 8}
        pureward.train(learned(tmp_path / labels, "nn-purl", data, reward=reward, **short))
    fresh, cached = (
        read_metrics(tmp_path / labels / "metrics.jsonl", "train")[-1]
        for labels in ("fresh", "cached")
    )
    for name in ("reward/mean", "reward/open", "critic/loss", "critic/value"):
        assert fresh[name] == pytest.approx(cached[name], rel=1e-4)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"demonstrations": ""}, "method 'nn-pugail' needs demonstrations, got ''; pass --demon"),
        ({"annotations": "x"}, "'nn-pugail' takes no annotations, got 'x'; leave --annotations"),
        ({"reward": {"ceiling": 3.0}}, "reach 300 at γ = 0.99, and the critic ends at 100; set"),
        ({"prior": "1.5"}, r"inside \(0, 1\), got 1.5"),
        ({"reward": {"batch": 0}}, "batch must be at least 1, got 0"),
        ({"reward": {"labels": "old"}}, "'fresh' or 'cached'"),
        ({"reward": {"slack": -1.0}}, "slack must be at least 0, got -1.0"),
        ({"reward": {"loss": "hinge"}}, "unknown loss 'hinge'"),
        ({"prior": "1e-300"}, "prior '1e-300' must keep η at least 1e-06 from 0 and 1, got 1e-300"),
        ({"prior": "bbe:1e-300:0.9"}, "at least 1e-06 from 0 and 1"),
        ({"reward": {"memory": -1}}, "memory must be at least 0, got -1"),
    ],
)
def test_bad_settings_are_rejected(changes, sentence, data, tmp_path):
    with pytest.raises(InputError, match=sentence):
        if "reward" in changes:
            changes = {"reward": replace(REWARD, **changes["reward"])}
        learned(tmp_path, "nn-pugail", data, **changes)


def test_a_run_whose_data_is_missing_can_be_started_again(data, tmp_path):
    run = tmp_path / "run"
    with pytest.raises(InputError, match="nowhere is not a dataset"):
        pureward.train(learned(run, "nn-pugail", tmp_path / "nowhere"))
    assert json.loads((run / "status.json").read_text())["state"] == "failed"
    assert pureward.train(learned(run, "nn-pugail", data, env_steps=24)).state == "finished"


@pytest.mark.parametrize("missing", ["demonstrations", "failures"])
def test_missing_data_is_reported_before_environments_are_built(
    missing, data, tmp_path, monkeypatch
):
    monkeypatch.delattr(pureward.RunConfig, "make_env")
    risk = replace(REWARD, risk="nnpnu" if missing == "failures" else "")
    absent = {missing: str(tmp_path / "nowhere")}
    config = learned(tmp_path / "run", "nn-pugail", data, reward=risk, **absent)
    with pytest.raises(InputError, match="nowhere is not a dataset"):
        pureward.train(config)


def test_a_reward_model_is_fitted_once(trained, tmp_path, monkeypatch):
    """Also if the run is stopped after its first checkpoint."""
    whole = trained("nn-purl")
    cut = replace(whole, out=str(tmp_path / "cut"))

    def full(self, over):
        raise OSError("no space left")

    with monkeypatch.context() as spoiled, pytest.raises(OSError, match="no space left"):
        spoiled.setattr(training_run.Run, "step", full)
        pureward.train(cut)
    pureward.train(cut, resume=True)
    fits = [read_metrics(Path(run.out) / "metrics.jsonl", "fit") for run in (whole, cut)]
    assert fits[0] == fits[1]
    ends = [weights(Path(run.out)) for run in (whole, cut)]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_a_run_stopped_during_the_fit_fits_again(data, tmp_path, monkeypatch):
    config = learned(tmp_path / "run", "prl", data, env_steps=24)
    model = replace(config.reward.model, epochs=3)
    config = replace(config, reward=replace(config.reward, model=model))
    with monkeypatch.context() as stopping:
        stopping.setattr(
            StopSignal, "__enter__", lambda self: setattr(self, "requested", True) or self
        )
        assert pureward.train(config).state == "interrupted"
    run = tmp_path / "run"
    assert len(read_metrics(run / "metrics.jsonl", "fit")) == 1
    assert checkpoint.read_newest(run / "checkpoints") is None
    assert pureward.train(config, resume=True).state == "finished"
    assert len(read_metrics(run / "metrics.jsonl", "fit")) == 3


def test_data_may_be_moved_before_a_resume(data, tmp_path):
    config = learned(tmp_path / "run", "nn-pugail", data, env_steps=24)
    pureward.train(config)
    moved = tmp_path / "moved"
    shutil.copytree(data, moved)
    again = replace(config, demonstrations=str(moved), env_steps=28)
    assert pureward.train(again, resume=True).state == "finished"


def test_jpeg_frames_give_a_warning(data, tmp_path, monkeypatch, capsys):
    honest = supervision.read_dataset
    lossy = lambda *args, **options: replace(honest(*args, **options), lossy=True)  # noqa: E731
    monkeypatch.setattr(supervision, "read_dataset", lossy)
    pureward.train(learned(tmp_path / "run", "nn-pugail", data, env_steps=24))
    assert f"warning: frames of {data} were compressed with loss" in capsys.readouterr().out


def test_failures_for_probes_are_not_trained_on(data, tmp_path, monkeypatch):
    monkeypatch.delattr(pureward.RunConfig, "make_env")
    known = {"failures": str(data / "data"), "reward": replace(REWARD, risk="nnpnu")}
    config = learned(tmp_path / "run", "nn-pugail", data, **known)
    with pytest.raises(InputError, match="known failures must come from a dataset of their own"):
        pureward.train(config)


def test_an_estimate_from_failures_needs_failures_for_probes(data, more, tmp_path):
    bare = subset(more, tmp_path / "bare", held_out=5, failures=0)
    known = {"failures": str(data), "reward": replace(REWARD, risk="nnpnu")}
    config = learned(tmp_path / "run", "nn-pugail", bare, **known, prior="acc")
    with pytest.raises(InputError, match="at least 5 failed episodes, and the positives have 0; c"):
        pureward.train(config)


def test_a_nan_risk_is_reported_with_its_update(data, tmp_path, monkeypatch):
    config = learned(tmp_path / "run", "nn-pugail", data)
    config = replace(config, reward=replace(config.reward, updates=4))
    honest, count = Purl.discriminate, iter(range(1, 10**9))

    def spoiled(self, updates):
        rows = []
        for row in honest(self, updates):
            bad = float("nan") if next(count) == 6 else 1.0
            rows.append({name: value * bad for name, value in row.items()})
        return rows

    monkeypatch.setattr(Purl, "discriminate", spoiled)
    with pytest.raises(TrainingError, match="not finite since update 6;"):
        pureward.train(config)


def test_data_of_another_task_is_rejected(policy, tmp_path):
    bare = tmp_path / "bare"
    collect("reach", policy, bare, episodes=1, held_out=0, failures=0, device="cpu")
    config = replace(learned(tmp_path / "run", "nn-pugail", bare), task="walker")
    with pytest.raises(InputError, match="own task, 'walker', and .*bare is of 'reach'"):
        pureward.train(config)


@pytest.mark.parametrize("held_out", [0, 4])
def test_an_estimated_prior_needs_held_out_episodes(held_out, more, tmp_path):
    few = subset(more, tmp_path / "few", held_out=held_out)
    sentence = f"at least 5 held-out episodes, and the positives have {held_out}; bring"
    with pytest.raises(InputError, match=sentence):
        pureward.train(learned(tmp_path / "run", "nn-pugail", few, prior="bbe"))
    assert not (tmp_path / "run/metrics.jsonl").exists(), "nothing was trained"


def test_an_estimated_prior_waits_for_enough_episodes_of_the_agent(more, tmp_path):
    two_each = {"worlds": 2, "env_steps": 24}
    pureward.train(learned(tmp_path / "run", "nn-pugail", more, prior="bbe", **two_each))
    last = read_metrics(tmp_path / "run/metrics.jsonl", "train")[-1]
    assert last["prior"] == 0.1
    assert "prior/value" not in last


def test_an_estimated_prior_does_not_wait_for_more_steps_than_the_replay_holds(more, tmp_path):
    small = {"replay": ReplayConfig(capacity=12), "worlds": 6, "batch": 12}
    pureward.train(learned(tmp_path / "run", "nn-pugail", more, prior="bbe", **small))
    assert "prior/value" in read_metrics(tmp_path / "run/metrics.jsonl", "train")[-1]


def test_the_discriminator_learns_from_a_replay_smaller_than_its_batch(data, tmp_path):
    small = {"replay": ReplayConfig(capacity=15), "worlds": 6, "batch": 12}
    config = learned(tmp_path / "run", "gail", data, reward=replace(REWARD, batch=16), **small)
    pureward.train(config)
    assert "risk/value" in read_metrics(tmp_path / "run/metrics.jsonl", "train")[-1]


def test_an_estimated_prior_is_logged_with_its_interval(more, tmp_path):
    pureward.train(learned(tmp_path / "run", "nn-pugail", more, prior="bbe", worlds=8))
    last = read_metrics(tmp_path / "run/metrics.jsonl", "train")[-1]
    assert 0 < last["prior"] < 1
    assert last["prior/low"] <= last["prior/value"] <= last["prior/high"]


@pytest.fixture(scope="module")
def half_done(data, tmp_path_factory) -> pureward.RunConfig:
    """A run that has made half of its steps."""
    run = tmp_path_factory.mktemp("half") / "run"
    config = learned(run, "nn-pugail", data, save_replay=True)
    pureward.train(replace(config, env_steps=24))
    return config


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("labels.filled", -1),
        ("labels.filled", 10**6),
        ("labels.next", -1),
        ("labels.next", 10**6),
        ("memory.offered", -1),
    ],
)
def test_damaged_scores_and_memory_are_rejected(name, value, half_done):
    config, directory = half_done, RunDirectory(Path(half_done.out))
    saved = checkpoint.read_newest(directory.checkpoints)
    saved.tensors[f"learner/remembered/{name}"].fill_(value)
    with pytest.raises(InputError, match=f"is damaged .*{name} must lie in .*has {value}"):
        training_run.Run(config, directory, saved, ExitStack())


def test_a_run_that_does_not_save_its_replay_keeps_a_part_of_the_memory(data, tmp_path):
    """With an empty memory D would forget failures, and the policy with it."""
    config = learned(tmp_path / "run", "nn-pugail", data)
    pureward.train(replace(config, env_steps=24))
    directory = RunDirectory(tmp_path / "run")
    saved = checkpoint.read_newest(directory.checkpoints)
    with ExitStack() as stack:
        run = training_run.Run(config, directory, saved, stack)
        stack.enter_context(run.log)
        memory = run.learner.memory
        assert memory.tensors()["offered"] == saved.tensors["learner/thinned/offered"] > 0
        before = saved.tensors["learner/thinned/frames"].flatten(1).unique(dim=0)
        assert torch.equal(memory.thinned()["frames"].flatten(1).unique(dim=0), before)
        assert len(before) > 1


def test_an_estimated_prior_is_saved_in_float64(more, tmp_path, monkeypatch):
    """In float32 a resumed run would continue from another η."""
    # A network this small does not separate the classes, and η would not change.
    monkeypatch.setattr("pureward.rewards.priors.estimated.ENOUGH_AUC", -1.0)
    config = learned(
        tmp_path / "whole",
        "nn-pugail",
        more,
        prior="bbe",
        save_replay=True,
        worlds=6,
        replay=ReplayConfig(capacity=600, frame_stack=2),
        log_every=12,
    )
    pureward.train(config)
    parts = replace(config, out=str(tmp_path / "parts"))
    pureward.train(replace(parts, env_steps=27))
    eta = weights(tmp_path / "parts")["learner/reward/prior/own.value"]
    assert eta.dtype == torch.float64
    pureward.train(parts, resume=True)
    one, two = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert float(one["learner/reward/prior/own.value"]) != 0.1  # it was estimated
    assert [n for n in one if not torch.equal(one[n], two[n])] == []


def test_annotations_too_large_to_fit_stop_the_run(data, tmp_path, monkeypatch):
    honest = supervision.read_dataset

    def large(*args, **options):
        dataset = honest(*args, **options)
        episodes = [replace(e, rewards=e.rewards + 1e30) for e in dataset.episodes]
        return replace(dataset, episodes=episodes)

    monkeypatch.setattr(supervision, "read_dataset", large)
    run = tmp_path / "run"
    with pytest.raises(TrainingError, match=r"error is inf \(fit, step 0\)"):
        pureward.train(learned(run, "prl", data))
    assert "Infinity" not in (run / "metrics.jsonl").read_text()
    monkeypatch.undo()
    assert pureward.train(learned(run, "prl", data, env_steps=24)).state == "finished"


def test_a_run_that_fails_before_it_learns_can_be_corrected(data, tmp_path, monkeypatch):
    def refuse(self, updates):
        raise InputError("nothing can be learned")

    monkeypatch.setattr(Purl, "discriminate", refuse)
    run = tmp_path / "run"
    with pytest.raises(InputError, match="nothing can be learned"):
        pureward.train(learned(run, "nn-pugail", data))
    assert json.loads((run / "status.json").read_text())["state"] == "failed"
    monkeypatch.undo()
    other = learned(run, "nn-pugail", data, reward=replace(REWARD, batch=5), env_steps=24)
    assert pureward.train(other).state == "finished"
