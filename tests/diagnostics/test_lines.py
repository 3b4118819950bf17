"""Which runs form a line, and its label."""

from pureward.diagnostics.history import read_histories
from pureward.diagnostics.lines import lines
from synthetic import course, write_run


def test_runs_on_other_data_are_another_line(tmp_path):
    folders = ["here/demos", "there/demos", "there/others"]
    made = [
        write_run(tmp_path / str(n), "nn-pugail", course(10.0), seed=n, demonstrations=folder)
        for n, folder in enumerate(folders)
    ]
    labels = [line.label for line in lines(read_histories(made))]
    assert labels == [
        "nn-pugail, demonstrations demos (2 seeds)",
        "nn-pugail, demonstrations others",
    ]


def test_a_label_names_three_settings_and_counts_the_rest(tmp_path):
    settings = [
        {"batch": 4, "updates": 1, "every": 1, "memory": 1},
        {"batch": 8, "updates": 2, "every": 2, "memory": 2},
    ]
    made = [
        write_run(tmp_path / str(n), "nn-pugail", course(10.0), reward=reward)
        for n, reward in enumerate(settings)
    ]
    first = lines(read_histories(made))[0].label
    assert first.count("reward.") == 3
    assert first.endswith(" and 1 more settings")


def test_an_empty_setting_is_quoted(tmp_path):
    made = [
        write_run(tmp_path / f"run{shape}", "gail", [], distractors=shape)
        for shape in ("cuboid", "")
    ]
    labels = [line.label for line in lines(read_histories(made))]
    assert labels == ["gail, distractors cuboid", 'gail, distractors ""']


def test_labels_of_two_tasks_do_not_name_settings(tmp_path):
    made = [
        write_run(tmp_path / task, "gail", [], task=task, worlds=worlds)
        for task, worlds in (("walker", 512), ("lift", 1024))
    ]
    assert [line.label for line in lines(read_histories(made))] == ["gail", "gail"]
