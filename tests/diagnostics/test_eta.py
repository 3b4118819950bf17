"""η beside the truth: the ratio by hand, and what is told where something is not known."""

import pytest

from pureward.diagnostics.eta import read_eta, true_course
from pureward.diagnostics.history import History, read_history
from synthetic import write_card, write_run

ESTIMATED = {"prior": 0.45, "prior/value": 0.48, "prior/low": 0.4, "prior/high": 0.57}


@pytest.fixture
def make(tmp_path):
    """A run with two lines of training, of which the last counts."""

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
    assert found.true == pytest.approx(0.36 / 0.8)
    assert found.told() == (
        "η̂ is 0.48 (95% interval 0.40 to 0.57) and η is 0.45; by the simulator it is 0.45, "
        "inside it (36% of the agent's frames are successes, 80% of the demonstrations')"
    )
    assert found.numbers() == {
        "used": 0.45, "estimate": 0.48, "low": 0.4, "high": 0.57, "true": found.true,
        "agent_success": 0.36, "demonstrated_success": 0.8,
    }  # fmt: skip
    assert true_course(run).tolist() == [[10.0, 0.1 / 0.8], [20.0, 0.36 / 0.8]]
    assert true_course(run, "seconds")[:, 0].tolist() == [1.0, 2.0]


def test_an_agent_better_than_its_demonstrations_is_all_demonstrated(make):
    run = make(**ESTIMATED, true_success=0.9)
    assert read_eta(run).true == 1.0
    assert true_course(run)[-1, 1] == 1.0


def test_an_interval_that_misses_the_truth_is_told(make):
    told = read_eta(make(**ESTIMATED, true_success=0.8 * 0.3)).told()
    assert "by the simulator it is 0.30, outside it (24% of" in told


def test_a_fixed_eta_has_no_interval(make):
    told = read_eta(make(prior=0.5, true_success=0.2)).told()
    assert told.startswith("η is 0.50; by the simulator it is 0.25 (20% of the agent's frames")


@pytest.mark.parametrize(
    ("settings", "late", "sentence"),
    [
        ({}, {}, "has not logged the true share"),
        (
            {"card": None},
            {"true_success": 0.2},
            "20% of the agent's frames are successes; the card",
        ),
        ({"card": 0.0}, {"true_success": 0.2}, "does not tell how many of theirs"),
        ({"method": "nn-purl"}, {"true_success": 0.2}, "annotated episodes fail too"),
    ],
)
def test_what_is_not_known_is_said(make, settings, late, sentence):
    found = read_eta(make(**settings, prior=0.5, **late))
    assert found.true is None
    assert sentence in found.told()


@pytest.mark.parametrize("method", ["gail", "prl"])
def test_methods_without_a_share_of_successes_have_no_eta(make, method):
    assert read_eta(make(method, prior=0.5, true_success=0.2)) is None


def test_a_run_that_has_told_nothing_has_no_eta(tmp_path):
    assert read_eta(read_history(write_run(tmp_path / "run", "nn-pugail", []))) is None


def test_an_eta_that_is_no_number_is_not_told(make):
    assert read_eta(make(prior=float("nan"))).used == 0.5
