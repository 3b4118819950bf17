"""Reports: sentences follow the numbers, whoever wins; the file stands on its own."""

import re

import pytest
from PIL import Image

from pureward.diagnostics.history import History, read_history
from pureward.diagnostics.lines import lines
from pureward.diagnostics.reading import ending, read_curves, read_error, read_success, trained_for
from pureward.diagnostics.report import write_report
from synthetic import course, write_card, write_run

SHARES = {"train": 1.0, "held_out": 0.5, "failure": 0.1, "replay": 0.0}
PROBE = {f"success/{name}": value for name, value in SHARES.items()}


@pytest.fixture
def make(tmp_path):
    """A history of a method that ends at a return."""
    data = write_card(tmp_path / "data", train=90.0, failure=10.0)

    def made(method: str, final: float, *, seed: int = 0, ci: float = 2.0, **kinds) -> History:
        rows = course(final, **kinds)
        for row in rows:
            if row["kind"] == "eval":
                row["return_ci95"] = ci
                row.update(kinds.get("evaluated", {}))
        path = tmp_path / f"{method}-{final}-{seed}"
        return read_history(write_run(path, method, rows, data=data, seed=seed))

    return made


@pytest.mark.parametrize(
    ("ours", "theirs", "sentence"),
    [
        (80.0, 40.0, "nn-pugail is 40.0 ahead of gail."),
        (40.0, 80.0, "nn-pugail is 40.0 behind gail."),
        (62.0, 60.0, "nn-pugail and gail are too close to call."),
    ],
)
def test_whoever_is_ahead_is_said_to_be(make, ours, theirs, sentence):
    told = read_curves(*lines([make("nn-pugail", ours)]), lines([make("gail", theirs)]))
    assert sentence in told
    assert f"nn-pugail at {ours:.1f} ± 2.0 ({ours / 90:.0%} of 90.0)" in told[0]
    assert any("One seed each" in line for line in told)


def test_seeds_are_averaged_and_their_range_is_the_spread(make):
    runs = [make("gail", 40.0), make("gail", 60.0, seed=1)]
    end = ending(*lines(runs))
    assert (end.mean, end.spread, end.seeds) == (50.0, 10.0, 2)
    told = read_curves(*lines([make("nn-pugail", 70.0)]), lines(runs))
    assert not any("One seed each" in line for line in told)


def test_a_fall_is_told(tmp_path):
    rows = [{"kind": "eval", "step": n, "return": r} for n, r in ((1, 80.0), (2, 20.0))]
    run = read_history(write_run(tmp_path / "run", "gail", rows))
    told = read_curves(*lines([run]), [])
    assert "gail had been at 80.0 on its way and fell back." in told


def test_runs_without_evaluations_say_so(tmp_path):
    run = read_history(write_run(tmp_path / "run", "gail", []))
    assert read_curves(*lines([run]), []) == ["None of these runs has been evaluated yet."]
    assert trained_for(run) == (0, 0.0)


def test_what_a_discriminator_takes_for_success(make):
    told = read_success(make("gail", 40.0, probe=PROBE))
    assert "100% of the frames it trains on, 50% of those held out, 10% of failures" in told
    assert "overfitted: of those held out 50% fewer" in told
    held = PROBE | {"success/held_out": 0.95}
    assert "holds for those held out" in read_success(make("nn-pugail", 80.0, probe=held))
    assert "no discriminator" in read_success(make("prl", 80.0))


@pytest.mark.parametrize(
    ("method", "error", "probe", "sentence"),
    [
        (
            "prl",
            45.0,
            {},
            "45.0 more an episode than the truth, 50% of the best annotated return, which is de",
        ),
        (
            "nn-purl",
            -27.0,
            PROBE,
            "27.0 less an episode than the truth, 30% of the best annotated return, which is st",
        ),
        # Without a gate nothing is withheld: it predicts little, and nobody starves by it.
        (
            "prl",
            -27.0,
            {},
            "27.0 less an episode than the truth, 30% of the best annotated return.",
        ),
        ("prl", -9.0, {}, "9.0 less an episode than the truth, 10% of the best annotated return."),
    ],
)
def test_reward_errors_have_a_side_and_the_verdicts_name(make, method, error, probe, sentence):
    run = make(method, 30.0, evaluated={"reward_error": error}, probe=probe)
    assert sentence in read_error(run)


def test_the_file_stands_on_its_own(make, tmp_path):
    runs = [
        make("gail", 40.0, probe=PROBE),
        make("nn-pugail", 80.0, probe=PROBE, train={"prior": 0.3, "true_success": 0.2}),
        make("prl", 30.0, evaluated={"reward_error": 45.0}),
        make("nn-purl", 70.0, probe=PROBE, evaluated={"reward_error": -3.0}),
    ]
    (runs[2].path / "probe").mkdir()
    Image.new("RGB", (8, 8)).save(runs[2].path / "probe" / "evidence.png")
    path = tmp_path / "out" / "report.html"
    write_report(path, [run.path for run in runs], title="A & B", notes=["Made <here>."])
    page = path.read_text()
    assert re.findall(r"<h2>(.*?)</h2>", page) == [
        "What was run", "Verdicts", "From demonstrations", "From annotated episodes",
        "P(success)", "Class prior", "Evidence",
    ]  # fmt: skip
    pictures = re.findall(r'src="(.{22})', page)
    assert pictures == ["data:image/png;base64,"] * 5
    assert "nn-pugail-80.0-0: η is 0.30; 20% of the agent&#x27;s frames are successes" in page
    assert "http" not in page
    assert "<script" not in page
    assert "<h1>A &amp; B</h1>" in page
    assert "Made &lt;here&gt;." in page
    for run in runs:
        assert run.verdict().name in page
    assert "nn-pugail is 40.0 ahead of gail." in page


def test_parts_without_runs_are_left_out(make, tmp_path):
    path = tmp_path / "report.html"
    write_report(path, [make("prl", 30.0).path])
    titles = re.findall(r"<h2>(.*?)</h2>", path.read_text())
    assert titles == ["What was run", "Verdicts", "From annotated episodes"]


def test_runs_that_have_just_begun_can_be_reported(tmp_path):
    path = tmp_path / "report.html"
    write_report(path, [write_run(tmp_path / "run", "gail", [{"kind": "train", "step": 1}])])
    assert "None of these runs has been evaluated yet." in path.read_text()


def test_runs_of_two_tasks_are_not_compared(tmp_path, make):
    rows = [{"kind": "eval", "step": 1, "return": 900.0, "return_ci95": 1.0}]
    walker = write_run(tmp_path / "walker", "gail", rows, task="walker")
    path = tmp_path / "report.html"
    write_report(path, [walker, make("nn-pugail", 40.0).path])
    page = path.read_text()
    assert "gail at 900.0" in page
    assert "behind" not in page
