"""Plots: the numbers drawn are those measured, and errors name what is missing."""

import numpy as np
import pytest

from pureward.cli import main
from pureward.diagnostics.history import read_histories, read_history
from pureward.diagnostics.lines import lines, mean_band
from pureward.diagnostics.plot import curves, method_colour
from pureward.errors import InputError
from pureward.picture import save_figure
from pureward.rewards.methods import METHODS
from synthetic import course, write_card, write_run


def drawn(axis) -> dict[str, np.ndarray]:
    """The lines of the legend; labels of single runs begin with `_`."""
    named = {line.get_label(): line.get_xydata() for line in axis.get_lines()}
    return {label: points for label, points in named.items() if label[0] != "_"}


@pytest.fixture
def runs(tmp_path):
    """gail on two seeds and nn-pugail on one, with an expert of 90."""
    data = write_card(tmp_path / "data", train=90.0, failure=10.0)
    shares = {"success/train": 1.0, "success/held_out": 0.5, "success/replay": 0.1}
    probe = {"probe": shares}
    made = [
        write_run(tmp_path / "g0", "gail", course(40.0, **probe), data=data),
        write_run(tmp_path / "g1", "gail", course(60.0, **probe), data=data, seed=1),
        write_run(tmp_path / "n0", "nn-pugail", course(80.0, **probe), data=data),
    ]
    return read_histories(made)


def test_mean_and_interval_of_two_series():
    one = np.array([[0.0, 0.0], [10.0, 10.0]])
    two = np.array([[5.0, 9.0], [10.0, 14.0], [20.0, 14.0]])
    at, mean, half_width = mean_band([one, two])
    assert at.tolist() == [5.0, 10.0]  # where both are known
    assert mean.tolist() == [7.0, 12.0]
    # Two values d apart: s = d/√2, and t = 12.706 with one degree of freedom.
    assert half_width == pytest.approx([12.7062 * 4 / 2, 12.7062 * 4 / 2], rel=1e-4)


def test_one_series_has_no_interval():
    _, mean, half_width = mean_band([np.array([[0.0, 1.0], [1.0, 2.0]])])
    assert half_width is None
    assert mean.tolist() == [1.0, 2.0]


def test_long_series_are_averaged_on_a_grid():
    many = [np.stack([np.linspace(0, 1, n), np.full(n, 3.0)], axis=1) for n in (500, 601)]
    at, mean, _ = mean_band(many)
    assert len(at) == 200
    assert np.allclose(mean, 3.0)


def test_a_line_for_each_method_and_a_dashed_one_for_the_expert(runs):
    (axis,) = curves(runs).axes
    got = drawn(axis)
    assert set(got) == {"gail (2 seeds)", "nn-pugail", "expert"}
    assert got["gail (2 seeds)"][-1].tolist() == [1000.0, 50.0]
    assert got["nn-pugail"][-1].tolist() == [1000.0, 80.0]
    assert got["expert"][0][1] == 90.0
    assert not axis.collections, "no band for fewer than three seeds"
    assert len(axis.get_lines()) == 5, "and thin lines of both seeds"


def test_returns_have_a_band_from_three_seeds_on(tmp_path):
    runs = read_histories(
        [
            write_run(tmp_path / str(seed), "gail", course(final), seed=seed)
            for seed, final in enumerate((40.0, 50.0, 60.0))
        ]
    )
    (axis,) = curves(runs).axes
    (band,) = axis.collections
    low, high = band.get_datalim(axis.transData).intervaly
    assert high == pytest.approx(50 + 24.84, abs=0.01)  # 4.303 · 10 / √3
    assert low == pytest.approx(10 - 4.97, abs=0.01)  # at the first evaluation
    assert axis.get_ylim()[1] < 70, "the axis fits the lines, not the band"


def test_a_method_that_was_registered_later_has_a_colour(tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "mine", METHODS["nn-pugail"])
    paths = [write_run(tmp_path / name, name, course(10.0)) for name in ("nn-pugail", "mine")]
    (axis,) = curves(read_histories(paths)).axes
    assert [line.get_label() for line in axis.lines] == ["nn-pugail", "mine"]
    assert [line.get_color() for line in axis.lines] == list(
        map(method_colour, ("nn-pugail", "mine"))
    )


def test_the_best_annotated_episode_has_its_label(tmp_path):
    data = write_card(tmp_path / "data", train=90.0, failure=10.0)
    run = write_run(tmp_path / "p", "prl", course(40.0), data=data)
    assert set(drawn(curves([read_history(run)]).axes[0])) == {"prl", "best annotated"}


def test_seconds_on_the_axis(runs):
    (axis,) = curves(runs, by="seconds").axes
    assert drawn(axis)["nn-pugail"][-1].tolist() == [10.0, 80.0]


def test_a_panel_for_each_task(runs, tmp_path):
    walker = write_run(tmp_path / "w", "gail", course(500.0), task="walker")
    titles = [axis.get_title() for axis in curves([*runs, read_history(walker)]).axes]
    assert titles == ["reach", "walker"]


def test_success_has_a_panel_for_each_method_and_a_line_for_each_source(runs):
    figure = curves(runs, metric="success")
    assert [axis.get_title() for axis in figure.axes] == ["gail (2 seeds)", "nn-pugail"]
    got = drawn(figure.axes[1])
    assert set(got) == {"trained frames", "held-out frames", "the agent's frames"}
    assert got["held-out frames"][:, 1].tolist() == [0.5] * 5


def test_shares_have_a_band_from_three_seeds_on_within_0_and_1(tmp_path):
    spread = [{"success/train": share, "success/replay": 0.5} for share in (1.0, 0.6, 0.95)]
    runs = read_histories(
        [
            write_run(tmp_path / str(n), "gail", course(10.0, probe=probe), seed=n)
            for n, probe in enumerate(spread)
        ]
    )
    (two,) = curves(runs[:2], metric="success").axes
    assert not two.collections
    assert len(two.get_lines()) == 6, "the means, and both seeds of each"
    (three,) = curves(runs, metric="success").axes
    train, replay = (band.get_datalim(three.transData).intervaly for band in three.collections)
    assert train[0] < 0.6
    assert train[1] == 1.0
    assert replay.tolist() == [0.5, 0.5]


def test_prior_has_a_panel_with_what_was_used_estimated_and_true(tmp_path):
    data = write_card(tmp_path / "data", train=90.0, failure=10.0, success_share=0.8)
    train = {"prior": 0.3, "prior/value": 0.4, "prior/low": 0.2, "prior/high": 0.5}
    rows = course(50.0, train=train | {"true_success": 0.2})
    fixed = course(50.0, train={"prior": 0.5})
    runs = read_histories(
        [
            write_run(tmp_path / "bbe", "nn-pugail", rows, data=data),
            write_run(tmp_path / "fixed", "pugail", fixed),
            write_run(tmp_path / "gail", "gail", fixed, data=data),
        ]
    )
    estimated, plain = curves(runs, metric="prior").axes
    got = {label: points[-1].tolist() for label, points in drawn(estimated).items()}
    assert got == {
        "η used": [1000.0, 0.3],
        "η̂ and its interval": [1000.0, 0.4],
        "η by the simulator": [1000.0, 0.25],
    }
    (interval,) = estimated.collections
    assert interval.get_datalim(estimated.transData).intervaly.tolist() == [0.2, 0.5]
    assert set(drawn(plain)) == {"η used"}
    assert not plain.collections
    both = [
        *runs,
        *read_histories([write_run(tmp_path / "s1", "nn-pugail", rows, data=data, seed=1)]),
    ]
    assert len(curves(both, metric="prior").axes[0].collections) == 2, "one interval for each run"
    with pytest.raises(InputError, match="none of these runs has a class prior"):
        curves(runs[2:], metric="prior")


def test_labels_name_settings_that_differ(tmp_path):
    made = [
        write_run(tmp_path / str(prior), "nn-pugail", course(10.0), reward={"prior": prior})
        for prior in (0.25, 0.5)
    ]
    labels = [line.label for line in lines(read_histories(made))]
    assert labels == ["nn-pugail, reward.prior 0.25", "nn-pugail, reward.prior 0.5"]


def test_a_setting_newer_than_a_run_has_its_default(tmp_path):
    kept = [{"memory": 0}, {}, {"memory": 20}]
    made = [
        write_run(tmp_path / str(n), "nn-pugail", course(10.0), reward=reward, seed=n)
        for n, reward in enumerate(kept)
    ]
    labels = [line.label for line in lines(read_histories(made))]
    assert labels == ["nn-pugail, reward.memory 0 (2 seeds)", "nn-pugail, reward.memory 20"]


def test_kinds_of_row_can_be_named(tmp_path):
    rows = course(10.0, train={"return": 3.0, "risk/violated": 0.5})
    run = read_history(write_run(tmp_path / "r", "nn-pugail", rows))
    assert drawn(curves([run], metric="train/return").axes[0])["nn-pugail"][-1][1] == 3.0
    assert drawn(curves([run], metric="risk/violated").axes[0])["nn-pugail"][-1][1] == 0.5


def test_what_was_not_measured_is_refused(runs, tmp_path):
    with pytest.raises(InputError, match="has measured 'retrun'; choose from success, return"):
        curves(runs, metric="retrun")
    bare = read_history(write_run(tmp_path / "b", "prl", course(1.0)))
    with pytest.raises(InputError, match="has probed P\\(success\\)"):
        curves([bare], metric="success")
    begun = read_history(write_run(tmp_path / "n", "prl", []))
    with pytest.raises(InputError, match="has measured anything yet; let them run"):
        curves([begun])


def test_the_success_of_evaluations_needs_its_kind(tmp_path):
    rows = [{"kind": "eval", "step": 1, "return": 2.0, "success": 0.5}]
    run = read_history(write_run(tmp_path / "r", "prl", rows))
    with pytest.raises(InputError, match="choose from eval/success, return$"):
        curves([run], metric="sucess")
    assert drawn(curves([run], metric="eval/success").axes[0])["prl"].tolist() == [[1.0, 0.5]]


def test_every_expert_has_a_line(tmp_path):
    returns = (60.0, 70.0, 80.0, 90.0)
    data = [write_card(tmp_path / f"{r}" / "data", train=r, failure=1.0) for r in returns]
    made = [
        write_run(tmp_path / f"run-{n}", "gail", course(50.0), data=folder, seed=n)
        for n, folder in enumerate(data)
    ]
    got = drawn(curves(read_histories(made)).axes[0])
    assert {f"expert, {r}" for r in returns} <= got.keys()


def test_shares_that_are_nan_were_not_measured(tmp_path):
    values = {"success/train": float("nan"), "success/held_out": float("nan")}
    run = read_history(write_run(tmp_path / "r", "gail", course(1.0, probe=values)))
    with pytest.raises(InputError, match="has probed P\\(success\\)"):
        curves([run], metric="success")


def test_panels_without_a_line_have_no_legend(tmp_path):
    rows = [{"kind": "eval", "step": 1, "return": 2.0}]  # no seconds
    (axis,) = curves([read_history(write_run(tmp_path / "r", "gail", rows))], by="seconds").axes
    assert not drawn(axis)


@pytest.mark.parametrize("suffix", ["png", "pdf"])
def test_files_by_suffix(runs, tmp_path, suffix):
    path = tmp_path / "out" / f"plot.{suffix}"
    save_figure(curves(runs), path)
    written = path.read_bytes()
    assert written[:5] == {"png": b"\x89PNG\r", "pdf": b"%PDF-"}[suffix]
    assert b"Date" not in written, "the same figure is the same file"
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_other_suffixes_are_refused(runs, tmp_path):
    with pytest.raises(InputError, match="must end in .png, .pdf, .svg, got 'plot.doc'"):
        save_figure(curves(runs), tmp_path / "plot.doc")


def test_the_command_writes_the_file(runs, tmp_path, capsys):
    out = tmp_path / "curves.png"
    main(["plot", *(str(run.path) for run in runs), "--out", str(out), "--by", "seconds"])
    assert out.exists()
    assert str(out) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere"], "nowhere is not a run: it has no config.json"),
        ([], "at least one run directory is needed"),
    ],
)
def test_the_command_reports_errors_in_one_sentence(arguments, sentence, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["plot", *arguments])
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert "Traceback" not in err


def test_long_labels_and_titles_stay_on_the_figure(tmp_path):
    settings = [{"batch": n, "updates": n, "every": n} for n in (1, 2, 4)]
    made = [
        write_run(tmp_path / str(n), "nn-pugail", course(10.0), reward=reward)
        for n, reward in enumerate(settings)
    ]
    figure = curves(read_histories(made))
    figure.draw_without_rendering()
    whole, legend = figure.bbox, figure.legends[0].get_window_extent()
    assert whole.x0 <= legend.x0 <= legend.x1 <= whole.x1
    assert whole.y0 <= legend.y0 <= legend.y1 <= figure.axes[0].get_window_extent().y0
