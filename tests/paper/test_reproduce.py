"""Reproducing a figure: from scratch, after an interruption, with a failure, as a dry run."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from at_once import AtOnce
from pureward.cli import main
from pureward.diagnostics.plot import method_colour
from pureward.diagnostics.strip import Panel, Strip
from pureward.distributed import EXECUTORS
from pureward.distributed.training import Training, wall_seconds
from pureward.errors import InputError, SimulationError
from pureward.paper import hacking
from pureward.paper.draw import DRAW
from pureward.paper.estimate import dry_run
from pureward.paper.figures import FIGURES, Variant
from pureward.paper.plan import STUDIES
from pureward.paper.reproduce import Reproduced, read_results, reproduce
from pureward.paper.results import Episodes
from pureward.runs.log import read_metrics
from small import LEARNED, SMALL_FIGURE, STUDY, small_plan, write_status, written_plan


@pytest.fixture(scope="module")
def first(short_episodes, tmp_path_factory) -> tuple[Path, Reproduced, AtOnce]:
    """The small figure from scratch."""
    out, executor = tmp_path_factory.mktemp("first"), AtOnce()
    return out, reproduce(small_plan(out), executor, device="cpu"), executor


@pytest.fixture
def out(first, tmp_path) -> Path:
    """A folder with an expert, demonstrations and gail's run."""
    (tmp_path / "reach").mkdir()
    for name in ("expert", "demonstrations", "gail"):
        (tmp_path / "reach" / name).symlink_to(first[0] / "reach" / name)
    return tmp_path


def test_figure_from_scratch(first):
    _, done, executor = first
    assert executor.started == ["expert", "demonstrations", "seed-0", "seed-0"]
    assert [path.name for path in done.files] == [
        f"small.{k}" for k in ("png", "pdf", "md", "json")
    ]
    with Image.open(done.files[0]) as picture:
        assert min(picture.size) > 200
    assert done.files[1].read_bytes().startswith(b"%PDF")
    table = json.loads(done.files[3].read_text())
    assert [line["line"] for line in table["lines"]] == ["gail", "nn-pugail, η 0.3"]
    assert [row["outcome"] for row in done.claims] == ["not measured"]  # one seed says nothing


def test_finished_steps_are_not_run_again(first):
    out, _, _ = first
    metrics = out / "reach" / "gail" / "seed-0" / "metrics.jsonl"
    before, again = metrics.read_text(), AtOnce()
    reproduce(small_plan(out), again, device="cpu")
    assert again.started == []
    assert metrics.read_text() == before


def test_stopped_run_continues(out, capsys):
    plan = small_plan(out, methods=("nn-pugail",))
    run = plan.steps[-1]
    assert isinstance(run, Training)
    assert not run.within(1e-9).run()
    first = read_metrics(run.out / "metrics.jsonl")
    taken = wall_seconds(run.out)
    assert first[-1]["step"] < 96
    executor = AtOnce()
    reproduce(plan, executor, device="cpu")
    assert executor.started == ["seed-0"]
    assert "[1/1] reach/nn-pugail-prior-0.3/seed-0 finished" in capsys.readouterr().out
    assert wall_seconds(run.out) > taken > 0
    rows = read_metrics(run.out / "metrics.jsonl")
    assert rows[: len(first)] == first
    assert rows[-1]["step"] == 96


def test_failure_is_reported_and_the_rest_is_done(out, capsys, monkeypatch):
    settings = {"prior": "0.3", "failures": "nowhere", "reward.risk": "nnpnu"}
    bad = Variant(method="nn-pugail", settings=settings)
    figure = replace(SMALL_FIGURE, variants=(SMALL_FIGURE.variants[0], bad))
    monkeypatch.setitem(FIGURES, "small", figure)
    monkeypatch.setitem(STUDIES, "reach", STUDY)
    monkeypatch.setitem(EXECUTORS, "local", lambda **_: AtOnce())  # processes: test_jobs.py
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", "small", "--seeds", "1", "--device", "cpu", "--out", str(out)])
    assert stopped.value.code == 1
    printed = capsys.readouterr()
    failed = out / "reach" / "nn-pugail-prior-0.3-failures-nowhere-risk-nnpnu" / "seed-0"
    assert f"1 steps failed ({failed}: " in printed.err
    assert "nowhere" in printed.err
    assert "not measured: The second is above the first." in printed.out
    table = json.loads((out / "small.json").read_text())
    assert [line["line"] for line in table["lines"]] == ["gail"]
    (unfinished,) = table["runs not finished"]
    assert unfinished.startswith(f"{failed.relative_to(out)} failed: ")
    assert "nn-pugail" in table["claims"][0]["numbers"]


def test_dry_run_writes_nothing(tmp_path):
    listed = dry_run(small_plan(tmp_path, seeds=2), 2, "cpu")
    assert "reach/nn-pugail-prior-0.3/seed-1" in listed
    assert "6 of 6 steps are left" in listed
    assert "of unknown length" in listed
    assert list(tmp_path.iterdir()) == []


def test_command_lists_runs_and_rejects_bad_input(tmp_path, capsys):
    out = str(tmp_path / "out")
    asked = ["reproduce", "overfitting", "--task", "reach", "--device", "cpu", "--out", out]
    main([*asked, "--seeds", "1", "--dry-run"])
    assert "reach/nn-pugail/seed-0" in capsys.readouterr().out
    for wrong, sentence in (
        (["reproduce", "figure-9"], "choose from imitation, imitation-prior"),
        ([*asked, "--seeds", "0"], "seeds must be 1 to 1,000"),
        ([*asked, "--methods", "prl"], "has no prl; choose from gail, nn-pugail"),
        (["reproduce", "domain-gap", "--task", "reach"], "has no distractors"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main(wrong)
        assert stopped.value.code == 2
        assert sentence in capsys.readouterr().err
    assert not Path(out).exists()


def test_folder_with_other_settings_is_refused(first):
    other = replace(STUDY, learned={**LEARNED, "batch": 8})
    with pytest.raises(InputError, match="was run with other settings .batch 16 → 8"):
        small_plan(first[0], other)


@pytest.mark.slow
def test_hacking_scores_episodes_of_every_seed(out):
    plan = small_plan(out, figure=FIGURES["hacking"], tasks=("reach",), seeds=2)
    done = reproduce(plan, AtOnce(), device="cpu")
    assert not [outcome for outcome in done.outcomes if not outcome.succeeded]
    assert [path.name for path in done.files][:2] == ["hacking-reach.png", "hacking-reach.pdf"]
    with Image.open(done.files[0]) as picture:
        assert picture.width > picture.height > 200
    assert {row["task"] for row in done.claims} == {"reach (not in the paper)"}
    numbers = done.claims[0]["numbers"]
    assert " over 32 episodes of seed-0, seed-1 [" in numbers
    assert re.search(r"\[seed-0 .*true .*prl .*; seed-1 .*true .*prl ", numbers), "each seed's mean"
    assert {row["outcome"] for row in done.claims} <= {"holds", "does not hold"}


def legend(canvas) -> list[str]:
    return [text.get_text() for text in canvas.legends[0].get_texts()]


def test_all_methods_are_compared_with_the_expert(tmp_path):
    results = read_results(written_plan(tmp_path, FIGURES["supervised"]))
    canvas = DRAW["curves"](results)
    assert legend(canvas)[-1] == "expert"
    assert "best annotated" not in legend(canvas)


@pytest.mark.parametrize("card", ["", "{}", '{"splits": {"train": {}}}', '{"splits": null}'])
def test_figure_without_a_valid_card_has_no_expert(tmp_path, card):
    plan = written_plan(tmp_path)
    (tmp_path / "reach" / "demonstrations" / "card.json").write_text(card)
    done = reproduce(plan, AtOnce(), device="cpu")
    assert [path.suffix for path in done.files] == [".png", ".pdf", ".md", ".json"]
    table = json.loads(done.files[3].read_text())
    assert [line["expert"] for line in table["lines"]] == [None, None]


def test_run_that_fails_after_a_stop_is_reported_as_failed(tmp_path, monkeypatch):
    def fail(_):
        raise InputError("it must not be so; make it otherwise")

    plan = written_plan(tmp_path)
    stopped, failed = (step for step in plan.steps if isinstance(step, Training))
    write_status(stopped, state="interrupted", env_steps=1200)
    write_status(failed, state="interrupted")
    monkeypatch.setattr(Training, "run", lambda step: step.out != stopped.out and fail(step))
    done = reproduce(plan, AtOnce(), device="cpu")
    assert json.loads(done.files[-1].read_text())["runs not finished"] == [
        "reach/gail/seed-0 stopped at 1,200 env steps",
        "reach/nn-pugail-prior-0.3/seed-0 failed: it must not be so; make it otherwise",
    ]


@pytest.mark.parametrize("made_with", [None, "torch", {"torch": ["2"]}])
def test_versions_in_a_damaged_status_do_not_stop_the_table(tmp_path, made_with):
    plan = written_plan(tmp_path)
    for step in plan.steps:
        if isinstance(step, Training):
            write_status(
                step, state="finished", env_steps=step.config.env_steps, made_with=made_with
            )
    done = reproduce(plan, AtOnce(), device="cpu")
    known = [made_with] if isinstance(made_with, dict) else []
    assert json.loads(done.files[-1].read_text())["made with"] == known


def test_earlier_picture_is_deleted_if_none_can_be_drawn(tmp_path, capsys):
    figure = replace(SMALL_FIGURE, picture="success")
    plan = written_plan(tmp_path, figure)
    for kind in ("png", "pdf"):
        (tmp_path / f"small.{kind}").write_text("of earlier")
    done = reproduce(plan, AtOnce(), device="cpu")
    assert "no picture: none of these runs has probed P(success)" in capsys.readouterr().out
    assert [path.name for path in done.files] == ["small.md", "small.json"]
    assert sorted(path.name for path in tmp_path.glob("small.*")) == ["small.json", "small.md"]


def test_hacking_needs_both_methods(tmp_path, capsys):
    plan = written_plan(tmp_path, FIGURES["hacking"], methods=("prl",))
    done = reproduce(plan, AtOnce(), device="cpu")
    assert "no picture: no run has measured nn-purl on reach" in capsys.readouterr().out
    assert {row["outcome"] for row in done.claims} == {"not measured"}


def give(plan, name: str, seed: int) -> None:
    for label in ("prl", "nn-purl"):
        (plan.runs["reach", label][seed] / name).mkdir()


def test_hacking_skips_seeds_without_reward_or_policy(tmp_path, capsys):
    plan = written_plan(tmp_path, FIGURES["hacking"], seeds=2)
    reproduce(plan, AtOnce(), device="cpu")
    lacking = "no picture: no run has measured episodes of prl's policy on reach: no seed has the"
    assert lacking in capsys.readouterr().out
    give(plan, "reward", seed=1)
    done = reproduce(plan, AtOnce(), device="cpu")
    printed = capsys.readouterr().out
    assert f"reach, seed-1 is skipped: {plan.runs['reach', 'prl'][1]} has no policy" in printed
    assert lacking in printed
    assert [path.suffix for path in done.files] == [".md", ".json"]


def test_the_strip_shows_the_rewards_whose_sums_the_claims_use(monkeypatch):
    class Policy:
        act, config = None, SimpleNamespace(replay=SimpleNamespace(frame_stack=1))

    frames = torch.zeros(4, 3, 8, 8, dtype=torch.uint8)
    episode = SimpleNamespace(rewards=torch.ones(3), frames=frames)
    zeros = {"a": 0.0, "b": 0.5}  # rewards of a gated method are shifted to a lowest of 0
    for name, value in {
        "load_policy": lambda run, device: Policy,
        "load_reward": lambda run, device: SimpleNamespace(zero=zeros[run.name]),
        "make": lambda *given, **named: None,
        "rollout": lambda env, act: [episode],
        "score_episode": lambda *given: SimpleNamespace(learned=torch.ones(3)),
    }.items():
        monkeypatch.setattr(hacking, name, value)
    seen = hacking._watch_seed("reach", Path("a"), Path("b"), "cpu")
    assert seen.strip.title.endswith("true r 3.0, prl 3.0, nn-purl 4.5")
    (panel,) = seen.strip.panels
    for name, (values, form) in list(panel.tracks.items())[1:]:
        assert values.sum() == seen.returns[name]
        assert form.startswith(method_colour(name))


@pytest.mark.parametrize("error", [InputError, SimulationError])
def test_claims_on_episodes_name_their_seeds(tmp_path, monkeypatch, error):
    def watch_seed(task, prl, purl, place):
        if prl.name == "seed-1":
            raise error("it has kept no policy yet; let it run for a while")
        return Episodes(strip=strip, returns=paid, seeds=[prl.name], planned=1)

    panel = Panel(title="reward", tracks={"r": (np.ones(8), "k")})
    strip = Strip(title="", frames=np.zeros((8, 1, 4, 4, 3), dtype=np.uint8), panels=[panel])
    paid = {"true": np.zeros(16), "prl": np.full(16, 40.0), "nn-purl": np.ones(16)}
    monkeypatch.setattr("pureward.paper.hacking._watch_seed", watch_seed)
    plan = written_plan(tmp_path, FIGURES["hacking"], seeds=3)
    for seed in (1, 2):
        give(plan, "reward", seed)
    done = reproduce(plan, AtOnce(), device="cpu")
    assert [path.suffix for path in done.files] == [".png", ".pdf", ".md", ".json"]
    assert [(row["outcome"], row["numbers"]) for row in done.claims] == [
        ("holds", "40.0 for 0.0 over 16 episodes of 1 of 3 seeds (seed-2)"),
        ("holds", "off by prl 40.0, nn-purl 1.0 over 16 episodes of 1 of 3 seeds (seed-2)"),
    ]
