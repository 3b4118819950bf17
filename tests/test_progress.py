"""Progress: a bar on a terminal, a line every ten seconds in a log."""

import io
from pathlib import Path

import pytest

import pureward
from pureward.errors import warn
from pureward.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    monkeypatch.setattr("pureward.progress.monotonic", lambda: now[0])
    return now


def advance(clock: list[float], file, *, seconds: int, leave: bool = True) -> str:
    with Progress(total=100, desc="reach", file=file, leave=leave) as bar:
        for second in range(seconds):
            clock[0] += 1.0
            bar.update()
            bar.set_postfix_str(f"return {second}")
    return file.getvalue()


@pytest.mark.parametrize("leave", [True, False])
def test_a_log_gets_a_line_every_ten_seconds_and_one_at_the_end(clock, leave):
    output = advance(clock, io.StringIO(), seconds=35, leave=leave)
    lines = output.splitlines()
    assert "\r" not in output
    assert [line.split("%|")[0] for line in lines] == [f"reach:  {n}" for n in (10, 20, 30, 35)]
    assert "return 34" in lines[-1]


def test_a_short_task_is_one_line_of_a_log(clock):
    assert advance(clock, io.StringIO(), seconds=3).count("\n") == 1


def test_the_end_is_one_line_of_a_log_however_long_the_last_step_takes(clock):
    file = io.StringIO()
    with Progress(total=2, desc="reach", file=file) as bar:
        for _ in range(2):
            clock[0] += 20.0
            bar.update()
            bar.set_postfix_str("return 1")
    assert [line.split("%|")[0] for line in file.getvalue().splitlines()] == [
        "reach:  50",
        "reach: 100",
    ]


def test_a_terminal_gets_a_bar(clock):
    output = advance(clock, Terminal(), seconds=35)
    assert output.count("\r") >= 35
    assert output.count("\n") == 1


def test_a_range_is_counted_in_lines_too(clock):
    file = io.StringIO()
    for _ in Progress(range(25), file=file):
        clock[0] += 1.0
    assert len(file.getvalue().splitlines()) == 3
    assert file.getvalue().splitlines()[-1].startswith("100%|")


def test_a_warning_does_not_disturb_the_lines(clock, capsys):
    with Progress(total=5) as bar:
        bar.update()
        warn("look")
    written = capsys.readouterr()
    assert written.out == "warning: look\n"
    assert written.err.count("\n") == 1
    assert "\r" not in written.err


def test_no_other_module_imports_tqdm():
    root = Path(pureward.__file__).parent
    users = [path.name for path in root.rglob("*.py") if "import tqdm" in path.read_text()]
    assert users == ["progress.py"]
