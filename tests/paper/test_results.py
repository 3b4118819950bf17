"""Tables, claims and pictures of runs with known numbers."""

import json
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from scipy.stats import ttest_ind

from pureward.diagnostics.history import read_history
from pureward.diagnostics.strip import Strip
from pureward.interval import bootstrap, difference, interquartile_mean
from pureward.paper.draw import DRAW
from pureward.paper.figures import FIGURES
from pureward.paper.results import Episodes, Group, Results, UnmeasuredError
from pureward.paper.rules import (
    Rule,
    ahead,
    deluded,
    errs,
    fails,
    falls,
    faster,
    keeps_demonstrations,
    least_error,
    less_deluded,
    mean_is,
    most_return,
    near_expert,
    overfits,
    recognises_failures,
    rises_to_prior,
)
from pureward.paper.table import claim_rows, line_rows, write_table
from pureward.picture import save_figure
from synthetic import course, write_card, write_run

STRIP = Strip(title="", frames=np.zeros((8, 1, 4, 4, 3), dtype=np.uint8), panels=[])


@pytest.fixture
def lines(tmp_path):
    """Makes results on lift from the final returns of each label; expert 90, failures 10.

    `probe`, `train` and `evaluated` add metrics to a label's rows of that kind.
    """
    data = write_card(tmp_path / "data", train=90.0, failure=10.0)
    number = count()

    def group(label: str, finals: list[float], probe: dict, train: dict, evaluated: dict) -> Group:
        runs = []
        for final in finals:
            found = course(final, probe=probe, train=train)
            for row in found:
                row.update(evaluated if row["kind"] == "eval" else {})
            path = tmp_path / f"run-{next(number)}"
            made = write_run(path, label.partition(", ")[0], found, task="lift", data=data)
            runs.append(read_history(made))
        return Group(task="lift", label=label, runs=runs)

    def made(finals: dict[str, list[float]], *, watched=None, **kinds: dict[str, dict]) -> Results:
        extra = [kinds.get(kind, {}) for kind in ("probe", "train", "evaluated")]
        groups = [group(k, v, *(kind.get(k, {}) for kind in extra)) for k, v in finals.items()]
        if watched is None:
            return Results(groups=groups)
        paid = {name: np.array(returns) for name, returns in watched.items()}
        seen = Episodes(strip=STRIP, returns=paid, seeds=["seed-3"], planned=5)
        return Results(groups=groups, watched={"lift": seen})

    return made


def outcome(rule: Rule, results: Results) -> str:
    return rule.apply(results, "lift")[0]


def test_table_of_two_seeds(lines, tmp_path):
    # Evaluations at 200, 400 … 1000 rise on a line; the last quarter has those at 800 and 1000.
    results = lines({"gail": [100.0, 60.0]})
    (row,) = line_rows(results, tmp_path)
    assert row["return"]["each"] == pytest.approx([90.0, 54.0])
    assert row["return"]["mean"] == pytest.approx(72.0)
    assert row["return"]["ci95"] == pytest.approx(12.7062 * 18, rel=1e-4)  # t · s / √2, s = 36/√2
    # Of two seeds none is left out; resampled pairs have the means 54, 72 and 90.
    assert row["iqm"] == pytest.approx({"value": 72.0, "low": 54.0, "high": 90.0})
    assert row["of_expert"] == pytest.approx(0.8)
    assert row["way"]["mean"] == pytest.approx(0.775)  # (72 − 10) / (90 − 10)
    assert row["area"]["each"] == pytest.approx([60.0, 36.0])  # from 0.2 to 1.0 of the return
    assert (row["env_steps"], row["training_seconds"]) == (1000.0, 10.0)
    assert row["reward_error"] is None
    assert row["runs"] == ["run-0", "run-1"]

    write_table(tmp_path / "t", FIGURES["overfitting"], results, {"torch": "2"})
    page = (tmp_path / "t.md").read_text()
    assert (
        "| lift | gail | 2 | 1,000 | 72.0 ± 228.7 | 72.0 [54.0, 90.0] | – | 80% | 78% "
        "| 48.0 ± 152.5 | – | 10 s |" in page
    )
    assert json.loads((tmp_path / "t.json").read_text())["lines"] == [row]


def test_the_interval_of_a_difference_is_welchs():
    one, two = np.array([1.0, 4.0, 2.0, 9.0]), np.array([3.0, 8.0, 5.0])
    by_scipy = ttest_ind(one, two, equal_var=False).confidence_interval(0.95)
    assert difference(one, two) == pytest.approx((by_scipy.low, by_scipy.high))
    # One line always ends at the same return. (1, 3) has 1 degree of freedom: 2 ± 12.706.
    assert difference(np.array([1.0, 3.0]), np.zeros(5)) == pytest.approx(
        (-10.706, 14.706), abs=1e-3
    )
    assert difference(np.full(3, 0.1), np.full(2, 0.1)) == (0.0, 0.0)


def test_interquartile_mean_leaves_out_a_quarter_at_each_end():
    values = np.array([[100.0, 1.0], [10.0, 2.0], [0.0, 3.0], [20.0, 4.0], [30.0, 5.0]])
    assert interquartile_mean(values) == pytest.approx([20.0, 3.0])
    assert interquartile_mean(values[:3]) == pytest.approx([110 / 3, 2.0])
    assert bootstrap(np.full(5, 7.0)) == (7.0, 7.0)
    low, high = bootstrap(values[:, 0])
    assert 0 <= low < 20 < high <= 100
    assert (low, high) == bootstrap(values[:, 0])


def test_solved_is_the_share_of_the_last_quarter(lines, tmp_path):
    (row,) = line_rows(lines({"gail": [1.0]}, evaluated={"gail": {"success": 0.25}}), tmp_path)
    assert row["solved"]["mean"] == 0.25


def test_area_covers_the_steps_of_all_runs(lines, tmp_path):
    results = lines({"gail": [100.0]})
    short = lines({"pugail": [100.0]}).groups[0]
    short.runs[0].rows[:] = [row for row in short.runs[0].rows if row["step"] <= 600]
    both = Results(groups=[*results.groups, short])
    assert both.span("lift") == (200.0, 600.0)
    assert [row["area"]["mean"] for row in line_rows(both, tmp_path)] == pytest.approx([40.0, 40.0])


def test_failed_line_does_not_shorten_the_span(lines, tmp_path):
    ended, failed = (lines({label: [100.0]}).groups[0] for label in ("gail", "pugail"))
    failed.runs[0].rows[:] = [row for row in failed.runs[0].rows if row["step"] <= 600]
    for group in (ended, failed):
        group.runs[0].config["env_steps"] = 1000
    both = Results(groups=[ended, failed])
    assert both.span("lift") == (200.0, 1000.0)
    first, second = line_rows(both, tmp_path)
    assert first["area"]["mean"] == pytest.approx(60.0)
    assert second["area"] is None
    assert second["return"]["mean"] == pytest.approx(60.0)  # at 600, the only late one
    (claim, *_) = claim_rows(FIGURES["overfitting"], both)
    assert claim["numbers"].endswith("; pugail made 60% of its env steps")


APART = {"gail": [40.0, 42.0, 41.0], "nn-pugail": [80.0, 82.0, 81.0]}


@pytest.mark.parametrize("rule", [ahead, faster])
def test_comparison_of_two_lines(lines, rule):
    assert outcome(rule("nn-pugail", "gail"), lines(APART)) == "holds"
    assert outcome(rule("gail", "nn-pugail"), lines(APART)) == "does not hold"
    wide = {"gail": [40.0, 90.0], "nn-pugail": [60.0, 85.0]}
    assert outcome(rule("nn-pugail", "gail"), lines(wide)) == "too close to call"
    single = {"gail": [40.0], "nn-pugail": [60.0]}
    assert outcome(rule("nn-pugail", "gail"), lines(single)) == "not measured"
    uneven = {"gail": [40.0, 41.0, 42.0], "nn-pugail": [80.0]}
    assert outcome(rule("nn-pugail", "gail"), lines(uneven)) == "not measured"
    assert outcome(rule("nn-pugail", "prl"), lines(APART)) == "not measured"
    same = {"gail": [40.0, 40.0], "nn-pugail": [60.0, 60.0]}
    assert outcome(rule("nn-pugail", "gail"), lines(same)) == "holds"


def test_returns_scaled_between_failures_and_expert(lines):
    # The last quarter is 0.9 of the final return: 80 of the way's 80 steps is 74 / 0.9.
    assert outcome(near_expert("gail"), lines({"gail": [83.0]})) == "holds"
    assert outcome(near_expert("gail"), lines({"gail": [81.0]})) == "does not hold"
    assert outcome(fails("gail"), lines({"gail": [28.0]})) == "holds"  # 25.2: 19%
    assert outcome(fails("gail"), lines({"gail": [29.0]})) == "does not hold"  # 26.1: 20.1%


def test_falls_needs_a_drop_of_a_fifth(lines):
    results = lines({"pnrl": [50.0]})
    assert outcome(falls("pnrl"), results) == "does not hold"
    rows_of = results.groups[0].runs[0].rows
    next(row for row in rows_of if row["kind"] == "eval")["return"] = 60.0  # 45 in the end
    assert outcome(falls("pnrl"), results) == "holds"


def test_peak_is_that_of_the_mean_curve(lines):
    results = lines({"pnrl": [50.0, 50.0]})  # 10, 20 … 50 at 200, 400 … 1000; 45 in the end
    for run, early in zip(results.groups[0].runs, (0, 2), strict=True):
        [row for row in run.rows if row["kind"] == "eval"][early]["return"] = 70.0
    # Means over seeds: 40, 20, 50, 40, 50; the mean of the seeds' own bests would be 70.
    assert results.groups[0].peak() == pytest.approx(50.0)
    assert outcome(falls("pnrl"), results) == "does not hold"


LOW, MIDDLE, HIGH = SWEEP = tuple(f"nn-purl, η {eta}" for eta in ("0.1", "0.5", "0.9"))


@pytest.fixture
def swept(lines):
    """Makes a sweep of three lines from values per seed: returns, or 100 minus the error."""

    def made(rule, low: list[float], middle: list[float], high: list[float]) -> Results:
        values = dict(zip(SWEEP, (low, middle, high), strict=True))
        results = lines(values)
        if rule is least_error:
            # A larger value is a smaller error, of either sign.
            for label, group in zip(SWEEP, results.groups, strict=True):
                for value, run in zip(values[label], group.runs, strict=True):
                    sign = -1 if value % 2 else 1
                    for row in run.rows:
                        row["reward_error"] = sign * (100.0 - value)
        return results

    return made


@pytest.mark.parametrize("rule", [most_return, least_error])
def test_best_of_a_sweep_is_ahead_of_every_other_line(swept, rule):
    apart = swept(rule, [20.0, 23.0], [80.0, 83.0], [40.0, 41.0])
    assert outcome(rule(MIDDLE, SWEEP), apart) == "holds"
    assert outcome(rule(LOW, SWEEP), apart) == "does not hold"
    assert outcome(rule(HIGH, SWEEP), apart) == "does not hold"
    assert rule(HIGH, SWEEP).apply(apart, "lift")[1].endswith(f"; better: {MIDDLE}")


@pytest.mark.parametrize("rule", [most_return, least_error])
@pytest.mark.parametrize("middle", [[80.0, 83.0], [60.0, 61.0]])
def test_sweep_is_too_close_to_call_if_one_line_is_close(swept, rule, middle):
    near = swept(rule, [20.0, 23.0], middle, [40.0, 85.0])
    found, numbers = rule(MIDDLE, SWEEP).apply(near, "lift")
    assert found == "too close to call"
    assert numbers.endswith(f"; too near to it: {HIGH}")


@pytest.mark.parametrize("rule", [most_return, least_error])
def test_best_of_a_sweep_needs_all_lines_with_two_seeds(swept, rule):
    one = swept(rule, [20.0, 23.0], [80.0, 83.0], [40.0])
    found, numbers = rule(MIDDLE, SWEEP).apply(one, "lift")
    assert found == "not measured"
    assert numbers.endswith("; two seeds of each are needed")
    two = swept(rule, [20.0, 23.0], [80.0, 83.0], [40.0, 41.0])
    assert outcome(rule(MIDDLE, (*SWEEP, "prl")), two) == "not measured"


def test_sign_of_an_error_needs_two_seeds(lines):
    error = {"prl": {"reward_error": 30.0}}
    two, one = (lines({"prl": finals}, evaluated=error) for finals in ([50.0, 50.0], [50.0]))
    assert outcome(errs("prl", side="above"), two) == "holds"
    assert outcome(errs("prl", side="below"), two) == "does not hold"
    assert outcome(errs("prl", side="above"), one) == "not measured"


def test_rules_on_discriminator_outputs(lines):
    shares = {"train": 1.0, "held_out": 0.7, "failure": 0.05, "replay": 0.5}
    probe = {f"success/{name}": share for name, share in shares.items()}
    probe |= {"mean/held_out": 0.6, "mean/failure": 0.2}
    results = lines({"gail": [50.0]}, probe={"gail": probe}, train={"gail": {"prior": 0.5}})
    assert outcome(overfits("gail"), results) == "holds"
    assert outcome(recognises_failures("gail"), results) == "holds"
    assert outcome(keeps_demonstrations("gail"), results) == "does not hold"
    assert outcome(mean_is("gail", expert="above", failure="below"), results) == "holds"
    assert outcome(mean_is("gail", expert="below", failure="below"), results) == "does not hold"
    assert outcome(rises_to_prior("gail"), results) == "does not hold"  # it never rose
    first = next(row for row in results.groups[0].runs[0].rows if row["kind"] == "probe")
    first["success/replay"] = 0.1
    assert outcome(rises_to_prior("gail"), results) == "holds"


@pytest.mark.parametrize(
    ("train", "held_out", "found"),
    [(0.81, 0.6, "holds"), (0.79, 0.1, "does not hold"), (1.0, 0.81, "does not hold")],
)
def test_overfitting_needs_high_train_and_low_held_out_shares(lines, train, held_out, found):
    probe = {"success/train": train, "success/held_out": held_out}
    assert outcome(overfits("gail"), lines({"gail": [50.0]}, probe={"gail": probe})) == found


@pytest.mark.parametrize(
    ("early", "late", "found"),
    [
        (0.3, 0.36, "holds"),
        (0.3, 0.34, "does not hold"),  # 0.04 is no rise
        (0.1, 0.34, "does not hold"),  # 0.16 below η
        (0.1, 0.66, "does not hold"),  # 0.16 above
        (0.1, 0.64, "holds"),
    ],
)
def test_share_must_rise_and_end_near_the_prior(lines, early, late, found):
    probe = {"nn-pugail": {"success/replay": late}}
    results = lines({"nn-pugail": [50.0]}, probe=probe, train={"nn-pugail": {"prior": 0.5}})
    first = next(row for row in results.groups[0].runs[0].rows if row["kind"] == "probe")
    first["success/replay"] = early
    assert outcome(rises_to_prior("nn-pugail"), results) == found


def test_error_with_an_interval_around_zero_has_no_sign(lines):
    """Seeds of −1 and 3: a mean of 1 ± 12.7062·2."""
    results = lines({"prl": [50.0, 50.0]})
    for run, error in zip(results.groups[0].runs, (-1.0, 3.0), strict=True):
        for row in run.rows:
            row["reward_error"] = error
    finding = errs("prl", side="above").apply(results, "lift")
    assert finding == ("too close to call", "prl 1.0 ± 25.4")


def test_every_line_must_be_near_the_expert(lines):
    results = lines({"gail": [83.0], "pugail": [81.0]})
    assert outcome(near_expert("gail", "pugail"), results) == "does not hold"


def test_mean_of_failures_counts(lines):
    probe = {"mean/held_out": 0.6, "mean/failure": 0.6}
    results = lines({"gail": [50.0]}, probe={"gail": probe})
    assert outcome(mean_is("gail", expert="above", failure="above"), results) == "holds"
    assert outcome(mean_is("gail", expert="above", failure="below"), results) == "does not hold"


def test_welch_interval_by_hand(lines):
    """Late returns 36 and 81 against 54 and 76.5: 6.75 apart.

    Welch: variances of the means 506.25 and 126.5625, so a standard error of 25.1558 and
    632.8125²/(506.25² + 126.5625²) = 1.47059 degrees of freedom, of which t is 6.1881.
    """
    _, numbers = ahead("nn-pugail", "gail").apply(
        lines({"gail": [40.0, 90.0], "nn-pugail": [60.0, 85.0]}), "lift"
    )
    assert numbers.endswith("; the difference lies between -148.9 and 162.4")


def test_delusion_needs_a_fifth_of_the_experts_return(lines):
    finals = {"prl": [30.0], "nn-purl": [60.0]}  # the expert's is 90
    for promised, found in ((47.9, "does not hold"), (48.1, "holds")):
        paid = {"true": [20.0, 40.0], "prl": [promised] * 2, "nn-purl": [30.0, 30.0]}
        assert outcome(deluded(), lines(finals, watched=paid)) == found


def test_delusion_on_episodes(lines):
    finals = {"prl": [30.0], "nn-purl": [60.0]}
    paid = {"true": [30.0, 40.0], "prl": [80.0, 90.0], "nn-purl": [35.0, 35.0]}
    assert outcome(deluded(), lines(finals, watched=paid)) == "holds"
    assert outcome(less_deluded(), lines(finals, watched=paid)) == "holds"
    honest = paid | {"prl": [30.0, 42.0]}
    assert outcome(deluded(), lines(finals, watched=honest)) == "does not hold"
    assert outcome(less_deluded(), lines(finals, watched=honest)) == "does not hold"
    for rule in (deluded(), less_deluded()):
        _, numbers = rule.apply(lines(finals, watched=paid), "lift")
        assert numbers.endswith(" over 2 episodes of 1 of 5 seeds (seed-3)")


def test_episodes_of_several_seeds_are_listed_by_seed():
    paid = {"true": [10.0, 20.0, 90.0, 80.0], "prl": [60.0, 50.0, 40.0, 30.0]}
    seen = Episodes(
        strip=STRIP,
        returns={name: np.array(values) for name, values in paid.items()},
        seeds=["seed-3", "seed-4"],
        planned=2,
    )
    assert str(seen) == (
        "4 episodes of seed-3, seed-4 [seed-3 true 15.0, prl 55.0; seed-4 true 85.0, prl 35.0]"
    )


def test_missing_episodes_are_named(lines):
    found, numbers = deluded().apply(lines({"prl": [30.0], "nn-purl": [60.0]}), "lift")
    assert found == "not measured"
    assert "no seed has the `reward/` of prl and of nn-purl and the `snapshots/`" in numbers
    alone = deluded().apply(lines({"prl": [30.0]}), "lift")
    assert alone == ("not measured", "nn-purl on lift was not measured")


@pytest.mark.parametrize("name", [name for name, f in FIGURES.items() if f.picture != "strips"])
def test_every_figure_is_drawn_and_its_claims_checked(name, lines, tmp_path):
    figure = FIGURES[name]
    labels = [variant.label for variant in figure.variants]
    finals = {label: [20.0 + 9 * n, 25.0 + 9 * n, 22.0] for n, label in enumerate(labels)}
    shares = {"success/train": 1.0, "success/held_out": 0.7, "success/replay": 0.4}
    probe = {**shares, "success/failure": 0.1, "mean/held_out": 0.8, "mean/failure": 0.3}
    error = {label: {"reward_error": 12.0 - 5 * n} for n, label in enumerate(labels)}
    results = lines(
        finals,
        probe=dict.fromkeys(labels, probe),
        train={label: {"prior": 0.5} for label in labels},
        evaluated=error,
    )
    canvas = DRAW[figure.picture](results)
    for kind in ("png", "pdf"):
        save_figure(canvas, tmp_path / f"{name}.{kind}")
        assert (tmp_path / f"{name}.{kind}").stat().st_size > 5_000
    drawn = [y for axis in canvas.axes for line in axis.lines for y in line.get_ydata()]
    assert max(drawn) >= 90.0 or figure.picture == "success"  # the expert's line
    found = claim_rows(figure, results)
    assert len(found) == len(figure.claims_for("lift")) > 0
    assert "not measured" not in {row["outcome"] for row in found}


def bounds(axis) -> list[float]:
    heights = [y for line in axis.lines for y in line.get_ydata()]
    return [min(heights), max(heights)]


@pytest.fixture
def no_scene(monkeypatch):
    """Draw the gap without a simulator."""
    monkeypatch.setattr("pureward.paper.draw._scene", lambda *_: np.zeros((2, 2, 3)))


def test_gap_panels_share_one_scale(lines, no_scene):
    canvas = DRAW["gap"](lines({"gail": [300.0], "prl": [-50.0]}))
    low, high = canvas.axes[2:]
    assert low.get_ylim() == high.get_ylim()
    bottom, top = low.get_ylim()
    assert (bottom, top) == pytest.approx((-57.0, 312.0))
    assert bounds(low) == [60.0, 300.0]
    assert bounds(high) == [-50.0, 90.0]


def test_gap_has_no_panel_for_data_without_runs(lines, no_scene):
    canvas = DRAW["gap"](lines({"prl": [50.0], "nn-purl": [70.0]}))
    assert [axis.get_title() for axis in canvas.axes[2:]] == ["lift: from annotations"]
    assert canvas.axes[2].get_ylabel() == "true return, greedy"


def test_gap_without_returns_is_not_drawn(lines, no_scene):
    results = lines({"gail": [1.0], "prl": [1.0]}, train={"gail": {"risk": 1.0}})
    for group in results.groups:
        group.runs[0].rows[:] = [row for row in group.runs[0].rows if row["kind"] == "train"]
    with pytest.raises(UnmeasuredError, match="any return on lift"):
        DRAW["gap"](results)


@pytest.mark.parametrize("picture", ["prior", "error"])
def test_sweep_names_the_expert_and_one_seed_has_no_interval(lines, picture):
    results = lines({"nn-purl, η 0.1": [60.0], "nn-purl, η 0.5": [50.0, 40.0]})
    policy = DRAW[picture](results).axes[1]
    assert [text.get_text() for text in policy.get_legend().get_texts()] == ["best annotated"]
    one, two = policy.containers[0][2][0].get_segments()
    assert len(one) == 0
    assert np.ptp(two[:, 1]) > 0


def test_sweep_without_measurements_is_drawn_empty(lines):
    results = lines({"nn-pugail, η 0.1": [60.0]}, train={"nn-pugail, η 0.1": {"risk": 1.0}})
    run = results.groups[0].runs[0]
    run.rows[:] = [row for row in run.rows if row["kind"] == "train"]
    bare = Results(groups=[replace(results.groups[0], runs=[replace(run, expert=None)])])
    for picture in ("prior", "error"):
        assert DRAW[picture](bare).axes[1].get_legend() is None


def test_points_are_means_with_intervals(lines):
    results = lines({"nn-pugail, η 0.1": [100.0, 60.0], "nn-pugail, η 0.5": [50.0, 50.0]})
    policy = DRAW["prior"](results).axes[1]
    container = policy.containers[0]
    assert container[0].get_ydata().tolist() == pytest.approx([72.0, 45.0])
    low, high = container[2][0].get_segments()[0][:, 1]
    assert (high - low) / 2 == pytest.approx(12.7062 * 18, rel=1e-4)
    assert [text.get_text() for text in policy.get_xticklabels()] == ["0.1", "0.5"]
    seeds = policy.lines[0].get_ydata().tolist()
    assert seeds == pytest.approx([90.0, 54.0])
    assert policy.get_ylim() == pytest.approx((45.0 - 2.25, 90.0 + 2.25))  # no interval's ends
