"""Which runs are of one line."""

from pureward.history import read_histories
from pureward.lines import lines
from synthetic import course, write_run


def test_runs_on_other_data_are_no_seeds_of_one_line(tmp_path):
    folders = ["here/demos", "there/demos", "there/others"]
    made = [
        write_run(tmp_path / str(n), "nn-pugail", course(10.0), seed=n, demonstrations=folder)
        for n, folder in enumerate(folders)
    ]
    told = [(line.label, len(line.runs)) for line in lines(read_histories(made))]
    assert told == [
        ("nn-pugail, demonstrations demos", 2),
        ("nn-pugail, demonstrations others", 1),
    ]
