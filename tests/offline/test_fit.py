"""A reward from demonstrations and logs: learned, saved, continued after a stop, refused."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from pictures import demonstrations, episode, logs

import pureward
from pureward.cli import main
from pureward.data.dataset import read_episodes
from pureward.data.episodes import annotated
from pureward.data.frames import FrameBank
from pureward.offline import fit as module
from pureward.offline import folder
from pureward.offline.fitter import FIT, Fitter, LoggedFrames, episode_means, held_out_logs
from pureward.offline.folder import FitFolder
from pureward.offline.sources import describe, failed, load
from pureward.offline.verdict import fit_verdict
from pureward.online.online_reward import DEFAULT_PRIOR
from pureward.online.supervision import Supervision, subset
from pureward.rewards.annotations import split_by_episode
from pureward.rewards.methods import METHODS
from pureward.rewards.network import NetworkConfig
from pureward.rewards.priors.estimators import auc
from pureward.rewards.view import View
from pureward.runs.log import read_metrics

TINY = replace(
    FIT,
    learning_rate=1e-2,
    batch=8,
    network=NetworkConfig(stage_channels=(4, 4), stage_blocks=0, dropout=0.0, view=View.off()),
    model=replace(FIT.model, learning_rate=1e-2, batch_size=16, epochs=6),
)

ENOUGH = (9, "episodes")  # held out


def fit(out, **changes):
    settings = {"demonstrations": demonstrations(), "updates": 20, "config": TINY, "device": "cpu"}
    return pureward.fit(logs(), out=out, **(settings | changes))


def rated(count, held_out=0):
    """Episodes with rewards, of which every second one succeeds."""
    splits = ["held-out"] * held_out + ["train"] * (count - held_out)
    return [episode(n, solved=n % 2 == 0, split=split) for n, split in enumerate(splits)]


@pytest.fixture(scope="module", autouse=True)
def _short():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder, "_ESTIMATE_EVERY", 5)
        patch.setattr(folder, "_AT_ONCE", 5)
        patch.setattr("pureward.online.prior._FRAMES", 64)
        patch.setattr("pureward.offline.fitter._PROBE_FRAMES", 16)
        yield


@pytest.fixture
def no_picture(monkeypatch):
    """Half of the time of a short fit is its picture."""
    monkeypatch.setattr("pureward.offline.folder.draw_fit", lambda *_: None)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory, _short):
    return fit(tmp_path_factory.mktemp("fit") / "reward", updates=100)


def test_successes_among_the_logs_are_rewarded_more_than_failures(fitted):
    frames, truth, _ = annotated(logs())
    rewards = fitted.reward()(frames)
    assert auc(rewards[truth > 0], rewards[truth == 0]) > 0.8


def test_the_folder_holds_reward_metrics_plot_and_verdict(fitted):
    assert (fitted.state, fitted.updates) == ("finished", 100)
    assert (fitted.path / "fit.png").read_bytes()[:4] == b"\x89PNG"
    rows = read_metrics(fitted.path / "metrics.jsonl")
    assert [row["step"] for row in rows if row["kind"] == "probe"] == list(range(0, 110, 10))
    assert 0 < rows[-2]["prior"] < 1
    assert "prior/value" in rows[-2]
    priors = [(row["step"], row["prior"]) for row in rows if row["kind"] == "train"]
    assert [step for step, _ in priors] == list(range(0, 105, 5))
    status = json.loads((fitted.path / "status.json").read_text())
    assert (status["state"], status["verdict"]) == ("finished", fitted.verdict.name)
    assert fitted.verdict.name == "healthy"
    assert "on held-out logs" in fitted.verdict.sentence
    last = [row for row in rows if row["kind"] == "probe"][-1]
    assert fitted.verdict.numbers["success/replay"] == last["success/replay"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory, _short):
    """A fit of 20 updates, without its picture."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pureward.offline.folder.draw_fit", lambda *_: None)
        return fit(tmp_path_factory.mktemp("whole"))


def test_a_stopped_fit_continues_to_the_same_weights(
    tmp_path, monkeypatch, no_picture, whole, capsys
):
    probe = module.Fitter.probe

    def stopped(self):
        stop.append(self)
        return probe(self)

    stop: list = []
    keep = FitFolder._keep
    monkeypatch.setattr(module.Fitter, "probe", stopped)

    def kept(self):
        self.stop.requested = len(stop) == 3
        return keep(self)

    monkeypatch.setattr(FitFolder, "_keep", kept)
    first = fit(tmp_path / "part")
    assert (first.state, first.updates, first.verdict) == ("interrupted", 8, None)
    monkeypatch.setattr(FitFolder, "_keep", keep)
    capsys.readouterr()
    pureward.load_reward(tmp_path / "part")
    told = f"warning: {tmp_path / 'part'} holds a fit that stopped after 8 of 20 updates; run the"
    assert told in capsys.readouterr().out
    second = fit(tmp_path / "part")
    assert (second.state, second.updates) == ("finished", 20)
    ours, theirs = (r.discriminator.state_dict() for r in (second.reward(), whole.reward()))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert "warning" not in capsys.readouterr().out
    steps = [row["step"] for row in read_metrics(tmp_path / "part/metrics.jsonl", "probe")]
    assert steps == [0, 4, 8, 12, 16, 20]


def test_a_fit_stopped_in_its_reward_model_begins_again(tmp_path, monkeypatch, no_picture):
    given = {"demonstrations": None, "annotations": rated(12), "method": "prl"}
    with monkeypatch.context() as stopping:
        stopping.setattr(
            module.StopSignal, "__enter__", lambda self: setattr(self, "requested", True) or self
        )
        assert fit(tmp_path, **given).state == "interrupted"
    assert read_metrics(tmp_path / "metrics.jsonl", "model") == []
    assert fit(tmp_path, **given).state == "finished"
    assert len(read_metrics(tmp_path / "metrics.jsonl", "model")) == 1


def test_a_finished_fit_is_not_repeated_and_goes_on_with_more_updates(tmp_path, no_picture, whole):
    shutil.copytree(whole.path, tmp_path, dirs_exist_ok=True)
    before = (tmp_path / "metrics.jsonl").read_bytes()
    assert fit(tmp_path).verdict is not None
    assert (tmp_path / "metrics.jsonl").read_bytes() == before
    assert fit(tmp_path, updates=25).updates == 25


def test_a_finished_fit_says_that_nothing_was_trained(tmp_path, no_picture, whole, capsys):
    shutil.copytree(whole.path, tmp_path, dirs_exist_ok=True)
    settings = json.loads((tmp_path / "config.json").read_text())
    del settings["data"]  # as the first fits were stored
    (tmp_path / "config.json").write_text(json.dumps(settings))
    fit(tmp_path)
    told = "this fit had finished after 20 updates, so nothing was trained"
    assert told in capsys.readouterr().out
    with pytest.raises(pureward.InputError, match="episodes of demonstrations"):
        fit(tmp_path, demonstrations=demonstrations()[::-1])


def test_a_fit_to_other_episodes_of_the_same_path_is_refused(tmp_path, no_picture):
    source = tmp_path / "logs"
    source.mkdir()

    def write(number, seed):
        frames = episode(seed, solved=True, side=64).frames
        np.save(source / f"{number}.npy", frames.permute(0, 2, 3, 1).numpy())

    def fitted():
        positives = [episode(n, solved=True, side=64) for n in range(3)]
        given = {"demonstrations": positives, "prior": 0.5, "updates": 2}
        return pureward.fit(source, out=tmp_path / "out", config=TINY, device="cpu", **given)

    write(0, 10)
    write(1, 11)
    fitted()
    write(1, 12)
    with pytest.raises(pureward.InputError, match=r"settings \(episodes of unlabeled\)"):
        fitted()
    write(1, 11)
    assert fitted().state == "finished"


def test_a_short_fit_estimates_eta_ten_times(whole):
    rows = read_metrics(whole.path / "metrics.jsonl", "train")
    assert len([row for row in rows if "prior/value" in row]) == 10
    assert len({row["prior"] for row in rows}) > 2, "η is used before the last update"


def test_eta_is_estimated_on_logs_that_d_does_not_train_on(monkeypatch):
    seen: set[int] = set()
    honest = LoggedFrames.arrival_frames

    def noted(self, steps):
        seen.update(self.episodes(steps).tolist())
        return honest(self, steps)

    monkeypatch.setattr(LoggedFrames, "arrival_frames", noted)
    data, bank = Supervision.of(demonstrations()), FrameBank(logs())
    fitter = Fitter(data, bank, method="nn-pugail", prior=DEFAULT_PRIOR, config=TINY)
    seen.clear()
    fitter.learn(20)
    trained = set(seen)
    seen.clear()
    fitter.learner.update_prior()
    assert len(trained) == 15
    assert seen == set(range(20)) - trained


@pytest.mark.parametrize(("count", "held_out"), [(9, 0), (10, 5), (20, 5), (25, 5), (100, 20)])
def test_a_fifth_of_the_logs_but_at_least_5_are_held_out(count, held_out):
    assert held_out_logs(torch.arange(count)).sum() == held_out


def test_files_of_others_in_the_folder_are_refused(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("precious")
    with pytest.raises(pureward.InputError, match="holds metrics.jsonl, which a run would replace"):
        fit(tmp_path)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["precious"]


def test_annotations_give_a_gated_reward_model(tmp_path, no_picture):
    given = rated(20, held_out=5)
    done = fit(tmp_path / "a", demonstrations=None, annotations=given, updates=5)
    assert done.reward().spec.reward == "gated"
    trained = read_metrics(tmp_path / "a/metrics.jsonl", "train")
    assert trained[-1]["prior"] == pytest.approx(0.7), "a gate opens above ½, so η should too"
    assert done.verdict.numbers["model/explained"] > 0.5
    assert "needs at least" not in done.verdict.sentence
    # With demonstrations as well, D learns from them and r_φ from the annotations.
    both = fit(tmp_path / "b", annotations=given, updates=5)
    frames, truth, _ = annotated(given)
    predicted = both.reward().predicted(frames)
    assert predicted[truth > 0].mean() > predicted[truth == 0].mean() + 0.3


def test_other_methods_on_the_same_data(tmp_path, no_picture):
    assert fit(tmp_path, method="gail", updates=5).reward().spec.reward == "imitation"
    settings = json.loads((tmp_path / "config.json").read_text())
    assert settings["prior"] == DEFAULT_PRIOR, "folders of older versions have it without an η too"


def test_regression_needs_no_discriminator(tmp_path):
    done = fit(tmp_path, demonstrations=None, annotations=rated(12, held_out=5), method="prl")
    assert (done.updates, done.verdict.name) == (0, "healthy")
    assert (tmp_path / "fit.png").exists()


def test_a_reward_model_is_measured_on_episodes_that_it_has_not_seen(tmp_path, no_picture):
    wrong = [replace(one, rewards=5 - one.rewards) for one in rated(5, held_out=5)]
    done = fit(tmp_path, demonstrations=None, annotations=wrong + rated(12), method="prl")
    assert done.verdict.name == "not learned"


@pytest.mark.parametrize("own", [True, False])  # held-out annotations, or a tenth of them
@pytest.mark.parametrize(
    ("rewards", "explained"),
    [
        ((0.4, 0.6), 0.01),  # a variance of 0.01, of which the error is 0.0099; in training 0.25
        ((0.5, 0.5), None),
    ],
)
def test_what_a_reward_model_explains_is_a_share_of_the_variance_it_is_measured_on(
    monkeypatch, own, rewards, explained
):
    given = rated(11, held_out=1)
    bank = FrameBank(given[1:])
    held = 0 if own else 1 + int(bank.episodes[split_by_episode(80, bank.episodes, 0.1)[1][0]])
    for n, one in enumerate(given):
        low, high = rewards if n == held else (0.0, 1.0)
        given[n] = replace(one, rewards=torch.tensor([low, high] * 4))
    annotations = None if own else FrameBank(given[1:])
    data = Supervision.of(given if own else demonstrations())
    method = "prl" if own else "pnrl"
    fitter = Fitter(data, FrameBank(logs()), method=method, annotated=annotations, config=TINY)
    monkeypatch.setattr(fitter.learner.model, "error", lambda *_: 0.0099)
    found = fitter.fit_model().get("model/explained")
    assert found == (explained and pytest.approx(explained, abs=1e-6))


def test_equal_held_out_rewards_leave_a_reward_model_undecided(tmp_path, no_picture):
    failed = [episode(n, solved=False, split="held-out") for n in range(5)]
    given = {"demonstrations": None, "annotations": failed + rated(12), "method": "prl"}
    assert fit(tmp_path, **given).verdict.name == "undecided"
    probe = {"success/train": 0.9, "success/held_out": 0.9, "success/replay": 0.5}
    gated = [{"kind": "probe", "step": 1, **probe}]
    for rows, start in ((gated, "P(success) is 90%"), ([], "no two held-out rewards differ")):
        found = fit_verdict(rows, "nn-purl", held_out=ENOUGH, rewards=(0.0, 1.0))
        assert (found.name, found.sentence[: len(start)]) == ("undecided", start)
        assert found.sentence.endswith("so what r_φ explains is unknown; annotate more")


def test_rewards_that_cannot_be_learned_are_the_cause_in_the_verdict(tmp_path, no_picture):
    def verdict(name, change):
        given = [replace(one, rewards=change(one.rewards)) for one in rated(20, held_out=5)]
        return fit(tmp_path / name, demonstrations=None, annotations=given, method="prl").verdict

    constant = verdict("constant", lambda rewards: rewards * 0 + 2)
    assert str(constant).startswith("not learned: annotations: all rewards are 2, and")
    huge = verdict("huge", lambda rewards: rewards * 1e6)
    assert "rewards reach 0 and 1e+06, and about 1 per step is expected" in huge.sentence


@pytest.mark.parametrize(
    ("method", "shown", "annotations", "held_out"),
    [
        ("prl", None, rated(2), 1),  # r_φ holds out a tenth of its episodes, at least one
        ("prl", None, rated(12, held_out=4), 4),
        ("prl", None, rated(12, held_out=5), 5),
        ("gail", demonstrations(8, held_out=0), None, 0),
        ("gail", demonstrations(8, held_out=2), None, 2),
        ("pnrl", demonstrations(20, held_out=5), rated(24), 2),  # the fewer of D's and of r_φ's
    ],
)
def test_the_held_out_episodes_are_counted(method, shown, annotations, held_out):
    bank = FrameBank(annotations) if shown and annotations else None
    data = Supervision.of(shown or annotations)
    fitter = Fitter(data, FrameBank(logs()), method=method, annotated=bank, config=TINY)
    assert fitter.held_out[0] == held_out
    assert fitter.positives == ("demonstrations" if shown else "annotated episodes")


def test_few_held_out_episodes_do_not_make_a_reward_healthy(tmp_path, no_picture):
    done = fit(tmp_path, demonstrations=None, annotations=rated(2), method="prl")
    told = json.loads((tmp_path / "status.json").read_text())
    assert told["verdict"] == done.verdict.name != "healthy"
    rows = [{"kind": "model", "step": 0, "model/explained": 0.9}]
    assert fit_verdict(rows, "prl", held_out=(5, "episodes")).name == "healthy"
    few = fit_verdict(rows, "prl", held_out=(4, "annotations (10% of all)"))
    assert few.name == "undecided"
    assert "needs at least 5 held-out annotations (10% of all), got 4" in few.sentence


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [
        (
            "demonstrations",
            lambda one: {"success": one.success & False},
            "warning: demonstrations: success is 0 in all 9 episodes",
        ),
        (
            "annotations",
            lambda one: {"rewards": torch.ones(8)},
            "warning: annotations: all rewards are 1",
        ),
        (
            "annotations",
            lambda _: {"row_per_frame": True},
            "note: annotations: there are as many rewards as frames",
        ),
    ],
)
def test_what_is_odd_in_the_data_is_told_before_the_fit(
    tmp_path, monkeypatch, kind, change, said, capsys
):
    monkeypatch.setattr(FitFolder, "run", interrupted)
    given = {"demonstrations": None, "prior": 0.5}
    for changed in (False, True):
        given[kind] = [replace(one, **change(one)) if changed else one for one in rated(9, 2)]
        with pytest.raises(InterruptedError):
            fit(tmp_path / str(changed), **given)
        assert (said in capsys.readouterr().out) == changed


def interrupted(_):
    raise InterruptedError


def test_demonstrations_that_are_the_logs_are_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(FitFolder, "run", interrupted)
    same = tmp_path / "same"
    same.mkdir()
    for number in range(12):
        frames = np.random.default_rng(number).integers(0, 256, (5, 64, 64, 3), dtype=np.uint8)
        np.save(same / f"{number}.npy", frames)
    with pytest.raises(InterruptedError):
        pureward.fit(same, demonstrations=same, out=tmp_path / "out", prior=0.5, device="cpu")
    assert f"warning: demonstrations and unlabeled are both {same}" in capsys.readouterr().out


def test_known_failures_choose_the_risk_that_takes_them(tmp_path, no_picture, monkeypatch):
    failures = [episode(n, solved=False) for n in range(50, 56)]
    done = fit(tmp_path / "ours", failures=failures, updates=5)
    assert done.state == "finished"
    assert _risk(tmp_path / "ours") == "nnpnu"
    own = replace(METHODS["nn-pugail"], risk="nnpnu")  # as a plugin's method may be
    monkeypatch.setitem(METHODS, "own", own)
    fit(tmp_path / "own", method="own", failures=failures, updates=5)
    assert _risk(tmp_path / "own") == ""  # the method's


def test_the_positives_are_not_known_failures(tmp_path):
    np.save(tmp_path / "one.npy", np.zeros((40, 8, 8, 3), np.uint8))
    data = {"demonstrations": tmp_path / "one.npy", "failures": tmp_path / "one.npy"}
    with pytest.raises(pureward.InputError, match="must be other episodes than the positives"):
        fit(tmp_path / "reward", prior=0.5, held_out=0.0, **data)


def _risk(folder) -> str:
    return json.loads((folder / "config.json").read_text())["reward"]["risk"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"demonstrations": None}, "needs demonstrations or annotations"),
        ({"method": "nn-purl"}, "nn-purl needs annotations"),
        ({"method": "truth"}, "learned one"),
        ({"method": "gial"}, "unknown method"),
        ({"updates": 0}, "updates must be at least 1"),
        ({"prior": "1.5"}, "prior"),
        ({"stack": 0}, "stack must be a whole number from 1 to 341, got 0"),
        ({"stack": 1000}, "stack must be a whole number from 1 to 341, got 1000"),
        ({"config": 3}, "config must be a RewardConfig, got int"),
        ({"images": 3}, "images must be a name or several, got 3"),
        ({"images": ["top", 3]}, "images must be a name or several, got"),
        ({"held_out": None}, "held_out must be a number, got None"),
        ({"updates": "9"}, "updates must be a whole number, without quotes, got '9'"),
        ({"method": np.zeros(3)}, "method must be text"),
        ({"demonstrations": 5}, "named by a path, or given as a list .* got int"),
        ({"demonstrations": demonstrations(8, held_out=2)}, "5 held-out demonstrations, got 2"),
        ({"annotations": demonstrations()}, "annotated episodes need rewards"),
        ({"annotations": rated(1)}, "not held out, got 1 of 1; annotate more"),
        ({"demonstrations": [episode(0, solved=True, side=64)] * 20, "prior": 0.5}, "one shape"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path, changes, said):
    with pytest.raises(pureward.InputError, match=said):
        fit(tmp_path / "reward", **changes)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("out", [None, 3, ["reward"]])
def test_a_folder_that_is_no_path_and_logs_of_none_are_refused(tmp_path, out):
    with pytest.raises(pureward.InputError, match="out must be text, got .*; name a folder"):
        fit(out)
    with pytest.raises(pureward.InputError, match="given as a list .* got NoneType"):
        pureward.fit(None, demonstrations=demonstrations(), out=tmp_path / "a")  # type: ignore


def test_numbers_of_numpy_are_stored(tmp_path, no_picture):
    numbers = {"held_out": np.float32(0.5), "prior": np.float32(0.5), "stack": np.int64(1)}
    fit(tmp_path, updates=np.int64(1), seed=np.int64(3), **numbers)
    told = json.loads((tmp_path / "config.json").read_text())
    assert {name: told[name] for name in numbers} == numbers
    assert told["seed"] == 3


@pytest.mark.parametrize(("count", "share"), [(10, "0.5"), (12, "0.4"), (20, "0.25"), (24, "0.2")])
def test_too_few_held_out_positives_name_the_share_that_suffices(tmp_path, count, share):
    positives = [episode(n, solved=True).frames for n in range(count)]
    given = {"demonstrations": positives, "out": tmp_path, "config": TINY, "device": "cpu"}
    unlabeled = [one.frames for one in logs()]
    with pytest.raises(pureward.InputError, match=rf"pass --held-out {share}, or give η"):
        pureward.fit(unlabeled, held_out=0.1, **given)
    assert read_episodes(positives, held_out=float(share)).splits.count("held-out") >= 5


def test_a_folder_of_another_fit_is_not_overwritten(tmp_path, no_picture):
    fit(tmp_path, updates=5)
    with pytest.raises(pureward.InputError, match=r"other settings \(seed\)"):
        fit(tmp_path, updates=5, seed=1)


def test_the_folder_of_a_source_and_a_file_are_refused_before_anything_is_read(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/0.mp4").write_text("a bad video")
    for out, said in (("logs", "outside of .*logs"), ("logs/0.mp4", "outside"), ("a/x", "a is a")):
        (tmp_path / "a").write_text("a file")
        with pytest.raises(pureward.InputError, match=said):
            pureward.fit(tmp_path / "logs", demonstrations=demonstrations(), out=tmp_path / out)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["0.mp4", "a", "logs"]


def test_a_path_with_a_slash_at_its_end_is_the_same_source():
    assert describe("videos/solved/") == describe("videos/solved") == "videos/solved"


def test_arrays_in_memory_are_counted_as_the_episodes_that_they_are():
    images = np.zeros((9, 8, 8, 3), np.uint8)
    for one in (images, (images, np.zeros(8)), [images]):
        assert describe(one) == "1 episodes in memory"
    assert describe([images, images]) == describe(np.stack([images] * 2)) == "2 episodes in memory"


def test_a_folder_that_counted_the_frames_of_an_array_is_refused_not_fitted_again(
    tmp_path, no_picture
):
    given = {"demonstrations": [one.frames for one in demonstrations()], "prior": 0.5}
    given |= {"updates": 2, "config": TINY, "out": tmp_path, "device": "cpu"}
    images = torch.cat([one.frames for one in logs()])
    pureward.fit(images, **given)
    told = json.loads((tmp_path / "config.json").read_text())
    old = told | {"unlabeled": f"{len(images)} episodes in memory"}  # as it was counted before
    (tmp_path / "config.json").write_text(json.dumps(old))
    weights = (tmp_path / "reward/reward.safetensors").read_bytes()
    with pytest.raises(pureward.InputError, match=r"other settings \(unlabeled\); choose"):
        pureward.fit(images, **given)
    assert (tmp_path / "reward/reward.safetensors").read_bytes() == weights


def test_a_source_that_does_not_fit_into_memory_is_cut_at_random(capsys, monkeypatch):
    whole = load("unlabeled", logs())
    size = whole.episodes[0].frames.numel()
    monkeypatch.setattr("pureward.offline.sources._MOST_BYTES", 5 * size)
    some = load("unlabeled", logs())
    assert len(some) == 5
    assert "unlabeled: 15 episodes, chosen at random, are left out" in capsys.readouterr().out


def test_a_gate_that_is_closed_on_its_positives_is_not_healthy_whatever_r_explains():
    probe = {"success/train": 0.2, "success/held_out": 0.1, "success/replay": 0.1}
    rows = [{"kind": "model", "step": 0, "model/explained": 0.9}]
    rows.append({"kind": "probe", "step": 1, **probe})
    found = fit_verdict(rows, "nn-purl", held_out=ENOUGH)
    assert found.name == "undecided"
    assert "and accepts 10%: train longer" in found.sentence


def test_the_verdict_of_a_fit_is_that_of_its_last_probe():
    first = {"kind": "probe", "step": 90, "success/train": 0.2, "success/replay": 0.1}
    last = first | {"step": 100, "success/train": 0.8, "success/replay": 0.5}
    found = fit_verdict([first, last], "gail", held_out=ENOUGH, logs="held-out logs")
    assert "P(success) is 80% on trained frames, 50% on held-out logs" in found.sentence


def test_a_short_fit_whose_d_is_the_same_everywhere_is_undecided():
    row = {"kind": "probe", "mean/train": 0.51, "mean/replay": 0.5, "success/replay": 0.4}
    short, long = (
        fit_verdict([{"step": step, **row}], "gail", held_out=ENOUGH) for step in (30, 1000)
    )
    assert short.name == "undecided"
    assert "0.50 on the logs after 30 updates of D, too few to tell" in short.sentence
    assert long.name == "collapsed"
    assert long.sentence.endswith(
        "D does not separate them, or the logs are like the demonstrations"
    )


def test_a_view_mismatch_names_a_setting_that_a_fit_has():
    row = {"kind": "probe", "step": 1, "mean/as_trained": 0.9, "mean/train": 0.3}
    found = fit_verdict([row], "gail", held_out=ENOUGH)
    assert found.name == "view mismatch"
    assert found.sentence.endswith("weaken the augmentation (in Python, network.view of config=)")


@pytest.mark.parametrize("positives", ["demonstrations", "annotated episodes"])
def test_a_verdict_names_the_positives_that_d_has_memorised(positives):
    row = {"kind": "probe", "step": 1, "success/train": 0.9, "success/held_out": 0.6}
    row |= {"success/replay": 0.5}
    found = fit_verdict([row], "purl", held_out=ENOUGH, positives=positives)
    assert f"D has memorised its {positives}: try" in found.sentence
    assert found.sentence.endswith(f"or more {positives}")


def test_a_verdict_on_logs_without_successes_names_the_leak_check():
    row = {"success/train": 0.9, "success/held_out": 0.9, "success/replay": 0.0}
    row |= {"mean/train": 0.9, "mean/replay": 0.0, "reward/mean": 0.0}
    verdict = fit_verdict([{"kind": "probe", "step": 1, **row}], "nn-pugail", held_out=ENOUGH)
    assert verdict.name == "no successes found"
    assert "pureward check" in verdict.sentence


@pytest.mark.parametrize("method", ["nn-pugail", "nn-purl"])
def test_logs_of_which_d_accepts_next_to_nothing_have_no_successes(method):
    """As of demonstrations in BGR and logs in RGB after 30 updates, of which D accepts 4%."""
    row = {"success/train": 0.99, "success/held_out": 1.0, "mean/train": 0.56, "mean/replay": 0.45}

    def found(accepted: float, **more):
        rows = [{"kind": "probe", "step": 30, **row, "success/replay": accepted, **more}]
        return fit_verdict(rows, method, held_out=ENOUGH)

    assert found(0.04, **{"reward/mean": 0.59}).name == "no successes found"
    assert found(0.06, **{"reward/mean": 0.59}).name == "healthy"
    assert found(0.04, **{"success/held_out": 0.3}).name != "healthy"


def test_failures_that_are_paid_nearly_as_much_as_demonstrations_are_told():
    row = {"success/train": 0.9, "success/held_out": 0.9, "success/replay": 0.4}
    row |= {"mean/train": 0.9, "reward/failure": 0.6, "reward/held_out": 1.5}

    def found(share: float, method: str = "nn-pugail", **more):
        rows = [{"kind": "probe", "step": 1, "reward/paid_failures": share, **row, **more}]
        return fit_verdict(rows, method, held_out=ENOUGH)

    assert found(0.3).name == "healthy"
    assert found(0.34).name == "failures paid"
    told = "30% of the failures are paid more than half as much as held-out demonstrations (the"
    assert f"{told} mean reward of a frame is 0.60 and 1.50)" in found(0.3).sentence
    for fine in (found(0.1), found(0.4, "nn-purl")):
        assert fine.name == "healthy"
        assert "failures are paid" not in fine.sentence
    logs = {"reward/paid_failed_logs": 0.48, "reward/failed_logs": 0.46}
    assert found(0.3, **logs).name == "failures paid"
    assert "48% of the logs that failed are paid more than" in found(0.3, **logs).sentence


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        ((), "such episodes as --failures, or a larger --stack, which shows motion"),
        (("failures",), "a larger --stack, which shows motion"),
        (("stack",), "such episodes as --failures"),
        (("failures", "stack"), "more demonstrations"),
    ],
)
def test_no_remedy_names_an_option_that_was_given(given, remedy):
    row = {"success/train": 0.9, "success/held_out": 0.9, "success/replay": 0.4}
    row |= {"reward/failure": 0.6, "reward/held_out": 1.5, "reward/paid_failures": 0.75}
    rows = [{"kind": "probe", "step": 1000, **row}]
    found = fit_verdict(rows, "nn-pugail", held_out=ENOUGH, given=given)
    assert found.sentence.endswith(f"so D hardly tells those apart; pass {remedy}")


def test_an_eta_that_is_hardly_known_is_told():
    probe = {"success/train": 0.9, "success/held_out": 0.9, "success/replay": 0.4}
    rows = [{"kind": "probe", "step": 1000, **probe}]

    def told(low: float, high: float) -> str:
        train = {"kind": "train", "step": 1000, "prior/low": low, "prior/high": high}
        return fit_verdict([train, *rows], "nn-pugail", held_out=ENOUGH).sentence

    assert "η is hardly known, its 95% interval is 0.02 to 0.78: if you know" in told(0.02, 0.78)
    assert told(0.02, 0.78).endswith("pass it as --prior")
    assert told(0.2, 0.6) == fit_verdict(rows, "nn-pugail", held_out=ENOUGH).sentence


def test_logs_that_failed_are_known_by_their_success():
    succeeded, failed_one = episode(0, solved=True), episode(1, solved=False)
    unknown = replace(failed_one, success=None)
    assert failed([succeeded, failed_one, unknown]) == [False, True, False]
    assert failed([failed_one, unknown]) == [False, False], "no environment may report a success"


def test_the_pay_of_failed_logs_is_measured():
    bank = FrameBank(logs())
    for known in (None, torch.tensor(failed(logs()))):
        fitter = Fitter(
            Supervision.of(demonstrations()), bank, method="gail", failed_logs=known, config=TINY
        )
        found = fitter.probe()
        assert ("reward/paid_failed_logs" in found) == (known is not None)
    rewards = fitter.rewards()["replay"]  # the last ten of twenty logs fail
    rows = subset(bank, 16)
    mean = float(rewards[bank.episodes[rows] >= 10].mean())
    assert found["reward/failed_logs"] == pytest.approx(mean)
    assert found["reward/paid_failed_logs"] == 1.0, "D has not learned, and pays all alike"


def test_known_failures_that_look_like_success_are_told(tmp_path, no_picture):
    def still(seed: int):
        """Stands from the start where demonstrations end."""
        one = episode(seed, solved=True, rated=False)
        return replace(one, frames=one.frames[-1:].repeat(len(one) + 1, 1, 1, 1))

    failures = [still(900), *(episode(n, solved=False) for n in range(700, 703))]
    done = fit(tmp_path, failures=failures, updates=100)
    assert _risk(tmp_path) == "nnpnu"
    assert done.verdict.name == "failures paid"
    assert json.loads((tmp_path / "status.json").read_text())["verdict"] == "failures paid"
    share = done.verdict.numbers["reward/paid_failures"]
    assert share > 1 / 3
    assert "--failures" not in done.verdict.sentence, "they were given"
    assert f"{share:.0%} of the failures are paid more than half as much" in done.verdict.sentence


def test_the_mean_of_each_episode_is_taken():
    values, episodes = torch.tensor([1.0, 3.0, 5.0, 0.5]), torch.tensor([0, 0, 2, 4])
    assert episode_means(values, episodes).tolist() == [2.0, 5.0, 0.5]


def test_the_mean_reward_of_every_source_is_measured():
    failures = [episode(n, solved=False, split="failure") for n in range(50, 53)]
    data, bank = Supervision.of(demonstrations() + failures), FrameBank(logs())
    fitter = Fitter(data, bank, method="gail", config=TINY)
    fitter.learn(5)
    found, rewards = fitter.probe(), fitter.rewards()
    assert rewards.keys() == {"train", "held_out", "failure", "replay"}
    for name, values in rewards.items():
        where = "reward/mean" if name == "replay" else f"reward/{name}"
        assert found[where] == pytest.approx(float(values.mean()))


def test_a_reward_model_that_explains_nothing_is_called_so():
    rows = [{"kind": "model", "step": 0, "model/explained": 0.01}]
    assert fit_verdict(rows, "prl", held_out=ENOUGH).name == "not learned"


def test_a_fitted_reward_knows_its_cameras(tmp_path, monkeypatch, capsys, no_picture):
    monkeypatch.chdir(tmp_path)
    for name, count in (("demos", 4), ("logs", 6)):
        (tmp_path / name).mkdir()
        for number in range(count):
            top, side = (
                episode(number + at, solved=name == "demos", side=64).frames.permute(0, 2, 3, 1)
                for at in (0, 50)
            )
            np.savez(f"{name}/{number}.npz", top=top.numpy(), side=side.numpy())
    words = ["fit", "--demonstrations", "demos", "--unlabeled", "logs", "--out", "reward"]
    words += ["--device", "cpu", "--prior", "0.5", "--updates", "2", "--images", "top", "side"]
    main([*words, "--stack", "2"])
    spec = pureward.load_reward("reward").spec
    assert spec.images == ("top", "side")
    assert spec.channels.startswith("2 consecutive RGB images of 2 cameras (top, side)")
    main(["score", "reward", "logs", "--out", "scores"])
    with pytest.raises(SystemExit, match="2"):
        main(["score", "reward", "logs", "--images", "side", "top", "--out", "other"])
    assert "choose --images top side" in capsys.readouterr().err


def test_sources_in_another_order_of_cameras_are_refused(tmp_path):
    both = np.stack([np.zeros((9, 32, 32, 3), np.uint8)] * 6)
    np.savez(tmp_path / "x.npz", top=both, side=both + 9)
    ours, theirs = (
        pureward.read_episodes(tmp_path / "x.npz", images=names, size=(32, 32))
        for names in (("top", "side"), ("side", "top"))
    )
    with pytest.raises(pureward.InputError, match=r"5 held-out demonstrations, got 1"):
        source = tmp_path / "x.npz"
        pureward.fit(source, demonstrations=source, out=tmp_path / "out", images="top")
    assert len(pureward.check(tmp_path / "x.npz", images="top").facts) == 1
    with pytest.raises(pureward.InputError, match=r"one order, got \['top', 'side'\] in the d"):
        pureward.fit(theirs, demonstrations=ours, out=tmp_path / "out", prior=0.5, device="cpu")


@pytest.mark.parametrize("name", ["demonstrations", "annotations"])
def test_the_images_of_one_episode_are_no_list(tmp_path, name):
    given = {name: np.zeros((9, 32, 32, 3), np.uint8)}
    with pytest.raises(pureward.InputError, match=rf"^{name} must be a list .* \(9, 32, 32, 3\)"):
        pureward.fit(logs(), out=tmp_path / "out", **given)


def test_the_command_line_fits_files_and_refuses_what_is_missing(
    tmp_path, monkeypatch, capsys, no_picture
):
    monkeypatch.chdir(tmp_path)
    for name, count in (("demos", 6), ("logs", 6)):
        (tmp_path / name).mkdir()
        for number in range(count):
            one = episode(number, solved=name == "demos" or number < 3, side=64)
            np.save(f"{name}/{number}.npy", one.frames.permute(0, 2, 3, 1).numpy())
    words = ["fit", "--demonstrations", "demos", "--unlabeled", "logs", "--out", "reward"]
    with pytest.raises(SystemExit, match="2"):
        main([*words, "--device", "cpu"])
    # Half of six is too few as well.
    assert "got 1; bring more, or give η" in capsys.readouterr().err
    main([*words, "--device", "cpu", "--prior", "0.5", "--updates", "2"])
    assert "finished after 2 updates" in capsys.readouterr().out
    assert pureward.load_reward("reward")(torch.zeros(2, 3, 64, 64, dtype=torch.uint8)).shape == (
        2,
    )
