"""Verdicts: every name from rows that call for it, and none from rows without metrics."""

import pytest

from pureward.diagnostics.verdict import SHORT, Verdict, find_verdict, late_numbers
from pureward.errors import InputError

DEMONSTRATED = {"expert": 90.0, "failure": 10.0}


def rows(*, steps: int = 1000, **kinds: dict) -> list[dict]:
    """The same values at four instants of a run."""
    return [
        {"kind": kind, "step": step, "seconds": 1.0, "updates": 5, **values}
        for step in range(steps // 4, steps + 1, steps // 4)
        for kind, values in kinds.items()
    ]


def probe(train: float, held_out: float, failure: float, replay: float) -> dict:
    shares = {"train": train, "held_out": held_out, "failure": failure, "replay": replay}
    means = {f"mean/{name}": 0.1 + 0.8 * value for name, value in shares.items()}
    return {f"success/{name}": value for name, value in shares.items()} | means


def verdict(method: str, *, known: dict | None = None, **kinds: dict) -> Verdict:
    known = DEMONSTRATED if known is None else known
    return find_verdict(rows(**kinds), method=method, **known)


IMITATION = {
    "healthy": {
        "probe": probe(1.0, 0.95, 0.1, 0.5),
        "train": {"reward/mean": 0.8, "reward/saturated": 0.1},
        "eval": {"return": 80.0},
    },
    "unfinished": {
        "probe": probe(1.0, 0.95, 0.1, 0.3),
        "train": {"reward/mean": 0.4},
        "eval": {"return": 30.0},
    },
    "saturated": {
        "probe": probe(1.0, 1.0, 1.0, 1.0),
        "train": {"reward/mean": 2.99, "reward/saturated": 0.97},
        "eval": {"return": 30.0},
    },
    "collapsed": {
        "probe": probe(0.0, 0.0, 0.02, 0.0),
        "train": {"reward/mean": 0.2},
        "eval": {"return": 30.0},
    },
    "distracted": {
        "probe": probe(0.9, 0.85, 0.0, 0.02) | {"mean/held_out": 0.83, "mean/solved": 0.26},
        "train": {"reward/mean": 0.07},
        "eval": {"return": 30.0},
    },
    "discriminator won": {
        "probe": probe(1.0, 0.5, 0.0, 0.0),
        "train": {"reward/mean": 0.02},
        "eval": {"return": 30.0},
    },
    "reward hacked": {
        "probe": probe(1.0, 1.0, 0.3, 0.9),
        "train": {"reward/mean": 1.5},
        "eval": {"return": 20.0, "learned_return": 150.0},
    },
}
SUPERVISED = {
    "healthy": {"eval": {"return": 85.0, "reward_error": -3.0}, "probe": probe(1, 1, 1, 0.8)},
    "unfinished": {"eval": {"return": 30.0, "reward_error": 5.0}, "probe": probe(1, 1, 1, 0.8)},
    "reward hacked": {"eval": {"return": 30.0, "reward_error": 40.0}, "probe": probe(1, 1, 1, 1)},
    "starved": {"eval": {"return": 40.0, "reward_error": -35.0}, "probe": probe(1, 0.9, 0, 0.1)},
}


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({}, "distracted"),
        ({"mean/solved": 0.45}, "unfinished"),  # more than half of 0.83
        ({"mean/held_out": 0.4, "mean/solved": 0.15}, "unfinished"),  # D is low on everything
    ],
)
def test_distracted_needs_far_lower_d_on_the_agents_successes(change, name):
    kinds = IMITATION["distracted"] | {"train": {"reward/mean": 0.3}}
    assert verdict("gail", **(kinds | {"probe": kinds["probe"] | change})).name == name


def test_a_good_policy_is_healthy_though_d_is_low_on_it():
    kinds = IMITATION["distracted"] | {"train": {"reward/mean": 0.3}, "eval": {"return": 85.0}}
    assert verdict("gail", **kinds).name == "healthy"


@pytest.mark.parametrize("method", ["gail", "nn-purl"])
def test_without_returns_a_reward_that_rejects_its_positives_is_undecided(method):
    def found(train: float, held_out: float) -> Verdict:
        return verdict(method, known={}, probe=probe(train, held_out, 0.0, 0.3))

    assert found(0.9, 0.8).name == found(0.4, 0.5).name == "healthy"
    assert found(0.4, 0.4).name == "undecided"
    assert "at least 50% of the held-out frames of its positives, and accepts 40%" in (
        found(0.9, 0.4).sentence
    )
    only = {"success/train": 0.1, "mean/train": 0.4, "success/replay": 0.1, "mean/replay": 0.1}
    assert "trained frames of its positives" in verdict(method, known={}, probe=only).sentence


@pytest.mark.parametrize("name", IMITATION)
def test_imitation(name):
    found = verdict("nn-pugail", **IMITATION[name])
    assert found.name == name, found
    value = found.numbers["return"]
    assert f"true return is {value:.1f} at 1,000 env steps, against 90.0 in" in found.sentence


@pytest.mark.parametrize(
    ("best", "last", "name"),
    [(-20.0, -21.0, "healthy"), (-30.0, -100.0, "unsteady"), (-120.0, -125.0, "unfinished")],
)
def test_returns_below_zero_are_measured_from_failures_to_the_expert(best, last, name):
    course = [*rows(eval={"return": best}), {"kind": "eval", "step": 1001, "return": last}]
    assert find_verdict(course, method="prl", expert=-20.0, failure=-200.0).name == name


def test_a_policy_that_fell_is_unsteady_and_forgotten_failures_are_named():
    """The walker's nn-pugail, seed 1: from 958 to 36 while D came to accept failures."""
    fallen = rows(probe=probe(0.7, 0.7, 0.1, 0.2), eval={"return": 30.0})
    fallen[1]["return"] = 88.0  # at the first instant
    found = find_verdict(fallen, method="nn-pugail", **DEMONSTRATED)
    assert found.name == "unsteady"
    assert "its best was 88.0" in found.sentence
    assert "forgot" not in found.sentence
    fallen[2]["success/failure"] = 0.6  # a probe after it
    found = find_verdict(fallen, method="nn-pugail", **DEMONSTRATED)
    assert "P(success) of failures rose to 60%" in found.sentence


@pytest.mark.parametrize(
    ("before", "last", "learned", "name"),
    [
        (681.0, 55.0, 1016.0, "reward hacked"),  # nn-pugail on lift, seed 213: 302, then 214 of 383
        (681.0, 55.0, 600.0, "unsteady"),  # it is paid less for less
        (681.0, 62.0, 1016.0, "healthy"),  # 11% below the best
    ],
)
def test_a_reward_that_pays_more_for_less_is_hacked(before, last, learned, name):
    course = rows(probe=probe(0.95, 0.93, 0.08, 0.8), eval={"return": last})
    course[1] |= {"return": 70.0, "learned_return": before}
    course[-1]["learned_return"] = learned
    found = find_verdict(course, method="nn-pugail", **DEMONSTRATED)
    assert found.name == name, found
    rose = "the learned return rose from 681.0 to 1016.0 since the best policy"
    assert (rose in found.sentence) == (name == "reward hacked")


@pytest.mark.parametrize("name", SUPERVISED)
def test_gated(name):
    found = verdict("nn-purl", **SUPERVISED[name])
    assert found.name == name, found


def test_a_gate_that_withholds_nothing_is_told():
    told = "the gate is open on nearly all of the agent's frames"
    healthy = SUPERVISED["healthy"]
    assert told not in verdict("nn-purl", **healthy).sentence  # 80%
    assert told in verdict("nn-purl", **healthy | {"probe": probe(1, 1, 1, 0.96)}).sentence
    hacked = verdict("nn-purl", **SUPERVISED["reward hacked"]).sentence
    assert "is 40.0 above the true one, and the gate is open on 100% of its frames" in hacked
    assert "gate" not in verdict("prl", eval=SUPERVISED["reward hacked"]["eval"]).sentence


@pytest.mark.parametrize(
    ("method", "remedy"),
    [
        ("gail", "demonstrations: try a non-negative risk (nn-pugail), or more demonstrations"),
        ("pugail", "demonstrations: try a non-negative risk (nn-pugail), or more demonstrations"),
        ("nn-pugail", "demonstrations: try more demonstrations"),
        ("purl", "annotated episodes: try a non-negative risk (nn-purl), or more annotated"),
        ("nn-purl", "annotated episodes: try more annotated episodes"),
    ],
)
def test_a_discriminator_that_memorised_its_positives_is_told(method, remedy):
    """As on lift: gail's P(success) is 0.84 on trained demonstrations and 0.46 on held-out ones."""
    told = verdict(method, probe=probe(0.84, 0.46, 0.01, 0.2)).sentence
    assert f"D has memorised its {remedy}" in told
    assert "memorised" not in verdict(method, probe=probe(0.84, 0.66, 0.01, 0.2)).sentence


def test_a_gate_that_starves_the_agent_since_d_memorised_is_told():
    """As pnrl on lift, seed 1: P(success) 0.70 on annotated frames for training, 0.04 on others."""
    starved = SUPERVISED["starved"] | {"probe": probe(0.70, 0.04, 0.16, 0.17)}
    found = verdict("pnrl", **starved)
    assert found.name == "starved"
    assert "; D has memorised its annotated episodes: try a non-negative risk" in found.sentence
    assert "memorised" not in verdict("nn-purl", **SUPERVISED["starved"]).sentence


def test_a_gate_that_starves_an_agent_better_than_its_data_is_told():
    """As pnrl on the walker, seed 0: D accepts 69% of failures and 7% of the agent's frames."""
    last = {"return": 354.0, "reward_error": -280.0}
    course = rows(probe=probe(0.60, 0.53, 0.69, 0.07), eval=last)
    assert "D accepts" not in find_verdict(course, "pnrl", expert=932.0, failure=28.0).sentence
    course[1]["return"] = 871.0
    for method, remedy in (("pnrl", "a non-negative risk (nn-purl), or more"), ("nn-purl", "more")):
        found = find_verdict(course, method, expert=932.0, failure=28.0)
        assert found.name == "starved"
        assert "D accepts 69% of the failures, although the agent was better" in found.sentence
        assert f"; try {remedy} good episodes; the true return" in found.sentence


def test_a_policy_that_was_better_than_half_way_and_fell_is_not_unfinished():
    """As purl on lift, seed 0: best return 298, last 142; 77% and 32% of the way."""
    course = rows(probe=probe(0.69, 0.6, 0.29, 0.35), eval={"return": 142.0})
    course[1]["return"] = 298.0
    assert find_verdict(course, method="purl", expert=379.0, failure=31.0).name == "unsteady"


@pytest.mark.parametrize("name", ["healthy", "unfinished", "reward hacked"])
def test_regression_has_no_discriminator(name):
    found = verdict("prl", eval=SUPERVISED[name]["eval"])
    assert found.name == name, found


def test_the_sentence_has_the_numbers():
    found = verdict("gail", **IMITATION["discriminator won"])
    assert "100% for trained demonstrations, 50% for held-out ones and 0%" in found.sentence
    assert "mean reward is 0.02" in found.sentence
    assert "memorised" in found.sentence
    assert str(found).startswith("discriminator won: P(success)")


def test_a_discriminator_that_accepts_held_out_demonstrations_is_not_overfitted():
    kinds = IMITATION["discriminator won"] | {"probe": probe(1.0, 0.95, 0.0, 0.0)}
    found = verdict("gail", **kinds)
    assert found.name == "discriminator won"
    assert "memorised" not in found.sentence


def test_a_prediction_may_be_too_high_for_a_good_policy():
    found = verdict("prl", eval={"return": 88.0, "reward_error": 40.0})
    assert found.name == "healthy"
    assert "+40.0" in found.sentence


def test_without_the_truth_the_probes_alone_decide():
    for name in ("saturated", "collapsed", "discriminator won", "healthy"):
        kinds = {kind: v for kind, v in IMITATION[name].items() if kind != "eval"}
        found = verdict("nn-pugail", known={}, **kinds)
        assert found.name == name, found
        assert "return" not in found.sentence
    shut = verdict("nn-purl", known={}, probe=probe(1, 1, 1, 0.01))
    assert shut.name == "starved"


def test_without_an_expert_a_prediction_is_measured_by_itself():
    def found(error: float) -> Verdict:
        values = {"return": 100.0 - error, "learned_return": 100.0, "reward_error": error}
        return verdict("prl", known={}, eval=values)

    assert found(60.0).name == "reward hacked"
    assert found(40.0).name == "undecided"
    assert found(15.0).name == found(-15.0).name == "healthy"
    assert found(-60.0).name == "undecided"
    for error in (40.0, 15.0):
        assert found(error).sentence == (
            f"predicted − true return is +{error}; the policy is not judged, since the best "
            f"return in its data is unknown; the true return is {100 - error} at 1,000 env steps"
        )


def test_without_an_expert_a_healthy_discriminator_says_nothing_of_the_policy():
    found = verdict("nn-pugail", known={}, **IMITATION["healthy"])
    assert found.name == "healthy"
    assert "the policy is not judged" in found.sentence
    assert "not judged" not in verdict("nn-pugail", **IMITATION["healthy"]).sentence


def test_the_tasks_own_reward_is_not_judged():
    found = verdict("truth", known={}, eval={"return": 89.8})
    assert str(found) == (
        "undecided: the reward is the task's own, so there is none to judge; "
        "the true return is 89.8 at 1,000 env steps"
    )


def test_an_interrupted_run_names_the_step_of_its_last_evaluation():
    later = {"kind": "train", "step": 1600, "seconds": 2.0, "return": 60.0}
    found = find_verdict([*rows(eval={"return": 50.0}), later], "gail")
    assert found.sentence.endswith("; the true return is 50.0 at 1,000 env steps")
    assert find_verdict([later], "gail").sentence.endswith("; the true return is 60.0")


def test_without_failures_the_agents_frames_show_a_collapse():
    flat = {"mean/train": 0.26, "mean/replay": 0.25, "success/train": 0.0, "success/replay": 0.0}
    assert verdict("nn-pugail", probe=flat).name == "collapsed"
    assert verdict("nn-pugail", probe=flat, eval={"return": 60.0}).name == "collapsed"
    imitated = flat | {"mean/train": 0.51, "mean/replay": 0.5}
    assert verdict("nn-pugail", probe=imitated, eval={"return": 88.0}).name == "healthy"


def test_after_few_updates_a_d_that_is_the_same_everywhere_has_not_collapsed():
    flat = {"mean/train": 0.51, "mean/replay": 0.5, "success/train": 1.0, "success/replay": 1.0}
    few, enough = (find_verdict(rows(probe=flat), "gail", updates=n) for n in (SHORT - 1, SHORT))
    assert str(few) == (
        "undecided: mean D is 0.51 on demonstrations and 0.50 on the agent's frames after 199 "
        "updates of D, too few to tell; make at least 200"
    )
    assert enough.name == "collapsed"
    assert "D does not separate them, or the agent acts as demonstrated" in enough.sentence
    assert "D has not learned yet, or does not" in find_verdict(rows(probe=flat), "gail").sentence


def test_small_means_that_differ_by_a_factor_are_not_a_collapse():
    low = {"mean/train": 0.06, "mean/failure": 0.02, "success/train": 0.0, "success/replay": 0.0}
    assert verdict("nn-pugail", probe=low).name != "collapsed"


def test_a_discriminator_that_is_higher_on_failures_has_collapsed():
    wrong = {"mean/train": 0.1, "mean/failure": 0.4, "success/train": 0.0, "success/replay": 0.0}
    assert verdict("nn-pugail", probe=wrong).name == "collapsed"
    assert verdict("nn-pugail", probe=wrong, eval={"return": 88.0}).name == "collapsed"


def test_a_discriminator_that_calls_nothing_a_success_has_collapsed():
    # The end of `pugail` on the walker: nearly zero, though a factor of 200 apart.
    dead = {"mean/train": 2e-4, "mean/failure": 1e-6, "success/train": 0.0, "success/replay": 0.0}
    found = verdict("pugail", probe=dead)
    assert found.name == "collapsed"
    assert "calls nothing a success" in found.sentence


@pytest.mark.parametrize("method", ["truth", "nn-pugail", "prl", "nn-purl"])
def test_without_metrics_the_verdict_is_undecided(method):
    assert find_verdict([], method=method).name == "undecided"


def test_the_end_of_a_run_counts_and_a_fall_is_reported():
    course = [
        {"kind": "eval", "step": step, "return": value}
        for step, value in ((250, 20.0), (500, 85.0), (750, 40.0), (1000, 20.0))
    ]
    numbers = late_numbers(course)
    assert numbers["return"] == 20.0  # the last; other metrics are means of the last quarter
    assert numbers["return/best"] == 85.0
    found = find_verdict(course, method="nn-pugail", **DEMONSTRATED)
    assert "its best was 85.0" in found.sentence
    assert found.numbers["share_of_expert"] == pytest.approx((20 - 10) / (90 - 10))


def test_rare_evaluations_count_even_if_none_is_late():
    course = [
        {"kind": "eval", "step": 100, "return": 50.0},
        {"kind": "train", "step": 1000, "return": 70.0, "reward/mean": 0.5},
    ]
    assert late_numbers(course)["return"] == 50.0  # greedy episodes, not those of training


def test_nan_is_left_out():
    course = [{"kind": "eval", "step": 1, "return": float("nan"), "learned_return": 3.0}]
    assert set(late_numbers(course)) == {"learned_return"}


def test_probes_are_averaged_over_the_last_quarter():
    course = [
        {"kind": "probe", "step": step, "success/train": value}
        for step, value in ((250, 0.0), (500, 0.0), (750, 0.6), (1000, 1.0))
    ]
    assert late_numbers(course)["success/train"] == pytest.approx(0.8)


def test_a_discriminator_that_is_low_everywhere_is_described_by_its_means():
    """With a small η, P(success) is 0 on everything, and D still separates frames."""
    found = verdict(
        "nn-pugail",
        probe={f"success/{name}": 0.0 for name in ("train", "held_out", "failure", "replay")}
        | {"mean/train": 0.14, "mean/held_out": 0.13, "mean/failure": 0.02, "mean/replay": 0.05},
        eval={"return": 88.0},
    )
    assert found.name == "healthy"
    assert "mean D is 0.14 on trained frames, 0.13 on held-out frames, 0.02 on failures" in (
        found.sentence
    )


def test_a_value_that_is_not_a_number_was_not_measured():
    found = {"success/train": "1.0", "success/held_out": None, "reward/mean": float("nan")}
    assert verdict("gail", probe=found).name == "undecided"


@pytest.mark.parametrize("row", [{"step": 1}, {"kind": "eval"}, {"kind": "eval", "step": "1"}])
def test_rows_of_another_form_are_refused(row):
    with pytest.raises(InputError, match="a text 'kind' and a number 'step', got {"):
        find_verdict([row], method="gail")


def test_a_prediction_of_zero_is_not_hacked():
    shut = {"reward_error": 0.0, "learned_return": 0.0, "return": 0.0}
    course = [
        {"kind": "eval", "step": 1, **shut},
        {"kind": "probe", "step": 1, "success/replay": 0.0},
    ]
    assert find_verdict(course, method="nn-purl").name == "starved"


def test_an_evaluation_without_a_return_is_not_a_fall():
    course = [{"kind": "eval", "step": 1, "return": 900.0}, {"kind": "eval", "step": 2}]
    assert find_verdict(course, method="nn-pugail", **DEMONSTRATED).name
