"""η and the simulator: the ratio by hand, and the sentence if something is not known."""

import pytest

from pureward.diagnostics.history import History, read_eta, read_history, true_eta
from synthetic import write_card, write_run

ESTIMATED = {"prior": 0.45, "prior/value": 0.48, "prior/low": 0.4, "prior/high": 0.57}


@pytest.fixture
def make(tmp_path):
    """A run with two lines of training; the last one counts."""

    def made(method: str = "nn-pugail", *, card: float | None = 0.8, **late: float) -> History:
        data = write_card(tmp_path / "data", train=90.0, failure=10.0, success_share=card)
        rows = [
            {"kind": "train", "step": 10, "seconds": 1.0, "prior": 0.5, "true_success": 0.1},
            {"kind": "train", "step": 20, "seconds": 2.0, **late},
        ]
        return read_history(write_run(tmp_path / "run", method, rows, data=data))

    return made


def test_eta_is_the_ratio_of_the_two_shares(make):
    run = make(**ESTIMATED, true_success=0.36)
    found = read_eta(run)
    true = found.numbers["true"]
    assert true == pytest.approx(0.36 / 0.8)
    assert found.sentence == (
        "η̂ is 0.48 (95% interval 0.40 to 0.57) and η is 0.45; by the simulator it is 0.45, "
        "inside the interval (36% of the agent's frames are successes, 80% of the demonstrations')"
    )
    assert found.numbers == {
        "used": 0.45, "estimate": 0.48, "low": 0.4, "high": 0.57, "true": true,
        "agent_success": 0.36, "demonstrated_success": 0.8,
    }  # fmt: skip
    assert true_eta(run).tolist() == [[10.0, 0.1 / 0.8], [20.0, 0.36 / 0.8]]
    assert true_eta(run, "seconds")[:, 0].tolist() == [1.0, 2.0]


def test_eta_is_1_for_an_agent_better_than_its_demonstrations(make):
    run = make(**ESTIMATED, true_success=0.9)
    assert read_eta(run).numbers["true"] == 1.0
    assert true_eta(run)[-1, 1] == 1.0


def test_the_sentence_says_if_the_interval_misses_the_truth(make):
    sentence = read_eta(make(**ESTIMATED, true_success=0.8 * 0.3)).sentence
    assert "by the simulator it is 0.30, outside the interval (24% of" in sentence


def test_a_fixed_eta_has_no_interval(make):
    sentence = read_eta(make(prior=0.5, true_success=0.2)).sentence
    assert sentence.startswith("η is 0.50; by the simulator it is 0.25 (20% of the agent's frames")


@pytest.mark.parametrize(
    ("settings", "late", "sentence"),
    [
        ({}, {}, "has not logged the true share"),
        (
            {"card": None},
            {"true_success": 0.2},
            "20% of the agent's frames are successes; the demonstrations' card",
        ),
        ({"card": 0.0}, {"true_success": 0.2}, "has no share of successes"),
        ({"method": "nn-purl"}, {"true_success": 0.2}, "annotated episodes may fail"),
    ],
)
def test_the_sentence_says_what_is_not_known(make, settings, late, sentence):
    found = read_eta(make(**settings, prior=0.5, **late))
    assert "true" not in found.numbers
    assert sentence in found.sentence


@pytest.mark.parametrize("method", ["gail", "prl"])
def test_methods_without_a_share_of_successes_have_no_eta(make, method):
    assert read_eta(make(method, prior=0.5, true_success=0.2)) is None


def test_a_run_without_metrics_has_no_eta(tmp_path):
    assert read_eta(read_history(write_run(tmp_path / "run", "nn-pugail", []))) is None


def test_nan_is_left_out(make):
    assert read_eta(make(prior=float("nan"))).numbers["used"] == 0.5
