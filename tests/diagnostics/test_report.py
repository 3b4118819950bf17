"""Reports: sentences agree with the numbers; the file needs no other."""

import re

import pytest
from PIL import Image

from pureward.diagnostics.history import History, read_history, trained_for
from pureward.diagnostics.lines import lines
from pureward.diagnostics.report import (
    compare,
    describe_error,
    describe_success,
    final_return,
    write_report,
)
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
        (62.0, 60.0, "nn-pugail and gail do not differ by more than the spread."),
    ],
)
def test_lines_are_compared(make, ours, theirs, sentence):
    found = compare(*lines([make("nn-pugail", ours)]), lines([make("gail", theirs)]))
    assert sentence in found
    assert f"nn-pugail {ours:.1f} ± 2.0 ({ours / 90:.0%} of 90.0)" in found[0]
    assert any("One seed each" in line for line in found)


def test_seeds_are_averaged_and_their_range_is_the_spread(make):
    runs = [make("gail", 40.0), make("gail", 60.0, seed=1)]
    end = final_return(*lines(runs))
    assert (end.mean, end.spread) == (50.0, 10.0)
    found = compare(*lines([make("nn-pugail", 70.0)]), lines(runs))
    assert not any("One seed each" in line for line in found)


def test_a_fall_is_reported(tmp_path):
    rows = [{"kind": "eval", "step": n, "return": r} for n, r in ((1, 80.0), (2, 20.0))]
    run = read_history(write_run(tmp_path / "run", "gail", rows))
    assert "gail fell from its best return of 80.0." in compare(*lines([run]), [])


def test_runs_without_evaluations_say_so(tmp_path):
    run = read_history(write_run(tmp_path / "run", "gail", []))
    assert compare(*lines([run]), []) == ["None of these runs has been evaluated yet."]
    assert trained_for(run) == (0, 0.0)


def test_what_a_discriminator_calls_a_success(make):
    sentence = describe_success(make("gail", 40.0, probe=PROBE))
    assert "100% on trained frames, 50% on held-out frames, 10% on failures" in sentence
    assert "overfitted" in sentence
    held = PROBE | {"success/held_out": 0.95}
    assert "generalises to held-out" in describe_success(make("nn-pugail", 80.0, probe=held))


@pytest.mark.parametrize(
    ("method", "error", "probe", "sentence"),
    [
        (
            "prl",
            45.0,
            {},
            "predicted − true return is +45.0, +50% of the best annotated return (reward hacked).",
        ),
        (
            "nn-purl",
            -27.0,
            PROBE,
            "predicted − true return is -27.0, -30% of the best annotated return (starved).",
        ),
        # Without a gate, a low prediction does not starve the agent.
        (
            "prl",
            -27.0,
            {},
            "prl: predicted − true return is -27.0, -30% of the best annotated return.",
        ),
        ("prl", -9.0, {}, "predicted − true return is -9.0, -10% of the best annotated return."),
    ],
)
def test_reward_errors_have_a_sign_and_the_verdicts_name(make, method, error, probe, sentence):
    run = make(method, 30.0, evaluated={"reward_error": error}, probe=probe)
    assert sentence in describe_error(run)


def test_the_file_needs_no_other(make, tmp_path):
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
        "What was run", "Verdicts", "From demonstrations", "From annotations",
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
    assert titles == ["What was run", "Verdicts", "From annotations"]


def test_runs_that_have_just_started_can_be_reported(tmp_path):
    path = tmp_path / "report.html"
    write_report(path, [write_run(tmp_path / "run", "gail", [{"kind": "train", "step": 1}])])
    assert "None of these runs has been evaluated yet." in path.read_text()


def test_probes_without_a_share_are_left_out(make, tmp_path):
    diverged = dict.fromkeys(PROBE, float("nan"))
    path = tmp_path / "report.html"
    write_report(path, [make("gail", 40.0, probe=diverged).path])
    assert "<h2>P(success)</h2>" not in path.read_text()


def test_runs_of_two_tasks_are_not_compared(tmp_path, make):
    rows = [{"kind": "eval", "step": 1, "return": 900.0, "return_ci95": 1.0}]
    walker = write_run(tmp_path / "walker", "gail", rows, task="walker")
    path = tmp_path / "report.html"
    write_report(path, [walker, make("nn-pugail", 40.0).path])
    page = path.read_text()
    assert "gail 900.0" in page
    assert "behind" not in page
